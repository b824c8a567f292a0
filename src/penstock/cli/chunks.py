"""Chunks of events: what is read from a file at once, and matched by one thread.

Every chunk becomes a batch for the matcher. Most do so without an object for each event: JSON lines by the
matcher's own reader, Arrow rows a column at a time. Where values are to be read as other families, and
where something is amiss, the events are made one by one as `penstock.cli.events` does.
"""

import codecs
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, Protocol

import msgspec
import numpy as np

from penstock.cli.events import EventOptions, arrow_events, csv_rows, json_event
from penstock.cli.files import (
    LINE_LENGTH_MAX,
    Advance,
    PlacedError,
    display,
    opened,
    parquet_batches,
    placed,
    read_some,
)
from penstock.cli.sources import Source
from penstock.errors import PenstockError
from penstock.matching.arrow_events import batch_of_arrow, named_columns
from penstock.matching.batch import Batch
from penstock.matching.encode import batch_of_events
from penstock.matching.json_events import WantedNames, read_json_lines
from penstock.matching.observed import Observed
from penstock.model.arrow import family_of_arrow, has_unmatchable
from penstock.model.arrow_layouts import plain_type
from penstock.model.events import Event, decode_object, flatten, is_skip
from penstock.model.fitting import Fitting
from penstock.model.limits import ATTRIBUTES_MAX, NESTING_MAX
from penstock.model.names import check_name

if TYPE_CHECKING:
    import pyarrow as pa

BYTES: Final = 2**20
"""Of JSON lines in a chunk."""

ROWS: Final = 16_384
"""Of a table in a chunk."""

_OUTPUT_MAX: Final = 2**24
"""When a chunk has led to more bytes of output than this, the next are smaller."""

_SHARE_MIN: Final = 2**-10
_KEY_LENGTH_MAX: Final = 256
"""Bytes before a brace among which a key is looked for."""

ID: Final = "id"
"""The attribute that names an event in the output."""


class Wanted:
    """The attributes that are read: those that filters name, and the one that names the event."""

    def __init__(self, names: Mapping[str, int]) -> None:
        self.numbers = dict(sorted(names.items(), key=lambda pair: pair[1]))
        self.id = self.numbers.setdefault(ID, len(names))
        self.json = WantedNames(list(self.numbers))
        self.endings = frozenset(ending for name in self.numbers for ending in _endings(name.encode()))
        """All that can be the last key on the way to one of the names."""


def _endings(name: bytes) -> Iterator[bytes]:
    yield name
    while b"." in name:
        name = name.partition(b".")[2]
        yield name


class Pace:
    """How large chunks are: smaller where events match so much that the output would fill the memory."""

    def __init__(self) -> None:
        self._share = 1.0

    @property
    def bytes(self) -> int:
        """Of JSON lines."""
        return max(1, int(BYTES * self._share))

    @property
    def rows(self) -> int:
        """Of a table."""
        return max(1, int(ROWS * self._share))

    def saw(self, output: int) -> None:
        """Take note of how many bytes a chunk has led to."""
        if output > _OUTPUT_MAX and self._share > _SHARE_MIN:
            self._share /= 2


class Encoded(NamedTuple):
    """A chunk's events for the matcher; and themselves, where they had to be made."""

    batch: Batch
    events: list[Event] | None = None


class Chunk(Protocol):
    """Some events of a file."""

    @property
    def row(self) -> int:
        """The 0-based number of the first among all events."""

    def encode(self, wanted: Wanted) -> Encoded:
        """The events for the matcher; raises ChunkError for the first that is none."""

    def look(self, observed: Observed) -> None:
        """Show the names that a few events have."""

    def fit(self, fitting: Fitting) -> None:
        """Hold all events, which can be read, against a schema."""


class ChunkError(PlacedError):
    """A mistake in a chunk; `good` is what comes before it."""

    good: Chunk | None = None


def _fail(error: PlacedError, good: Chunk | None) -> NoReturn:
    failure = ChunkError(str(error))
    failure.good = good
    raise failure from None


def read_chunks(
    files: Iterable[Source], options: EventOptions, advance: Advance, pace: Pace, *, at_once: bool = False
) -> Iterator[Chunk]:
    """Yield the events of files; with `at_once`, of JSON lines what there is without waiting for more.

    Events are numbered through all files.
    """
    before = 0
    for path, kind in files:
        if kind == "jsonl":
            before = yield from json_chunks(path, options, advance, pace, before, at_once=at_once)
        else:
            read = _csv_chunks if kind == "csv" else _parquet_chunks
            before = yield from read(path, options, advance, pace, before)


# JSON lines


