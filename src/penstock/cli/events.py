"""Events from files: a JSON line, a CSV record or a Parquet row each."""

import csv
import io
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.cli.files import Advance, PlacedError, display, lines, opened, parquet_batches, placed
from penstock.errors import EventError, PenstockError
from penstock.model.events import Event, Unsupported, decode_object, flatten
from penstock.model.values import Family

if TYPE_CHECKING:
    import pyarrow as pa

_CSV_ROW: Final = re.compile(r"Row #(\d+)")


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
    for place, line in lines(path, advance):
        with placed(place):
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
        raise PlacedError(f"{display(path)}:{line}: not UTF-8: {error.reason}") from None
    if content.count(b'"') % 2:
        rows = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True)
        line = 1
        try:
            for _row in rows:
                line = rows.line_num + 1
        except csv.Error as error:
            raise PlacedError(f"{display(path)}:{line}: not CSV: {error}") from None


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
        raise PlacedError(f"{display(path)}:{line}: not CSV: {error}") from None


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
    first = 0
    for batch in parquet_batches(path, advance):
        yield from _arrow_events(batch, options, lambda _row: display(path), first)
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
            try:
                yield _typed(event, options)
            except PenstockError as error:
                raise error.in_row(row) from None
    except PlacedError:
        raise
    except PenstockError as error:
        with placed(place(error.row)):
            raise


def _typed(event: Event | None, options: EventOptions) -> Event | None:
    """The event with the families asked for; None if that leaves nothing."""
    if event is None or not options.families:
        return event
    return event.with_family(options.families, unsupported=options.unsupported) or None
