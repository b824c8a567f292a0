"""Reading subscriptions and events from files, writing results whole or not at all.

Every mistake is an InputError that names the file and the line, or in Parquet the row.
"""

import csv
import io
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import msgspec

from penstock.errors import EventError, InputError, PenstockError
from penstock.filters.parsing import Language, parse
from penstock.filters.predicate import Predicate
from penstock.model.events import Event, Unsupported, decode_object, flatten
from penstock.model.limits import ATTRIBUTES_MAX, TEXT_LENGTH_MAX
from penstock.model.names import Id, check_id
from penstock.model.values import Family

if TYPE_CHECKING:
    import pyarrow as pa

_FORMATS: Final = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
}
_CSV_ROW: Final = re.compile(r"Row #(\d+)")

Advance = Callable[[int], None]
"""Told how many bytes have been read since the last call."""


class Subscription(msgspec.Struct, frozen=True):
    """A row of a subscriptions file."""

    id: Id
    predicate: Predicate
    subscriber: str | None = None


class _Line(msgspec.Struct):
    """A subscription as a JSON line; the filter may be text or the JSON form."""

    id: int | str
    filter: msgspec.Raw
    subscriber: str | None = None


def display(path: str) -> str:
    """The file's name for messages."""
    return "standard input" if path == "-" else path


def format_of(path: str, given: str | None) -> str:
    """The format of a file: as given, else by the name's ending, else for standard input JSON lines."""
    if given is not None:
        return given
    if path == "-":
        return "jsonl"
    found = _FORMATS.get(Path(path).suffix.lower())
    if found is None:
        raise InputError(
            f"{path}: the name does not tell the format; end it in .jsonl, .csv or .parquet, or say so"
        )
    return found


