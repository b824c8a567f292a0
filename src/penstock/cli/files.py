"""Reading subscriptions and events from files, writing results whole or not at all.

Every mistake is an InputError that names the file and the line, or in Parquet the row.
"""

import codecs
import csv
import io
import os
import re
import shutil
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
_ROW: Final = re.compile(r"row (\d+)[,:] ")

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


def format_of(path: str, given: str | None, flag: str) -> str:
    """The format of a file: as given, else by the name's ending, else for standard input JSON lines."""
    if given is not None:
        return given
    if path == "-":
        return "jsonl"
    found = _FORMATS.get(Path(path).suffix.lower())
    if found is None:
        endings = ".jsonl, .csv or .parquet"
        raise InputError(f"{path}: the name does not tell the format: end it in {endings}, or give {flag}")
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
        for at in range(batch.num_rows):
            with _at(f"{display(path)}: row {row}"):
                try:
                    fields = {name: batch.column(name)[at].as_py() for name in names}
                except UnicodeDecodeError as error:
                    raise InputError(f"not UTF-8: {error.reason}") from None
                yield _from_fields(fields, language)
            row += 1


def _columns(names: list[str], where: str = "") -> list[str]:
    missing = [name for name in ("id", "filter") if name not in names]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{where}the column {twice!r:.80} is there twice")
    if missing:
        raise InputError(f"{where}a column {missing[0]!r} is missing; there are: {', '.join(names)[:200]}")
    return names


def _from_fields(fields: Mapping[str, Any], language: Language) -> Subscription:
    text, subscriber = fields["filter"], fields.get("subscriber")
    if not isinstance(text, str):
        raise InputError(f"a filter is text, not {'null' if text is None else type(text).__name__}")
    if not isinstance(subscriber, str | None):
        raise InputError(f"a subscriber is text, not {type(subscriber).__name__}")
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
                yield _typed(Event.from_flat(attributes), options)
            elif options.unsupported == "skip":
                yield None
            else:
                raise EventError("an event has at least one attribute; this one has none")


def _csv_events(path: str, options: EventOptions, advance: Advance) -> Iterator[Event | None]:
    with opened(path) as file:
        content = file.read()
    advance(len(content) // 2)
    _check_csv(path, content)
    table, numbers = _csv_table(path, content, options)
    exact = {**dict.fromkeys(numbers, Family.NUMBER), **options.families}
    reading = msgspec.structs.replace(options, families=exact)
    # A record may span lines, so only counting finds the line of a row; that is done when one is bad.
    yield from _arrow_events(table, reading, lambda row: f"{display(path)}:{_csv_line(content, row)}")
    advance(len(content) - len(content) // 2)


def _check_csv(path: str, content: bytes) -> None:
    """Raise for what Arrow's reader would pass over: bytes that are no text, a quote never closed."""
    try:
        content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _PlacedError(f"{display(path)}:{line}: not UTF-8: {error.reason}") from None
    if content.count(b'"') % 2:
        rows = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True)
        line = 1
        try:
            for _row in rows:
                line = rows.line_num + 1
        except csv.Error as error:
            raise _PlacedError(f"{display(path)}:{line}: not CSV: {error}") from None


def _csv_table(path: str, content: bytes, options: EventOptions) -> "tuple[pa.Table, list[str]]":
    """The table, its columns typed by what they hold, and the columns of numbers that are still text.

    Arrow would read a column of integers and decimals as doubles, and so mangle integers beyond 2**53.
    Columns of doubles are therefore read again as text, to be converted one value at a time.
    """
    import pyarrow as pa
    import pyarrow.csv as pacsv

    def read(as_text: list[str]) -> pa.Table:
        return pacsv.read_csv(
            io.BytesIO(content),
            # With threads, errors do not tell the row.
            read_options=pacsv.ReadOptions(use_threads=False),
            parse_options=pacsv.ParseOptions(newlines_in_values=True),
            convert_options=pacsv.ConvertOptions(
                null_values=["", *options.nulls],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                column_types=dict.fromkeys(as_text, pa.string()),
            ),
        )

    as_text = [name for name, family in options.families.items() if family is Family.STRING]
    try:
        table = read(as_text)
        numbers = [field.name for field in table.schema if pa.types.is_floating(field.type)]
        return (read(as_text + numbers) if numbers else table), numbers
    except pa.ArrowInvalid as error:
        found = _CSV_ROW.search(str(error))
        # Arrow counts records from 1, the header included.
        line = _csv_line(content, int(found[1]) - 2) if found else 1
        raise _PlacedError(f"{display(path)}:{line}: not CSV: {error}") from None


def _csv_line(content: bytes, row: int | None) -> int:
    """The line on which a row starts; rows count from 0, blank lines do not count, None is the header."""
    rows = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""))
    start, seen = 1, -1
    for fields in rows:
        if fields:
            if row is None or seen == row:
                return start
            seen += 1
        start = rows.line_num + 1
    return start