class JsonChunk(msgspec.Struct, frozen=True):
    """Whole JSON lines, of which the first is that of the given number, counted from 1."""

    path: str
    options: EventOptions
    data: bytes
    line: int
    row: int

    def encode(self, wanted: Wanted) -> Encoded:
        """See Chunk."""
        if self.options.families:
            return self._encode_events(wanted)
        try:
            # From 2 on: there is no byte order mark any more.
            batch = read_json_lines(self.data, wanted.json, self.options.unsupported, first_row=2)
        except PenstockError as error:
            index = (error.row or 2) - 2
            self._until(index)._check_named_objects(wanted)
            with self._at(index):
                raise PenstockError(str(error).removeprefix(f"row {error.row}: ")) from None
        if self.data.count(b"{") > len(batch.start):
            self._check_named_objects(wanted)
        return Encoded(batch)

    def look(self, observed: Observed) -> None:
        """See Chunk."""
        observed.look_at_lines(self.data)

    def fit(self, fitting: Fitting) -> None:
        """See Chunk."""
        for line in self.data.split(b"\n"):
            if content := line.strip():
                fitting.see(decode_object(content))

    def _encode_events(self, wanted: Wanted) -> Encoded:
        events: list[Event] = []
        for index, line in enumerate(self.data.split(b"\n")):
            content = line.strip()
            if content:
                with self._at(index):
                    events.append(json_event(content, self.options))
        return Encoded(batch_of_events(events, wanted.numbers), events)

    def _check_named_objects(self, wanted: Wanted) -> None:
        """Refuse what is wrong below a name that a filter names: there, too, an attribute was expected."""
        done = -1
        for at in _objects(self.data, wanted.endings):
            if at < done:
                continue
            start, stop = self.data.rfind(b"\n", 0, at) + 1, self.data.find(b"\n", at)
            done = stop if stop >= 0 else len(self.data)
            with self._at(self.data.count(b"\n", 0, start)):
                flatten(
                    _below(decode_object(self.data[start:done].strip()), wanted.numbers),
                    self.options.unsupported,
                )

    def _at(self, index: int) -> "_Place":
        return _Place(f"{display(self.path)}:{self.line + index}", lambda: self._until(index))

    def _until(self, index: int) -> "JsonChunk":
        """The first lines."""
        lines = self.data.split(b"\n")[:index]
        return msgspec.structs.replace(self, data=b"".join(line + b"\n" for line in lines))


class _Place:
    """Errors inside say where they happened and become a ChunkError."""

    def __init__(self, place: str, good: Callable[[], Chunk | None]) -> None:
        self._placed = placed(place)
        self._good = good

    def __enter__(self) -> None:
        self._placed.__enter__()

    def __exit__(self, *raised: Any) -> None:
        try:
            self._placed.__exit__(*raised)
        except PlacedError as error:
            _fail(error, self._good())


def _objects(data: bytes, names: frozenset[bytes]) -> Iterator[int]:
    """Where objects begin that may stand under one of the names."""
    at = data.find(b"{")
    while at >= 0:
        before = data[max(0, at - _KEY_LENGTH_MAX) : at].rstrip()
        if before.endswith(b":"):
            key = before[:-1].rstrip()[:-1].rpartition(b'"')
            if not key[1] or b"\\" in key[2] or key[2] in names:
                yield at
        at = data.find(b"{", at + 1)


def _below(attributes: Mapping[str, object], names: Mapping[str, int], prefix: str = "") -> dict[str, object]:
    """What of a decoded object stands under one of the names, or below it."""
    kept: dict[str, object] = {}
    for name, value in attributes.items():
        path = prefix + name
        if _is_named(path, names):
            kept[name] = value
        elif isinstance(value, dict):
            inner = _below(value, names, path + ".")
            if inner:
                kept[name] = inner
    return kept


def _is_named(path: str, names: Mapping[str, int]) -> bool:
    """Whether a name is one of those given, or below one."""
    at = path.find(".")
    while at >= 0:
        if path[:at] in names:
            return True
        at = path.find(".", at + 1)
    return path in names


def json_chunks(
    path: str, options: EventOptions, advance: Advance, pace: Pace, row: int = 0, *, at_once: bool = False
) -> Generator[JsonChunk, None, int]:
    """Yield the lines of a file, some at a time; `row` is the first one's number. Returns the next one's."""
    line = 1
    pieces: list[bytes] = []
    with opened(path) as file:
        while True:
            data = read_some(file, path, pace.bytes, at_once=at_once)
            advance(len(data))
            held = sum(map(len, pieces))
            if held + ((data.find(b"\n") + 1) or len(data)) > LINE_LENGTH_MAX:
                raise PlacedError(f"{display(path)}:{line}: a line is longer than {LINE_LENGTH_MAX:,} bytes")
            end = data.rfind(b"\n") + 1
            if data and not end:
                pieces.append(data)
                continue
            text = b"".join([*pieces, data[:end]])
            pieces = [data[end:]]
            if text:
                text = text.removeprefix(codecs.BOM_UTF8) if line == 1 else text
                yield JsonChunk(path, options, text, line, row)
                lines, rows = _count(text)
                line, row = line + lines, row + rows
            if not data:
                return row


