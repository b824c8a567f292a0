"""Events one by one: of a JSON line, a CSV record or the row of a table each."""

import csv
import io
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.cli.files import Advance, PlacedError, display, opened, placed
from penstock.errors import InputError, PenstockError
from penstock.model.events import Event, Unsupported, decode_object, flatten, read_families
from penstock.model.values import Family

if TYPE_CHECKING:
    import pyarrow as pa

_LOOKS: Final = {
    Family.NUMBER: r"^[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$",
    Family.BOOL: r"^(?:[Tt]rue|TRUE|[Ff]alse|FALSE)$",
    Family.TIME: r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[Tt ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)? ?"
    r"(?:[Zz]|[+-][0-9]{2}:?[0-9]{2})?)?$",
}
"""What every field of a CSV column must look like for the column to be of a family; else it is text."""

_CSV_ROW: Final = re.compile(r"Row #(\d+)")


class EventOptions(msgspec.Struct, frozen=True):
    """How events are read."""

    families: dict[str, Family] = {}
    nulls: tuple[str, ...] = ()
    unsupported: Unsupported = "refuse"


def families_given(given: list[str]) -> dict[str, Family]:
    """What --family says, for each attribute that it names."""
    families: dict[str, Family] = {}
    for pair in given:
        name, equals, label = pair.rpartition("=")
        if not equals or not name:
            raise InputError(f"--family {pair!r}: write NAME=FAMILY, such as at=time")
        try:
            families[name] = Family.named(label)
        except PenstockError as error:
            raise InputError(f"--family {pair!r}: {error}") from None
    return families


def json_event(line: bytes, options: EventOptions) -> Event:
    """The event of a JSON line."""
    return _typed(Event.from_flat(flatten(decode_object(line), options.unsupported)), options)


def csv_rows(
    path: str, options: EventOptions, advance: Advance
) -> "tuple[pa.Table, EventOptions, Callable[[int | None], str]]":
    """A CSV file as a table, how its rows are to be read, and what tells the place of one."""
    with opened(path) as file:
        content = file.read()
    advance(len(content))
    # A field may be as long as a string; the csv module's own limit is 128 KiB.
    csv.field_size_limit(2**31 - 1)
    _check_csv(path, content)
    table = _csv_table(path, content, options)
    families = {**_families_of_columns(table), **options.families}
    table, families = _typed_columns(table, families)
    reading = msgspec.structs.replace(options, families=families)
    # A record may span lines, so only counting finds the line of a row; that is done when one is bad.
    return table, reading, lambda row: f"{display(path)}:{_csv_line(content, row)}"


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


def _csv_table(path: str, content: bytes, options: EventOptions) -> "pa.Table":
    """The fields as text, those that mean absent as null."""
    import pyarrow as pa
    import pyarrow.csv as pacsv

    # With threads, errors do not tell the row.
    reading = pacsv.ReadOptions(use_threads=False)
    parsing = pacsv.ParseOptions(newlines_in_values=True)
    try:
        names = pacsv.open_csv(io.BytesIO(content), reading, parsing).schema.names
        converting = pacsv.ConvertOptions(
            null_values=["", *options.nulls],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            column_types=dict.fromkeys(names, pa.string()),
        )
        return pacsv.read_csv(io.BytesIO(content), reading, parsing, converting)
    except pa.ArrowInvalid as error:
        found = _CSV_ROW.search(str(error))
        # Arrow counts records from 1, the header included.
        line = _csv_line(content, int(found[1]) - 2) if found else 1
        raise PlacedError(f"{display(path)}:{line}: not CSV: {error}") from None


def _families_of_columns(table: "pa.Table") -> dict[str, Family]:
    """The family of each column: the one that every field in it can be read as, else string.

    Arrow's own guesses go further: to it `0x1F` is a number, and `1` beside `true` a bool.
    """
    import pyarrow.compute as pc

    found: dict[str, Family] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        for family, pattern in _LOOKS.items():
            # An empty column passes for anything, and has nothing to read.
            if pc.all(pc.match_substring_regex(column, pattern)).as_py():
                found[name] = family
                break
    return found


def _typed_columns(table: "pa.Table", families: dict[str, Family]) -> "tuple[pa.Table, dict[str, Family]]":
    """Convert whole columns of numbers where that is exact; the rest is left for one value at a time."""
    import pyarrow as pa
    import pyarrow.compute as pc

    left: dict[str, Family] = {}
    for name, family in families.items():
        at = table.schema.get_field_index(name)
        if family is Family.NUMBER and at >= 0:
            column = table.column(at)
            integers = pc.match_substring_regex(column, r"^[+-]?[0-9]{1,18}$")
            if pc.all(integers).as_py():
                kind = pa.int64()
            elif not pc.any(pc.match_substring_regex(column, r"^[+-]?[0-9]{16,}$")).as_py():
                # Integers of so few digits are doubles too, so none is changed by being one.
                kind = pa.float64()
            else:
                left[name] = family
                continue
            try:
                numbers = pc.replace_substring_regex(column, r"^\+", "").cast(kind)
            except pa.ArrowInvalid:
                left[name] = family
                continue
            if kind == pa.float64() and pc.any(pc.is_inf(numbers)).as_py():
                # 1e999 is no double; reading it by itself says so, with its place.
                left[name] = family
                continue
            table = table.set_column(at, name, numbers)
            continue
        if family is not Family.STRING:
            left[name] = family
    return table, left


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


def arrow_events(
    rows: "pa.Table | pa.RecordBatch",
    options: EventOptions,
    place: Callable[[int | None], str],
    first: int = 0,
) -> Iterator[Event]:
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


def _typed(event: Event, options: EventOptions) -> Event:
    """The event with the families asked for."""
    if not options.families:
        return event
    return Event.from_flat(read_families(event.attributes, options.families, options.unsupported))
