"""The write-ahead folder: events in the order in which they came, until the query has dealt with them.

A position is the number of events before it, since the log was begun. A file holds the events of some
positions, which its name says: `00000000000000000100-00000000000000000350.events`, an Arrow file. It is
written under another name, synced, and then renamed: a file that has its name is whole, and what is not was
never acknowledged to anybody. The last file is kept when all is dealt with, so that positions go on from
there.

One process writes, at the driver; tasks read, wherever the folder is mounted.
"""

import os
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from tempfile import mkstemp
from typing import IO, TYPE_CHECKING, Final, NamedTuple

from penstock.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_TOGETHER: Final = 16_384
"""Events that are read into one batch, where files are small."""

_NAME: Final = re.compile(r"(\d{20})-(\d{20})\.events")
_UNFINISHED: Final = ".unfinished"
_LOCK_SECONDS: Final = 10.0
"""How long the process of a query that was just stopped may take to end."""


class Entry(NamedTuple):
    """An event in the log."""

    data: bytes
    """As it came over the wire."""
    origin: str
    number: int
    received: int
    """Nanoseconds since 1970."""


def batch_of(entries: Sequence[Entry]) -> "pa.RecordBatch":
    """Events, at least one, as a batch such as the log is read in."""
    import pyarrow as pa

    data, origins, numbers, received = zip(*entries, strict=True)
    return pa.RecordBatch.from_pydict(
        {
            "data": pa.array(data, pa.binary()),
            "origin": pa.array(origins, pa.string()),
            "number": pa.array(numbers, pa.int64()),
            "received": pa.array(received, pa.int64()),
        }
    )


class Segment(NamedTuple):
    """A file of the log: the events from position `first` up to `end`."""

    first: int
    end: int
    path: Path


def segments(folder: Path) -> list[Segment]:
    """The files of a log, in order."""
    try:
        names = [path.name for path in folder.iterdir()]
    except OSError as error:
        raise InputError(
            f"{folder}: {error.strerror}; the log has to be a folder that driver and workers can read"
        ) from None
    found = (_NAME.fullmatch(name) for name in names)
    return sorted(Segment(int(name[1]), int(name[2]), folder / name[0]) for name in found if name)


def read(folder: Path, start: int, end: int, *, together: int = ROWS_TOGETHER) -> "Iterator[pa.RecordBatch]":
    """The events from one position up to another; raises InputError where some of them are not there."""
    import pyarrow as pa

    waiting: list[pa.Table] = []
    for segment in segments(folder):
        if segment.end <= start:
            continue
        if segment.first > start or start >= end:
            break
        until = min(end, segment.end)
        waiting.append(_load(segment).slice(start - segment.first, until - start))
        start = until
        if sum(map(len, waiting)) >= together:
            yield from pa.concat_tables(waiting).combine_chunks().to_batches()
            waiting.clear()
    if start < end:
        raise InputError(
            f"{folder}: the events from position {start:,} to {end:,} are not in this log; it is not the one "
            "that the checkpoint was made with, or files of it were deleted"
        )
    if waiting:
        yield from pa.concat_tables(waiting).combine_chunks().to_batches()


def _load(segment: Segment) -> "pa.Table":
    import pyarrow as pa

    try:
        table = pa.ipc.open_file(pa.BufferReader(segment.path.read_bytes())).read_all()
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{segment.path}: cannot be read as a file of the log: {error!s:.200}") from None
    if len(table) != segment.end - segment.first:
        raise InputError(f"{segment.path}: has {len(table):,} events, and not as many as its name says")
    return table