@contextmanager
def opened(path: str) -> Iterator[IO[bytes]]:
    """The file, or standard input for `-`."""
    if path == "-":
        yield sys.stdin.buffer
        return
    try:
        file = Path(path).open("rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    with file:
        yield file


def size_of(path: str) -> int | None:
    """The size of a file in bytes, where it has one."""
    try:
        return None if path == "-" else Path(path).stat().st_size
    except OSError:
        return None


# Subscriptions


def read_subscriptions(path: str, kind: str, language: Language, advance: Advance) -> Iterator[Subscription]:
    """Yield the subscriptions of a file."""
    readers = {"jsonl": _jsonl_subscriptions, "csv": _csv_subscriptions, "parquet": _parquet_subscriptions}
    return readers[kind](path, language, advance)


def _jsonl_subscriptions(path: str, language: Language, advance: Advance) -> Iterator[Subscription]:
    decoder = msgspec.json.Decoder(_Line)
    for place, line in _lines(path, advance):
        with _at(place):
            found = decoder.decode(line)
            raw = bytes(found.filter)
            if raw.startswith(b'"'):
                predicate = parse(msgspec.json.decode(raw, type=str), language)
            elif raw.startswith(b"{"):
                predicate = parse(raw, "json")
            else:
                raise InputError("a filter is text, or an object in the JSON form")
            yield Subscription(check_id(found.id), predicate, found.subscriber)


def _csv_subscriptions(path: str, language: Language, advance: Advance) -> Iterator[Subscription]:
    # A filter may be as long as any text; the csv module's own limit is 128 KiB.
    csv.field_size_limit(TEXT_LENGTH_MAX)
    with opened(path) as file:
        rows = csv.reader(_decoded_lines(path, file, advance), strict=True)
        names: list[str] | None = None
        while True:
            with _at(f"{display(path)}:{rows.line_num + 1}"):
                try:
                    row = next(rows)
                except StopIteration:
                    break
                except csv.Error as error:
                    raise InputError(f"not CSV: {error}") from None
                if names is None:
                    names = _columns(row)
                elif row:
                    if len(row) != len(names):
                        raise InputError(f"{len(names)} fields were expected, found {len(row)}")
                    fields = dict(zip(names, row, strict=True))
                    yield _from_fields(fields, language)
        if names is None:
            raise InputError(f"{display(path)}:1: a header with the columns id and filter was expected")


def _parquet_subscriptions(path: str, language: Language, advance: Advance) -> Iterator[Subscription]:
    row = 0
    for batch in _parquet_batches(path, advance, ["id", "filter", "subscriber"]):
        names = _columns(batch.schema.names, where=f"{display(path)}: ")
        for fields in batch.to_pylist():
            with _at(f"{display(path)}: row {row}"):
                yield _from_fields({name: fields[name] for name in names}, language)
            row += 1


def _columns(names: list[str], where: str = "") -> list[str]:
    missing = [name for name in ("id", "filter") if name not in names]
    if missing:
        raise InputError(f"{where}a column {missing[0]!r} is missing; there are: {', '.join(names)[:200]}")
    return names


def _from_fields(fields: Mapping[str, Any], language: Language) -> Subscription:
    text, subscriber = fields["filter"], fields.get("subscriber")
    if not isinstance(text, str):
        raise InputError(f"a filter is text, not {'null' if text is None else type(text).__name__}")
    return Subscription(check_id(fields["id"]), parse(text, language), subscriber or None)


# Events


class EventOptions(msgspec.Struct, frozen=True):
    """How events are read."""

    families: dict[str, Family] = {}
    nulls: tuple[str, ...] = ()
    unsupported: Unsupported = "refuse"


def read_events(path: str, kind: str, options: EventOptions, advance: Advance) -> Iterator[Event | None]:
    """Yield the events of a file; None stands for a row without any attribute that was skipped."""
    readers = {"jsonl": _jsonl_events, "csv": _csv_events, "parquet": _parquet_events}
    return readers[kind](path, options, advance)


def _jsonl_events(path: str, options: EventOptions, advance: Advance) -> Iterator[Event | None]:
    for place, line in _lines(path, advance):
        with _at(place):
            attributes = flatten(decode_object(line), options.unsupported)
            if attributes:
                event = Event.from_flat(attributes)
                yield event.with_family(options.families) if options.families else event
            elif options.unsupported == "skip":
                yield None
            else:
                raise EventError("an event has at least one attribute; this one has none")


def _csv_events(path: str, options: EventOptions, advance: Advance) -> Iterator[Event | None]:
    import pyarrow as pa
    import pyarrow.csv as pacsv

    with opened(path) as file, _at(display(path)):
        content = file.read()
        advance(len(content) // 2)
        kept_as_text = [name for name, family in options.families.items() if family is Family.STRING]
        try:
            table = pacsv.read_csv(
                io.BytesIO(content),
                # With threads, errors do not tell the row.
                read_options=pacsv.ReadOptions(use_threads=False),
                convert_options=pacsv.ConvertOptions(
                    null_values=["", *options.nulls],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                    column_types=dict.fromkeys(kept_as_text, pa.string()),
                ),
            )
        except pa.ArrowInvalid as error:
            row = _CSV_ROW.search(str(error))
            place = f"{display(path)}:{row[1]}" if row else display(path)
            raise InputError(f"{place}: not CSV: {error}") from None
        yield from _arrow_events(table, options, path)
        advance(len(content) - len(content) // 2)


def _parquet_events(path: str, options: EventOptions, advance: Advance) -> Iterator[Event | None]:
    row = 0
    for batch in _parquet_batches(path, advance):
        yield from _arrow_events(batch, options, path, row)
        row += batch.num_rows


def _arrow_events(
    rows: "pa.Table | pa.RecordBatch", options: EventOptions, path: str, row: int = 0
) -> Iterator[Event | None]:
    """Yield the events of rows, the first of which is the given one of the file."""
    from penstock.model.arrow import events_from_arrow

    try:
        for event in events_from_arrow(rows, unsupported=options.unsupported):
            yield event.with_family(options.families) if event and options.families else event
            row += 1
    except PenstockError as error:
        raise InputError(f"{display(path)}: row {row}: {error}") from None


# Shared


@contextmanager
def _at(place: str) -> Iterator[None]:
    """Errors inside say where they happened, unless they do already."""
    try:
        yield
    except InputError as error:
        known = str(error)
        raise (
            error if known.startswith(place.partition(":")[0]) else InputError(f"{place}: {known}")
        ) from None
    except PenstockError as error:
        raise InputError(f"{place}: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{place}: not a JSON object as expected: {error}") from None
    except RecursionError:
        raise InputError(f"{place}: nested too deep") from None


_LINE_LENGTH_MAX: Final = 4 * TEXT_LENGTH_MAX
"""Bytes of a line: enough for any filter or event within the limits; a file without line ends is refused."""


def _lines(path: str, advance: Advance) -> Iterator[tuple[str, bytes]]:
    """Yield (place, line) for the lines that are not blank."""
    name = display(path)
    with opened(path) as file:
        number = 0
        while line := file.readline(_LINE_LENGTH_MAX + 1):
            number += 1
            if len(line) > _LINE_LENGTH_MAX:
                raise InputError(f"{name}:{number}: a line is longer than {_LINE_LENGTH_MAX:,} bytes")
            advance(len(line))
            content = line.strip()
            if content:
                yield f"{name}:{number}", content


def _decoded_lines(path: str, file: IO[bytes], advance: Advance) -> Iterator[str]:
    for number, line in enumerate(file, 1):
        advance(len(line))
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{display(path)}:{number}: not UTF-8: {error.reason}") from None


def _parquet_batches(
    path: str, advance: Advance, columns: list[str] | None = None
) -> "Iterator[pa.RecordBatch]":
    import pyarrow as pa
    import pyarrow.parquet as papq

    with opened(path) as file:
        try:
            source = pa.BufferReader(file.read()) if path == "-" else file
            parquet = papq.ParquetFile(source)
            names = parquet.schema_arrow.names
            if len(names) > ATTRIBUTES_MAX:
                raise InputError(f"{display(path)}: more than {ATTRIBUTES_MAX:,} columns")
            wanted = None if columns is None else [name for name in columns if name in names]
            size, rows = size_of(path) or 0, max(1, parquet.metadata.num_rows)
            for batch in parquet.iter_batches(batch_size=16_384, columns=wanted):
                yield batch
                advance(size * batch.num_rows // rows)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{display(path)}: not Parquet: {error}") from None


@contextmanager
def whole_output(path: str | None, *, line_buffered: bool = False) -> Iterator[Callable[[bytes], object]]:
    """Give a function that writes; what was written appears only if no error comes.

    A file is written beside its place and moved there at the end. Standard output is held back in a
    temporary file, unless it is to be line-buffered.
    """
    if path is None or path == "-":
        if line_buffered:
            yield lambda line: (sys.stdout.buffer.write(line), sys.stdout.buffer.flush())
            return
        with tempfile.SpooledTemporaryFile(max_size=2**26) as held:
            yield held.write
            held.seek(0)
            while block := held.read(2**20):
                sys.stdout.buffer.write(block)
        return
    target = Path(path)
    try:
        if target.is_dir():
            raise IsADirectoryError(21, "is a directory")
        beside = tempfile.NamedTemporaryFile(  # noqa: SIM115 - closed below
            dir=target.parent, prefix=f".{target.name}.", suffix=".part", delete=False
        )
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {(error.strerror or str(error)).lower()}") from None
    try:
        with beside:
            yield beside.write
            beside.flush()
            os.fsync(beside.fileno())
        umask = os.umask(0)
        os.umask(umask)
        Path(beside.name).chmod(0o666 & ~umask)
        Path(beside.name).replace(target)
    except BaseException:
        Path(beside.name).unlink(missing_ok=True)
        raise
