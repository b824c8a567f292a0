"""Subscriptions as the analysis jobs take them: one predicate for each id, parsed once, in a compact form.

The rows of one id are a disjunction, as everywhere. A predicate becomes bytes that are equal exactly where
the predicates are, so that equal filters are found without comparing any, and a *place*: four values to sort
by that bring filters on the same attributes, with ends near each other, side by side. Equal predicates have
equal places.

Workers do the parsing. What does not parse comes back as a row like the others, and the driver raises one
error that names it: what is raised in a worker would arrive as pages of Java.
"""

from collections.abc import Iterator
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from penstock.errors import FilterError, PenstockError
from penstock.filters.filter import box
from penstock.filters.order import After
from penstock.filters.parsing import LANGUAGES, Language, parse
from penstock.filters.predicate import Predicate, of_canonical
from penstock.filters.valuesets import Presence, ValueSet
from penstock.model.decimals import ExactDecimal
from penstock.model.values import Family
from penstock.routing.shape import Shape, shape_of
from penstock.spark.choices import check_choice
from penstock.spark.python import ready
from penstock.spark.subscriptions import check_static, checked_columns

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

PLACE: Final = ("likeness", "low", "high", "mark")
"""The columns to sort and to split by."""

_SCHEMA: Final = "id string, data binary, likeness string, low double, high double, mark long, error string"
_FAMILIES: Final = frozenset(int(family) for family in Family)
_TEXT: Final = b"\xc1"
"""How the text of a predicate with clauses begins: nothing in MessagePack does."""

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(
    list[list[tuple[str, int, tuple[Any, ...], tuple[bytes, ...], tuple[bytes, ...]]]]
)


class Parsed(NamedTuple):
    """The predicates of subscriptions: `rows` with id, data and place, and how many there are."""

    rows: "DataFrame"
    size: int


class Place(NamedTuple):
    """Where a predicate goes among others: its attributes, the ends on the first of them, a hash."""

    likeness: str
    low: float
    high: float
    mark: int


def parsed(subscriptions: "DataFrame", language: Language = "sql") -> Parsed:
    """Parse a DataFrame (id, filter) on the workers; FilterError names the first row that is none.

    Runs a job: afterwards the rows lie parsed on the executors.
    """
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    check_choice("language", language, LANGUAGES)
    check_static(subscriptions)
    checked_columns(subscriptions.schema)
    ready(subscriptions.sparkSession)
    texts = (
        subscriptions.select(F.col("id").cast("string").alias("id"), "filter")
        .groupBy("id")
        .agg(F.collect_list("filter").alias("filters"), F.count("*").alias("rows"))
    )
    rows = texts.mapInArrow(partial(_parse_batches, language=language), _SCHEMA).localCheckpoint()
    bad = F.when(F.col("error").isNotNull(), F.struct("id", "error"))
    (found,) = rows.agg(
        F.count("*").alias("n"), F.count(bad).alias("bad"), F.min(bad).alias("first")
    ).collect()
    if found.bad:
        more = f"; {found.bad - 1:,} more ids have a filter that cannot be used" if found.bad > 1 else ""
        raise FilterError(f"the filter of {found.first.id!r:.200} cannot be used: {found.first.error}{more}")
    return Parsed(rows.drop("error"), found.n)


def encode(predicate: Predicate) -> bytes:
    """A predicate as bytes; equal ones as equal bytes."""
    if any(f.clauses for f in predicate.filters):
        return _TEXT + predicate.to_sql().encode()
    return _ENCODER.encode(
        [
            [
                (
                    name,
                    int(states.kind),
                    _plain_cuts(states),
                    _plain(states.required),
                    _plain(states.forbidden),
                )
                for name, states in f.conditions.items()
            ]
            for f in predicate.filters
        ]
    )


def decode(data: bytes) -> Predicate:
    """The predicate of these bytes, which are ours."""
    if data.startswith(_TEXT):
        return parse(data[len(_TEXT) :].decode())
    return of_canonical(
        tuple(
            box(
                {
                    name: ValueSet(
                        Family(kind) if kind in _FAMILIES else Presence(kind),
                        tuple(map(_point, cuts)) if kind == Family.NUMBER else cuts,
                        _patterns(required),
                        _patterns(forbidden),
                    )
                    for name, kind, cuts, required, forbidden in conditions
                }
            )
            for conditions in _DECODER.decode(data)
        )
    )


def place_of(shape: Shape, data: bytes) -> Place:
    """The place of a predicate with this shape and these bytes."""
    likeness = msgspec.json.encode(shape.key).decode()
    low, high = shape.ends[:2] if shape.ends else (0.0, 0.0)
    mark = int.from_bytes(blake2b(data, digest_size=8).digest(), signed=True)
    return Place(likeness, low, high, mark)


def _parse_batches(batches: "Iterator[pa.RecordBatch]", language: Language) -> "Iterator[pa.RecordBatch]":
    import pyarrow as pa

    types = [pa.string(), pa.binary(), pa.string(), pa.float64(), pa.float64(), pa.int64(), pa.string()]
    names = ["id", "data", *PLACE, "error"]
    for batch in batches:
        rows = [parse_row(row["id"], row["filters"], row["rows"], language) for row in batch.to_pylist()]
        columns = list(zip(*rows, strict=True)) or [()] * len(names)
        arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
        yield pa.record_batch(arrays, names=names)


def parse_row(name: str | None, texts: list[str], count: int, language: Language) -> tuple[object, ...]:
    """A row of `parsed`: the filters of one id, of which there should be so many, or why they are none."""
    nothing = (None,) * (1 + len(PLACE))
    if name is None:
        return "", *nothing, "a subscription without an id"
    if len(texts) < count:
        return name, *nothing, "it is null"
    try:
        predicate = parse(texts[0], language)
        if len(texts) > 1:
            predicate = Predicate(f for text in texts for f in parse(text, language).filters)
        data = encode(predicate)
        return name, data, *place_of(shape_of(predicate), data), None
    except PenstockError as error:
        return name, *nothing, str(error)


def _plain_cuts(states: ValueSet) -> tuple[Any, ...]:
    """Cuts as plain values: a place just after a number as a list, a decimal without a double as text."""
    if states.kind is not Family.NUMBER:
        return states.cuts
    return tuple(
        [_plain_number(cut.value)] if type(cut) is After else _plain_number(cut) for cut in states.cuts
    )


def _plain_number(number: Any) -> Any:
    return str(number) if type(number) is ExactDecimal else number


def _point(plain: Any) -> Any:
    if isinstance(plain, list | tuple):
        return After(_point(plain[0]))
    return ExactDecimal(plain) if isinstance(plain, str) else plain


def _plain(patterns: tuple[str, ...]) -> tuple[bytes, ...]:
    """Patterns hold lone surrogates for wildcards, which no text format takes."""
    return tuple(pattern.encode("utf-8", "surrogatepass") for pattern in patterns)


def _patterns(plain: tuple[bytes, ...]) -> tuple[str, ...]:
    return tuple(data.decode("utf-8", "surrogatepass") for data in plain)