def _parquet_events(path: str, options: EventOptions, advance: Advance) -> Iterator[Event | None]:
    def place(row: int | None) -> str:
        return display(path) if row is None else f"{display(path)}: row {row}"

    first = 0
    for batch in _parquet_batches(path, advance):
        yield from _arrow_events(batch, options, place, first)
        first += batch.num_rows


def _arrow_events(
    rows: "pa.Table | pa.RecordBatch",
    options: EventOptions,
    place: Callable[[int | None], str],
    first: int = 0,
) -> Iterator[Event | None]:
    """Yield the events of rows, the first of which has the given number in its file."""
    from penstock.model.arrow import events_from_arrow

    events = events_from_arrow(rows, unsupported=options.unsupported, first_row=first)
    try:
        for row, event in enumerate(events, first):
            with _at(lambda row=row: place(row)):  # type: ignore[misc]
                yield _typed(event, options)
    except _PlacedError:
        raise
    except PenstockError as error:
        # The message begins with the row where one is to blame; else the columns are.
        found = _ROW.match(str(error))
        where = place(int(found[1]) if found else None)
        what = str(error)[found.end() :] if found else str(error)
        raise _PlacedError(_in_flags(f"{where}: {what}")) from None


def _typed(event: Event | None, options: EventOptions) -> Event | None:
    """The event with the families asked for; None if that leaves nothing."""
    if event is None or not options.families:
        return event
    return event.with_family(options.families, unsupported=options.unsupported) or None


# Shared


class _PlacedError(InputError):
    """An InputError that says where already."""


@contextmanager
def _at(place: str | Callable[[], str]) -> Iterator[None]:
    """Errors inside say where they happened, unless they do already."""
    try:
        yield
    except _PlacedError:
        raise
    except (PenstockError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        what = str(error)
        if isinstance(error, RecursionError):
            what = "nested too deep"
        elif not isinstance(error, PenstockError):
            what = f"not a JSON object as expected: {error}"
        where = place if isinstance(place, str) else place()
        raise _PlacedError(_in_flags(f"{where}: {what}")) from None


def _in_flags(message: str) -> str:
    """What the library says of its arguments, said of the program's flags."""
    return message.replace("unsupported='skip'", "--unsupported skip")


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
                raise _PlacedError(f"{name}:{number}: a line is longer than {_LINE_LENGTH_MAX:,} bytes")
            advance(len(line))
            content = line.removeprefix(codecs.BOM_UTF8).strip() if number == 1 else line.strip()
            if content:
                yield f"{name}:{number}", content


def _decoded_lines(path: str, file: IO[bytes], advance: Advance) -> Iterator[str]:
    for number, line in enumerate(file, 1):
        advance(len(line))
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise _PlacedError(f"{display(path)}:{number}: not UTF-8: {error.reason}") from None


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
                raise _PlacedError(f"{display(path)}: more than {ATTRIBUTES_MAX:,} columns")
            wanted = None if columns is None else [name for name in columns if name in names]
            size, rows = size_of(path) or 0, max(1, parquet.metadata.num_rows)
            for batch in parquet.iter_batches(batch_size=16_384, columns=wanted):
                yield batch
                advance(size * batch.num_rows // rows)
        except (pa.ArrowException, OSError) as error:
            raise _PlacedError(f"{display(path)}: not Parquet: {error}") from None


@contextmanager
def whole_output(path: str | None, *, line_buffered: bool = False) -> Iterator[Callable[[bytes], object]]:
    """Give a function that writes; what was written appears only if no error comes.

    A file is written beside its place and moved there at the end. Standard output is held back in a
    temporary file, unless it is to be line-buffered.
    """
    target = Path(path).resolve() if path not in (None, "-") else None
    if target is None or (target.exists() and not target.is_file() and not target.is_dir()):
        # Standard output, a device or a pipe: nothing can be moved there.
        with _stream(target) as stream:
            if line_buffered:
                yield lambda line: (stream.write(line), stream.flush())
                return
            with tempfile.SpooledTemporaryFile(max_size=2**26) as held:
                yield held.write
                held.seek(0)
                shutil.copyfileobj(held, stream, 2**20)
        return
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


@contextmanager
def _stream(target: Path | None) -> Iterator[IO[bytes]]:
    if target is None:
        yield sys.stdout.buffer
        return
    try:
        stream = target.open("wb")
    except OSError as error:
        raise InputError(f"{target}: cannot be written: {(error.strerror or str(error)).lower()}") from None
    with stream:
        yield stream
