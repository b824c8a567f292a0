"""What a stream's subscriber tells of its connection, for whoever watches the query from another process.

It is a file in the stream's log, which is replaced at each change. Nothing depends on it.
"""

import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

_FILE: Final = "connection.json"


class News(msgspec.Struct, frozen=True):
    """How it stands with the connection to the broker."""

    is_connected: bool
    since: float
    """Seconds since the epoch."""
    missed: int = 0
    """How often events may have been missed since the query was started."""


def tell(folder: Path, *, is_connected: bool, missed: int) -> None:
    """Leave word. Events matter more: where it cannot be written, it is not."""
    beside = folder / f".{_FILE}"
    with suppress(OSError):
        beside.write_bytes(msgspec.json.encode(News(is_connected, time.time(), missed)))
        beside.replace(folder / _FILE)


def heard(folder: Path) -> News | None:
    """The last word, if there is any."""
    try:
        return msgspec.json.decode((folder / _FILE).read_bytes(), type=News)
    except (OSError, msgspec.MsgspecError):
        return None
