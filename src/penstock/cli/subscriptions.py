"""Subscriptions from files: rows with id, filter and, if there is one, subscriber."""

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import IO, Any, Final, NamedTuple, Protocol

import msgspec

from penstock.cli.files import Advance, PlacedError, display, lines, opened, parquet_batches, placed
from penstock.cli.sources import Source
from penstock.errors import InputError, PenstockError
from penstock.filters.parsing import Language, never_matching, parse
from penstock.filters.predicate import Predicate
from penstock.model.limits import TEXT_LENGTH_MAX
from penstock.model.names import Id, check_id


class Subscription(msgspec.Struct, frozen=True):
    """A row of a subscriptions file."""

    id: Id
    predicate: Predicate
    place: "Place"
    subscriber: str | None = None
    never: tuple[str, ...] = ()
    """Alternatives of the filter that no event can match, if they are looked for."""


class Place(NamedTuple):
    """Where something stands: in a line of a file, or in a row of a Parquet file; or None, of the file."""

    file: str
    line: int | None = None
    row: int | None = None

    def __str__(self) -> str:
        if self.row is not None:
            return f"{display(self.file)}: row {self.row}"
        return display(self.file) if self.line is None else f"{display(self.file)}:{self.line}"

    def plain(self) -> dict[str, str | int]:
        """The file, and the line or, in Parquet, the row from 0: as JSON has it."""
        return {name: value for name, value in self._asdict().items() if value is not None}


class Fault(NamedTuple):
    """What keeps a row from being a subscription."""

    place: Place
    message: str
    id: Id | None = None
    """The row's id, where it can be read."""


class Reading(msgspec.Struct, frozen=True):
    """How subscriptions are read."""

    language: Language = "sql"
    fault: Callable[[Fault], None] | None = None
    """What is told of rows that are no subscriptions, which are left out then; else the first is an error."""
    alternatives: bool = False
    """Look for alternatives that no event can match."""
    only: str | None = None
    """Read the subscriptions of this id alone. Integers are meant as well as text."""

    def wants(self, identifier: object) -> bool:
        """Whether the subscriptions of an id are read."""
        return self.only is None or str(identifier) == self.only


class _Told:
    """What is known of a row that may turn out to be none."""

    id: object = None


class _Id(msgspec.Struct):
    """The id of a JSON line, whatever else is in it."""

    id: int | str


class _Line(msgspec.Struct):
    """A subscription as a JSON line; the filter may be text or the JSON form."""

    id: int | str
    filter: msgspec.Raw
    subscriber: str | None = None


_ID: Final = msgspec.json.Decoder(_Id)
_MAY_CHOOSE: Final = re.compile(r'\bor\b|\bnot\s*+\(|"any"|"not"', re.IGNORECASE)
"""What a text has that has alternatives."""


def read_subscriptions(files: Iterable[Source], reading: Reading, advance: Advance) -> Iterator[Subscription]:
    """Yield the subscriptions of files."""
    readers = {"jsonl": _jsonl_subscriptions, "csv": _csv_subscriptions, "parquet": _parquet_subscriptions}
    for source in files:
        try:
            yield from readers[source.kind](source.path, reading, advance)
        except PlacedError as error:
            if reading.fault is None:
                raise
            reading.fault(_fault(Place(source.path), error))


@contextmanager
def _told(place: Place, reading: Reading) -> Iterator[_Told]:
    """Errors inside say where they happened; they are raised, or told to who is to be told of them."""
    told = _Told()
    try:
        with placed(str(place)):
            yield told
    except PlacedError as error:
        if reading.fault is None:
            raise
        reading.fault(_fault(place, error)._replace(id=_id_of(told.id)))


def _id_of(given: object) -> Id | None:
    """An id that can be one."""
    try:
        return check_id(given)
    except PenstockError:
        return None


def _fault(place: Place, error: PlacedError) -> Fault:
    name = display(place.file)
    # Where in the file it is, only the text tells then.
    found = re.match(rf"{re.escape(name)}:(\d+): ", str(error)) if place == Place(place.file) else None
    if found:
        return Fault(place._replace(line=int(found[1])), str(error)[found.end() :])
    return Fault(place, error.message or str(error).removeprefix(f"{name}: "))


def _jsonl_subscriptions(path: str, reading: Reading, advance: Advance) -> Iterator[Subscription]:
    decoder = msgspec.json.Decoder(_Line)
    for number, line in lines(path, advance):
        place = Place(path, number)
        made = None
        with _told(place, reading) as told:
            if reading.fault is not None:
                with suppress(msgspec.DecodeError):
                    told.id = _ID.decode(line).id
            found = decoder.decode(line)
            if reading.wants(found.id):
                predicate, never = _json_predicate(bytes(found.filter), reading)
                made = Subscription(check_id(found.id), predicate, place, found.subscriber, never)
        if made is not None:
            yield made