def _count(text: bytes) -> tuple[int, int]:
    """How many lines there are, and how many that are not blank."""
    content = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(content == ord("\n"))
    lines = len(ends) + (not text.endswith(b"\n"))
    starts = np.zeros(lines, np.int64)
    starts[1:] = ends[: lines - 1] + 1
    if (content[starts] <= ord(" ")).any():
        return lines, sum(1 for line in text.split(b"\n") if line.strip())
    return lines, lines


# Tables


class RowsChunk(msgspec.Struct, frozen=True):
    """Rows of a table; `place` says where one is, or the columns' names."""

    rows: Any
    """A record batch."""
    first: int
    """The number of its first row in the file."""
    before: int
    """Events in the files before."""
    options: EventOptions
    place: Callable[[int | None], str]

    @property
    def row(self) -> int:
        """See Chunk."""
        return self.before + self.first

    def encode(self, wanted: Wanted) -> Encoded:
        """See Chunk."""
        import pyarrow as pa

        skip = is_skip(self.options.unsupported)
        if not self.options.families and _is_plain(self.rows.schema, wanted.numbers, skip):
            try:
                batch = batch_of_arrow(self.rows, wanted.numbers, self.options.unsupported, self.first)
                return Encoded(batch)
            except (PenstockError, pa.ArrowException):
                pass  # one by one, they say what is wrong and where
        events: list[Event] = []
        try:
            for event in arrow_events(self._readable(wanted), self.options, self.place, self.first):
                events.append(event)  # noqa: PERF402 - those before an error are to be known
        except PlacedError as error:
            _fail(error, self._until(len(events)))
        return Encoded(batch_of_events(events, wanted.numbers), events)

    def look(self, observed: Observed) -> None:
        """See Chunk."""
        observed.look_at_columns(self.rows.schema)

    def fit(self, fitting: Fitting) -> None:
        """See Chunk."""
        fitting.see_rows(self.rows, self.options.families)

    def _readable(self, wanted: Wanted) -> Any:
        """The rows; without columns that nobody names, where these have a type that no rule can match."""
        names = {**wanted.numbers, **dict.fromkeys(self.options.families, 0)}
        if _is_plain(self.rows.schema, None, skip=False):
            return self.rows
        with placed(self.place(None)):
            return named_columns(self.rows, names, self.options.unsupported)

    def _until(self, rows: int) -> "RowsChunk | None":
        return msgspec.structs.replace(self, rows=self.rows.slice(0, rows)) if rows else None


def _is_plain(schema: "pa.Schema", named: Mapping[str, object] | None, skip: bool) -> bool:
    """Whether all columns, or those named, have a type that rules can match, and all a right name."""
    names: list[str] = []
    try:
        for name, kind in _leaves(schema, "", 0):
            names.append(check_name(name))
            is_open = skip or str(kind) == "null" or not (named is None or name in named)
            if not is_open and family_of_arrow(kind) is None:
                return False
            # What stands in lists and cannot be matched matters only where somebody names it.
            if named is None and has_unmatchable(kind):
                return False
    except PenstockError:
        return False
    return len(set(names)) == len(names) <= ATTRIBUTES_MAX


def _leaves(
    fields: "pa.Schema | pa.StructType", prefix: str, depth: int
) -> "Iterator[tuple[str, pa.DataType]]":
    import pyarrow as pa

    for field in fields:
        name = prefix + check_name(field.name)
        kind = plain_type(field.type)
        if not pa.types.is_struct(kind):
            yield name, kind
        elif depth >= NESTING_MAX:
            raise PenstockError("structs nest too deep")
        else:
            yield from _leaves(kind, name + ".", depth + 1)


def _csv_chunks(
    path: str, options: EventOptions, advance: Advance, pace: Pace, before: int
) -> Generator[RowsChunk, None, int]:
    table, reading, place = csv_rows(path, options, advance)
    return (yield from _row_chunks(iter(table.to_batches()), reading, place, pace, before))


def _parquet_chunks(
    path: str, options: EventOptions, advance: Advance, pace: Pace, before: int
) -> Generator[RowsChunk, None, int]:
    batches = parquet_batches(path, advance)
    return (yield from _row_chunks(batches, options, lambda _row: display(path), pace, before))


def _row_chunks(
    batches: "Iterator[pa.RecordBatch]",
    options: EventOptions,
    place: Callable[[int | None], str],
    pace: Pace,
    before: int,
) -> Generator[RowsChunk, None, int]:
    row = 0
    for batch in batches:
        at = 0
        while at < batch.num_rows or at == batch.num_rows == 0:
            rows = batch.slice(at, pace.rows)
            yield RowsChunk(rows, row + at, before, options, place)
            at += max(1, rows.num_rows)
        row += batch.num_rows
    return before + row