class Log:
    """A log that is written. Made by `Log.open`; one at a time, of all processes."""

    def __init__(self, folder: Path, lock: IO[bytes], known: list[Segment]) -> None:
        self.folder = folder
        self._lock = lock
        self._mutex = threading.Lock()
        self._segments = known
        self._dealt_with = 0
        self._sizes = {segment: segment.path.stat().st_size for segment in known}

    @classmethod
    def open(cls, folder: Path, *, patience: float = _LOCK_SECONDS) -> "Log":
        """Open a log, or begin one. What a process that was killed has left half written is removed."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = (folder / "lock").open("ab")
        except OSError as error:
            raise InputError(f"option('log'): {folder}: {error.strerror}") from None
        try:
            _hold(lock, folder, patience)
            # For people who wonder who it is.
            lock.truncate(0)
            lock.write(f"{os.getpid()}\n".encode())
            lock.flush()
            for left in folder.glob(f"*{_UNFINISHED}"):
                left.unlink()
            return cls(folder, lock, _whole(segments(folder)))
        except BaseException:
            lock.close()
            raise

    @property
    def first(self) -> int:
        """The first position that is still there."""
        return self._segments[0].first if self._segments else 0

    @property
    def end(self) -> int:
        """The position after the last event."""
        return self._segments[-1].end if self._segments else 0

    @property
    def nbytes(self) -> int:
        """The size of the files that are not dealt with: the last one stays, and must not count for ever."""
        with self._mutex:
            return sum(size for segment, size in self._sizes.items() if segment.end > self._dealt_with)

    def append(self, entries: Sequence[Entry]) -> int:
        """Write events; when this returns they stay. Return the position after them."""
        import pyarrow as pa

        if not entries:
            return self.end
        batch = batch_of(entries)
        with self._mutex:
            first, end = self.end, self.end + len(entries)
            segment = Segment(first, end, self.folder / f"{first:020d}-{end:020d}.events")
            handle, name = mkstemp(suffix=_UNFINISHED, dir=self.folder)
            with os.fdopen(handle, "wb") as out:
                with pa.ipc.new_file(out, batch.schema) as writer:
                    writer.write_batch(batch)
                out.flush()
                os.fsync(out.fileno())
                size = out.tell()
            # Tasks may run under another user's name than the driver.
            Path(name).chmod(0o644)
            Path(name).replace(segment.path)
            _sync_folder(self.folder)
            self._sizes[segment] = size
            self._segments.append(segment)
        return end

    def forget(self, position: int) -> None:
        """Delete the files whose events all lie before a position, but for the last file."""
        with self._mutex:
            self._dealt_with = max(self._dealt_with, min(position, self.end))
            done = [segment for segment in self._segments[:-1] if segment.end <= position]
            for segment in done:
                segment.path.unlink(missing_ok=True)
                del self._sizes[segment]
            self._segments = self._segments[len(done) :]

    def known(self) -> set[tuple[str, int]]:
        """The origins and numbers of all events that are there."""
        found: set[tuple[str, int]] = set()
        for segment in self._segments:
            table = _load(segment)
            found.update(zip(table["origin"].to_pylist(), table["number"].to_pylist(), strict=True))
        return found

    def close(self) -> None:
        """Let another process write."""
        self._lock.close()


def _whole(found: list[Segment]) -> list[Segment]:
    """The files of a log that follow one another, but for a last one that is torn.

    That cannot be where a disk keeps what it has said to be synced. Where it does not, such a file was the
    last, and is put aside: if the query has seen it, what asks for its positions says that they are missing.
    """
    while found:
        try:
            _load(found[-1])
            break
        except InputError:
            torn = found.pop()
            torn.path.replace(torn.path.with_suffix(".torn"))
    for before, after in pairwise(found):
        if before.end != after.first:
            raise InputError(
                f"{before.path.parent}: the log has a gap: no events from position {before.end:,} to "
                f"{after.first:,}; files of it were deleted, or two logs are mixed"
            )
    return found


def _sync_folder(folder: Path) -> None:
    # Windows has no such thing, and needs none.
    with suppress(PermissionError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _hold(lock: IO[bytes], folder: Path, patience: float) -> None:
    """Keep other processes from writing, where the system can."""
    try:
        import fcntl
    except ImportError:
        return
    end = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= end:
                raise InputError(
                    f"option('log'): {folder}: another query writes there; each query needs a log of its own"
                ) from None
            time.sleep(0.05)
        except OSError:
            return  # a file system without locks