def _json_predicate(raw: bytes, reading: Reading) -> tuple[Predicate, tuple[str, ...]]:
    if raw.startswith(b'"'):
        return _parsed(msgspec.json.decode(raw, type=str), reading.language, reading)
    if raw.startswith(b"{"):
        return _parsed(raw.decode(), "json", reading)
    raise InputError("a filter is text, or an object in the JSON form")


def _parsed(text: str, language: Language, reading: Reading) -> tuple[Predicate, tuple[str, ...]]:
    """The predicate of a text, and its alternatives that never match, if these are looked for."""
    predicate = parse(text, language)
    if not reading.alternatives or not predicate.satisfiable or not _MAY_CHOOSE.search(text):
        return predicate, ()
    return predicate, tuple(never_matching(text, language))


def _csv_subscriptions(path: str, reading: Reading, advance: Advance) -> Iterator[Subscription]:
    # A filter may be as long as any text; the csv module's own limit is 128 KiB.
    csv.field_size_limit(TEXT_LENGTH_MAX)
    with opened(path) as file:
        rows = csv.reader(_decoded_lines(path, file, reading, advance), strict=True)
        names = _header(path, rows)
        for place, row in _csv_rows(path, rows, reading):
            made = None
            with _told(place, reading) as told:
                told.id = dict(zip(names, row, strict=False)).get("id")
                if len(row) != len(names):
                    raise InputError(f"{len(names)} fields were expected, found {len(row)}")
                made = _from_fields(dict(zip(names, row, strict=True)), reading, place)
            if made is not None:
                yield made


def _header(path: str, rows: "_Rows") -> list[str]:
    with placed(f"{display(path)}:1"):
        try:
            return _columns(next(rows))
        except StopIteration:
            raise InputError("a header with the columns id and filter was expected") from None
        except csv.Error as error:
            raise InputError(f"not CSV: {error}") from None


def _csv_rows(path: str, rows: "_Rows", reading: Reading) -> Iterator[tuple[Place, list[str]]]:
    """The rows that are not blank, each with the line on which it begins."""
    while True:
        place, row = Place(path, rows.line_num + 1), None
        with _told(place, reading):
            try:
                row = next(rows)
            except StopIteration:
                return
            except csv.Error as error:
                raise InputError(f"not CSV: {error}") from None
        if row:
            yield place, row


def _parquet_subscriptions(path: str, reading: Reading, advance: Advance) -> Iterator[Subscription]:
    row = 0
    for batch in parquet_batches(path, advance):
        with placed(display(path)):
            names = _columns(batch.schema.names)
        names = [name for name in ("id", "filter", "subscriber") if name in names]
        batch = batch.select(names)
        try:
            found = batch.to_pylist()
        except UnicodeDecodeError as error:
            raise PlacedError(
                f"{display(path)}: from row {row} on, text is not UTF-8: {error.reason}"
            ) from None
        for fields in found:
            place, made = Place(path, row=row), None
            with _told(place, reading) as told:
                told.id = fields["id"]
                made = _from_fields({name: fields[name] for name in names}, reading, place)
            if made is not None:
                yield made
            row += 1


class _Rows(Protocol):
    """What the csv module reads with."""

    @property
    def line_num(self) -> int: ...

    def __next__(self) -> list[str]: ...


def _columns(names: list[str]) -> list[str]:
    missing = [name for name in ("id", "filter") if name not in names]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"the column {twice!r:.80} is there twice")
    if missing:
        raise InputError(f"a column {missing[0]!r} is missing; there are: {', '.join(names)[:200]}")
    return names


def _from_fields(fields: Mapping[str, Any], reading: Reading, place: Place) -> Subscription | None:
    if not reading.wants(fields["id"]):
        return None
    text, subscriber = fields["filter"], fields.get("subscriber")
    if not isinstance(text, str):
        raise InputError(f"a filter is text, not {'null' if text is None else type(text).__name__}")
    if not isinstance(subscriber, str | None):
        raise InputError(f"a subscriber is text, not {type(subscriber).__name__}")
    identifier = check_id(fields["id"])
    predicate, never = _parsed(text, reading.language, reading)
    return Subscription(identifier, predicate, place, subscriber or None, never)


def _decoded_lines(path: str, file: IO[bytes], reading: Reading, advance: Advance) -> Iterator[str]:
    for number, line in enumerate(file, 1):
        advance(len(line))
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            failure = PlacedError(f"{display(path)}:{number}: not UTF-8: {error.reason}")
            if reading.fault is None:
                raise failure from None
            reading.fault(_fault(Place(path), failure))
            # A blank line is no row: those that come after it are read.
            yield "\n"
