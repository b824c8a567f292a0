"""What `option(…)` takes, checked before anything is connected to.

Names are as Spark writes them, and case does not count. One list serves readers and writers, so that a word
of the other kind is no mistake: DataFrames are often read and written with the same options.
"""

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, Final

import msgspec

from penstock.errors import FilterError, InputError
from penstock.filters.parsing import parse
from penstock.net.addresses import parse_url

OF_SPARK: Final = frozenset({"checkpointlocation", "queryname", "path"})
"""Options that Spark hands on to sources and sinks, and that are its own."""

LOG_BYTES_DEFAULT: Final = 4 * 2**30
"""Bytes of the log: what a broker that sends full speed needs many minutes for."""

PARTITIONS_DEFAULT: Final = 8


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options, read. Each is here under its own name: to Spark, `max_log_bytes` is `maxLogBytes`."""

    url: tuple[str, ...] = ()
    """Where brokers listen, with commas between: the first that answers is used. `load(url)` is the same."""
    token: str | None = None
    """Who one is. Spark hides the value in what it shows."""
    token_file: str | None = None
    """A file with the token: for a sink, one that workers can read."""
    ca: str | None = None
    """For penstocks://: the authority's certificate, where it is not one of the system's."""
    cert: str | None = None
    key: str | None = None
    name: str | None = None
    """What brokers call the client in what they say of themselves."""
    timeout: float = 10.0
    """Seconds for a try to connect."""

    filter: str = "true"
    """What is subscribed to."""
    log: str | None = None
    """Of streams: the write-ahead folder, one for each query, which the driver writes and workers read."""
    max_events_per_batch: int | None = None
    """Of streams: how many events a batch has at most."""
    max_log_bytes: int = LOG_BYTES_DEFAULT
    """Of streams: from this size on, no more is taken from the broker until batches are done."""
    partitions: int = PARTITIONS_DEFAULT
    """Of streams: into how many tasks a large batch is cut at most."""
    seconds: float | None = None
    """For how long a batch, or a stream with the trigger availableNow, gathers events."""
    count: int | None = None
    """The same: after how many events they stop before that."""
    mismatch: str = "null"
    """What becomes of values that their column cannot hold: `null`, or `error`."""
    nan: str = "null"
    """What becomes of NaN in a column of doubles: `null`, or `keep`."""
    missed: str = "warn"
    """What to do when the broker says that events may have been missed: `warn`, or `fail`."""
    pushdown: bool = True
    """Whether a batch takes the DataFrame's filters."""

    advertise: str | None = None
    """What a sink publishes; by default all that its token grants."""
    unsupported: str = "refuse"
    """What a sink does with columns whose type no value has: `refuse` them, or `skip`."""
    empty: str = "publish"
    """What a sink does with rows that have no value at all: `publish` them, `refuse`, or `skip`."""


def read_options(given: Mapping[str, str]) -> Options:
    """The options that were given; raises InputError or FilterError over the first that is wrong."""
    read: dict[str, Any] = {}
    for name, text in given.items():
        word = name.lower()
        if word in OF_SPARK:
            continue
        option = _NAMES.get(word)
        if option is None:
            raise InputError(f"format('penstock') has no option {name!r:.60}{_instead(word)}")
        read[option] = _READERS.get(option, _text)(_SHOWN[option], text)
    if not read.get("url"):
        raise InputError(
            "format('penstock') needs option('url', 'penstock://host:7400'), where a broker listens"
        )
    if read.get("token") and read.get("token_file"):
        raise InputError("give option('token', …) or option('tokenFile', …), not both")
    return Options(**read)


def _instead(word: str) -> str:
    near = get_close_matches(word, _NAMES, 1)
    if near:
        return f"; perhaps {_SHOWN[_NAMES[near[0]]]}"
    return f"; there are {', '.join(sorted(_SHOWN.values()))}"


def _text(_name: str, text: str) -> str:
    return text


def _urls(_name: str, text: str) -> tuple[str, ...]:
    urls = tuple(text.replace(",", " ").split())
    for url in urls:
        parse_url(url)
    return urls


def _folder(name: str, text: str) -> str:
    scheme, colon, rest = text.partition(":")
    if colon and scheme.lower() == "file":
        return f"/{rest.lstrip('/')}"
    if colon and "/" not in scheme and len(scheme) > 1:
        raise InputError(
            f"option({name!r}) is a folder of a file system that driver and workers have mounted, "
            f"not {text!r:.60}"
        )
    return text


def _filter(name: str, text: str) -> str:
    try:
        return parse(text).to_sql()
    except FilterError as error:
        raise FilterError(f"option({name!r}): {error}") from None


def _number(kind: type[int] | type[float], least: float) -> Callable[[str, str], float]:
    def read(name: str, text: str) -> float:
        try:
            number = kind(text)
        except ValueError:
            number = kind(-1)
        if not least <= number < 2**63:
            what = "a whole number" if kind is int else "a number"
            raise InputError(f"option({name!r}) is {what} from {least:g} on, not {text!r:.40}")
        return number

    return read


def _one_of(*words: str) -> Callable[[str, str], str]:
    def read(name: str, text: str) -> str:
        if text.lower() not in words:
            raise InputError(f"option({name!r}) is {' or '.join(map(repr, words))}, not {text!r:.40}")
        return text.lower()

    return read


def _switch(name: str, text: str) -> bool:
    return _one_of("true", "false")(name, text) == "true"


_READERS: Final[dict[str, Callable[[str, str], object]]] = {
    "url": _urls,
    "filter": _filter,
    "log": _folder,
    "advertise": _filter,
    "timeout": _number(float, 0.001),
    "max_events_per_batch": _number(int, 1),
    "max_log_bytes": _number(int, 1),
    "partitions": _number(int, 1),
    "seconds": _number(float, 0),
    "count": _number(int, 1),
    "mismatch": _one_of("null", "error"),
    "nan": _one_of("null", "keep"),
    "missed": _one_of("warn", "fail"),
    "pushdown": _switch,
    "unsupported": _one_of("refuse", "skip"),
    "empty": _one_of("publish", "refuse", "skip"),
}
_SHOWN: Final = {
    field: re.sub(r"_(\w)", lambda letter: letter[1].upper(), field) for field in Options.__struct_fields__
}
"""Each field as Spark writes options: maxEventsPerBatch."""
_NAMES: Final = {shown.lower(): field for field, shown in _SHOWN.items()}
