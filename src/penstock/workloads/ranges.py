"""Ranges: filters of three closed intervals on three of ten integer attributes, from a seed.

Attributes are uniform over 0 to 9999. An interval is a share of that wide (4.6 %) and lies anywhere in it, so
that an event matches 0.046³ of the filters: of 100 000, ten.

Everything is flat arrays: a million filters take a second.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.filters.constraint import Constraint
from penstock.filters.filter import Filter

if TYPE_CHECKING:
    import pyarrow as pa

ATTRIBUTES: Final = tuple(f"x{i}" for i in range(10))
DOMAIN: Final = 10_000
WIDTH: Final = 0.046
INTERVALS: Final = 3


class Ranges(NamedTuple):
    """Filters: on each of three attributes of filter i, the ends, both included, of an interval."""

    attribute: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]


def filters(count: int, seed: int, width: float = WIDTH) -> Ranges:
    """So many random filters, of intervals that are so wide a share of the domain."""
    values = max(1, round(width * DOMAIN))
    random = np.random.default_rng(seed)
    attribute = np.argsort(random.random((count, len(ATTRIBUTES))), axis=1)[:, :INTERVALS]
    low = random.integers(0, DOMAIN - values + 1, (count, INTERVALS))
    return Ranges(attribute, low, low + values - 1)


def events(count: int, seed: int) -> NDArray[np.int64]:
    """So many random events, a row each. A seed's events have nothing to do with its filters."""
    return np.random.default_rng([seed, 1]).integers(0, DOMAIN, (count, len(ATTRIBUTES)))


def constraints_table(ranges: Ranges, ids: "pa.Array") -> "pa.Table":
    """The filters as `Matcher.add_constraints` takes them: three rows each, with lists of two ends."""
    import pyarrow as pa

    count = len(ranges.low)
    rows = count * INTERVALS
    ends = np.stack((ranges.low.reshape(-1), ranges.high.reshape(-1)), axis=1).reshape(-1)
    attribute = ranges.attribute.reshape(-1).astype(np.int32)
    return pa.table(
        {
            "id": ids.take(pa.array(np.repeat(np.arange(count), INTERVALS))),
            "attribute": pa.DictionaryArray.from_arrays(attribute, ATTRIBUTES),
            "op": pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), ["between"]),
            "number": pa.ListArray.from_arrays(np.arange(0, 2 * rows + 1, 2, dtype=np.int32), ends),
        }
    )


def as_constraints(ranges: Ranges, i: int) -> list[Constraint]:
    """Filter `i` as a list of constraints."""
    rows = zip(ranges.attribute[i].tolist(), ranges.low[i].tolist(), ranges.high[i].tolist(), strict=True)
    return [Constraint(ATTRIBUTES[attribute], "between", (low, high)) for attribute, low, high in rows]


def as_filter(ranges: Ranges, i: int) -> Filter:
    """Filter `i` of the algebra."""
    return Filter(as_constraints(ranges, i))


def as_record_batch(events: NDArray[np.int64]) -> "pa.RecordBatch":
    """All events as Arrow rows."""
    import pyarrow as pa

    columns = {name: pa.array(np.ascontiguousarray(events[:, a])) for a, name in enumerate(ATTRIBUTES)}
    return pa.RecordBatch.from_pydict(columns)


def as_event(events: NDArray[np.int64], i: int) -> dict[str, int]:
    """Event `i`'s attributes."""
    return dict(zip(ATTRIBUTES, events[i].tolist(), strict=True))


def as_json_lines(events: NDArray[np.int64]) -> bytes:
    """All events as lines of JSON."""
    return msgspec.json.Encoder().encode_lines(as_event(events, i) for i in range(len(events)))
