"""Rules on codes: filters of equality, an in-list and a not-in on string attributes, from a seed.

Events have six attributes, each one of some hundreds of short codes, and besides an id and two numbers that
no filter names. A filter asks three different attributes for three things: to be one code, to be one of
three, not to be one of two. All is uniform, so that an event matches about 3 / values² of the filters: with
176 values and 100 000 filters, ten.

Everything is flat arrays: a million filters take a second.
"""

from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.filters.constraint import Constraint
from penstock.filters.filter import Filter

if TYPE_CHECKING:
    import pyarrow as pa

ATTRIBUTES: Final = ("site", "device", "status", "region", "product", "channel")
VALUES: Final = 176
INCLUDED: Final = 3
EXCLUDED: Final = 2

_LETTERS: Final = 26
_LENGTH: Final = 5
_CODES: Final = _LETTERS**_LENGTH
_STEP: Final = 12_347
"""Has no divisor in common with the number of codes: neighbours get codes that share nothing."""


class Rules(NamedTuple):
    """Filters: `attribute[i]` are the three attributes of filter i, then come the codes that it asks for."""

    attribute: NDArray[np.int64]
    equal: NDArray[np.int64]
    included: NDArray[np.int64]
    excluded: NDArray[np.int64]
    values: int


class Events(NamedTuple):
    """Events: for each attribute of each event its code; and what no filter names."""

    code: NDArray[np.int64]
    id: NDArray[np.int64]
    latency_ms: NDArray[np.float64]
    sequence: NDArray[np.int64]
    values: int


def filters(count: int, seed: int, values: int = VALUES) -> Rules:
    """So many random filters, on attributes of so many different values."""
    random = np.random.default_rng(seed)
    attribute = np.argsort(random.random((count, len(ATTRIBUTES))), axis=1)[:, :3]
    return Rules(
        attribute=attribute,
        equal=random.integers(0, values, count),
        included=_distinct(random, count, INCLUDED, values),
        excluded=_distinct(random, count, EXCLUDED, values),
        values=values,
    )


def events(count: int, seed: int, values: int = VALUES) -> Events:
    """So many random events. A seed's events have nothing to do with its filters."""
    random = np.random.default_rng([seed, 1])
    return Events(
        code=random.integers(0, values, (count, len(ATTRIBUTES))),
        id=random.integers(0, 2**62, (count, 2)),
        latency_ms=np.round(random.random(count) * 1_000, 3),
        sequence=random.integers(10_000_000, 100_000_000, count),
        values=values,
    )


@cache
def texts(values: int) -> tuple[str, ...]:
    """The codes as text: that of attribute a's value v is number `a * values + v`."""
    if len(ATTRIBUTES) * values > _CODES:
        raise ValueError(f"there are too few codes for {values:,} values of {len(ATTRIBUTES)} attributes")
    number = np.arange(len(ATTRIBUTES) * values) * _STEP % _CODES
    letters = number[:, None] // _LETTERS ** np.arange(_LENGTH - 1, -1, -1) % _LETTERS + ord("A")
    return tuple(bytes(row).decode() for row in letters.astype(np.uint8))


def constraints_table(rules: Rules, ids: "pa.Array") -> "pa.Table":
    """The filters as `Matcher.add_constraints` takes them: three rows each, with lists of values."""
    import pyarrow as pa

    count = len(rules.equal)
    lengths = np.tile((1, INCLUDED, EXCLUDED), count)
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    first = rules.attribute * rules.values
    asked = np.hstack(
        (
            (first[:, 0] + rules.equal)[:, None],
            first[:, 1, None] + rules.included,
            first[:, 2, None] + rules.excluded,
        )
    )
    known = pa.array(texts(rules.values))
    attribute = pa.DictionaryArray.from_arrays(rules.attribute.reshape(-1).astype(np.int32), ATTRIBUTES)
    op = pa.DictionaryArray.from_arrays(np.tile(np.arange(3, dtype=np.int32), count), ["=", "in", "not in"])
    values = known.take(pa.array(asked.reshape(-1)))
    return pa.table(
        {
            "id": ids.take(pa.array(np.repeat(np.arange(count), 3))),
            "attribute": attribute,
            "op": op,
            "string": pa.ListArray.from_arrays(pa.array(offsets), values),
        }
    )


def as_constraints(rules: Rules, i: int) -> list[Constraint]:
    """Filter `i` as a list of constraints."""
    known = texts(rules.values)
    asked = ([int(rules.equal[i])], rules.included[i].tolist(), rules.excluded[i].tolist())
    (equal,), included, excluded = (
        [known[a * rules.values + v] for v in of]
        for a, of in zip(rules.attribute[i].tolist(), asked, strict=True)
    )
    first, second, third = (ATTRIBUTES[a] for a in rules.attribute[i])
    return [
        Constraint(first, "=", equal),
        Constraint(second, "in", included),
        Constraint(third, "not in", excluded),
    ]


def as_filter(rules: Rules, i: int) -> Filter:
    """Filter `i` of the algebra."""
    return Filter(as_constraints(rules, i))


def as_record_batch(events: Events, *, dictionary: bool = False) -> "pa.RecordBatch":
    """All events as Arrow rows; the codes as plain strings, or as dictionaries."""
    import pyarrow as pa

    known = pa.array(texts(events.values))
    columns = {"id": pa.array(_hexadecimal(events.id))}
    for a, name in enumerate(ATTRIBUTES):
        own = known.slice(a * events.values, events.values)
        code = pa.array(events.code[:, a].astype(np.int32))
        columns[name] = pa.DictionaryArray.from_arrays(code, own) if dictionary else own.take(code)
    columns["latency_ms"] = pa.array(events.latency_ms)
    columns["sequence"] = pa.array(events.sequence)
    return pa.RecordBatch.from_pydict(columns)


def as_event(events: Events, i: int) -> dict[str, int | float | str]:
    """Event `i`'s attributes."""
    known = texts(events.values)
    made: dict[str, int | float | str] = {"id": _hexadecimal(events.id[i : i + 1])[0]}
    for a, name in enumerate(ATTRIBUTES):
        made[name] = known[a * events.values + int(events.code[i, a])]
    made["latency_ms"], made["sequence"] = float(events.latency_ms[i]), int(events.sequence[i])
    return made


def as_json_lines(events: Events) -> bytes:
    """All events as lines of JSON, of some 185 bytes."""
    return msgspec.json.Encoder().encode_lines(as_record_batch(events).to_pylist())


def _hexadecimal(ids: NDArray[np.int64]) -> list[str]:
    return [f"{high:016x}{low:016x}" for high, low in ids.tolist()]


def _distinct(random: np.random.Generator, rows: int, width: int, values: int) -> NDArray[np.int64]:
    """Rows of numbers below `values` without repetition; rows that have one are drawn anew."""
    if width > values:
        raise ValueError(f"{values} values are too few for a list of {width}")
    drawn = random.integers(0, values, (rows, width))
    again = np.arange(rows)
    while len(again):
        ordered = np.sort(drawn[again], axis=1)
        again = again[(ordered[:, 1:] == ordered[:, :-1]).any(axis=1)]
        drawn[again] = random.integers(0, values, (len(again), width))
    return drawn
