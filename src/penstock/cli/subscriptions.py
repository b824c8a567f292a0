"""Subscriptions from files: rows with id, filter and, if there is one, subscriber."""

import csv
from collections.abc import Iterator, Mapping
from typing import IO, Any

import msgspec

from penstock.cli.files import Advance, PlacedError, display, lines, opened, parquet_batches, placed
from penstock.errors import InputError
from penstock.filters.parsing import Language, parse
from penstock.filters.predicate import Predicate
from penstock.model.limits import TEXT_LENGTH_MAX
from penstock.model.names import Id, check_id


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


def read_subscriptions(path: str, kind: str, language: Language, advance: Advance) -> Iterator[Subscription]:
    """Yield the subscriptions of a file."""
    readers = {"jsonl": _jsonl_subscriptions, "csv": _csv_subscriptions, "parquet": _parquet_subscriptions}
    return readers[kind](path, language, advance)


def _jsonl_subscriptions(path: str, language: Language, advance: Advance) -> Iterator[Subscription]:
    decoder = msgspec.json.Decoder(_Line)
    for place, line in lines(path, advance):
        with placed(place):
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
            with placed(f"{display(path)}:{rows.line_num + 1}"):
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
    for batch in parquet_batches(path, advance):
        names = _columns(batch.schema.names, where=f"{display(path)}: ")
        names = [name for name in ("id", "filter", "subscriber") if name in names]
        batch = batch.select(names)
        try:
            found = batch.to_pylist()
        except UnicodeDecodeError as error:
            raise PlacedError(
                f"{display(path)}: from row {row} on, text is not UTF-8: {error.reason}"
            ) from None
        for fields in found:
            with placed(f"{display(path)}: row {row}"):
                yield _from_fields({name: fields[name] for name in names}, language)
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


def _decoded_lines(path: str, file: IO[bytes], advance: Advance) -> Iterator[str]:
    for number, line in enumerate(file, 1):
        advance(len(line))
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise PlacedError(f"{display(path)}:{number}: not UTF-8: {error.reason}") from None
