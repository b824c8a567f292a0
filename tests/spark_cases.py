"""Random record batches with all types that events may come in, and what each row is as an event."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import strategies as st

from brute import State
from matching_cases import LONGER
from penstock.model.values import Time
from penstock.spark.workers import Found
from strategies import BOOLS, NUMBERS, STRINGS, TIMES

DAY = 86_400 * 10**9
_SCALE = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


class Kind(NamedTuple):
    """A type of column: values as Arrow has them, and what they are in an event."""

    type: pa.DataType
    values: st.SearchStrategy[Any]
    meaning: Callable[[Any], State] = lambda value: value
    encoded: bool = False
    """Whether the column is one of a dictionary."""


def _whole(bits: int) -> Kind:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    known = [n for n in NUMBERS if n % 1 == 0 and low <= n <= high]
    values = st.one_of(st.sampled_from(known).map(int), st.sampled_from((low, high)), st.integers(low, high))
    return Kind(getattr(pa, f"int{bits}")(), values)


def _times(unit: str, zone: str | None) -> Kind:
    scale = _SCALE[unit]
    edges = [-(2**63) // scale + 1, (2**63 - 1) // scale, *(t.nanoseconds // scale for t in TIMES[1:-1])]
    return Kind(pa.timestamp(unit, zone), st.sampled_from(edges), lambda ticks: Time(ticks * scale))


_DOUBLES = [float(n) for n in NUMBERS] + [float("nan"), float("inf"), float("-inf")]
_TEXTS = st.one_of(st.sampled_from((*STRINGS, *LONGER)), st.text("abé%_", max_size=6))
_FEW_TEXTS = st.sampled_from(("", "a", "ab", "b", "é"))

KINDS = {
    "bool": Kind(pa.bool_(), st.sampled_from(BOOLS)),
    **{f"int{bits}": _whole(bits) for bits in (8, 16, 32, 64)},
    "float": Kind(pa.float32(), st.sampled_from((0.5, -0.0, 1.0, 2.0**53, float("nan"), float("inf")))),
    "double": Kind(pa.float64(), st.sampled_from(_DOUBLES)),
    "string": Kind(pa.string(), _TEXTS),
    "large string": Kind(pa.large_string(), _TEXTS),
    "dictionary": Kind(pa.string(), _FEW_TEXTS, encoded=True),
    "date": Kind(
        pa.date32(), st.sampled_from((-100_000, -1, 0, 1, 15_706, 106_751)), lambda d: Time(d * DAY)
    ),
    "void": Kind(pa.null(), st.none()),
    **{
        f"time {unit} {zone}": _times(unit, zone)
        for unit in _SCALE
        for zone in (None, "UTC", "America/New_York")
    },
}
"""By name, as examples are printed."""


class Rows(NamedTuple):
    """A batch, and its events; one without an attribute is none at all."""

    batch: pa.RecordBatch
    events: list[dict[str, State]]


LEAVES = ("x", "y", "order.z", "other")


@st.composite
def rows(draw: st.DrawFn, rows_max: int = 12) -> Rows:
    """Columns x, y, other, and order.z: as a column of that name, or as a field of a struct."""
    count = draw(st.integers(0, rows_max))
    columns: dict[str, pa.Array] = {}
    events: list[dict[str, State]] = [{} for _ in range(count)]
    for name in draw(st.lists(st.sampled_from(LEAVES), min_size=1, unique=True)):
        kind = KINDS[draw(st.sampled_from(sorted(KINDS)))]
        values = draw(st.lists(st.one_of(st.none(), kind.values), min_size=count, max_size=count))
        present = [True] * count
        array = pa.array(values, pa.int64() if _is_time(kind) else kind.type)
        if _is_time(kind):
            array = (array.cast(pa.int32()) if kind.type == pa.date32() else array).cast(kind.type)
        if kind.encoded:
            array = array.dictionary_encode()
        if name == "order.z" and draw(st.booleans()):
            present = draw(st.lists(st.booleans(), min_size=count, max_size=count))
            inner = pa.StructArray.from_arrays(
                [array], ["z"], mask=pa.array([not one for one in present], pa.bool_())
            )
            columns["order"] = inner
        else:
            columns[name] = array
        for event, value, is_there in zip(events, values, present, strict=True):
            if value is not None and is_there:
                event[name] = kind.meaning(_single(value) if kind.type == pa.float32() else value)
    given = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
    if not given.num_columns:
        return Rows(given, events)
    first = draw(st.integers(0, min(2, count)))
    return Rows(given.slice(first), events[first:])


def _is_time(kind: Kind) -> bool:
    return bool(pa.types.is_timestamp(kind.type) or kind.type == pa.date32())


def _single(value: float) -> float:
    return float(pa.scalar(value, pa.float32()).as_py())


def expected(subscriptions: list[tuple[str, Any]], rows: Rows, holds: Callable[..., bool]) -> list[list[str]]:
    """The ids of each row in the order of text, by brute force."""
    return [
        sorted({key for key, expression in subscriptions if holds(expression, event)})
        for event in rows.events
    ]


def lists_of(found: Found) -> list[list[str]]:
    """The ids of each event."""
    ids, offsets = found.ids.to_pylist(), found.offsets.tolist()
    return [ids[first:last] for first, last in pairwise(offsets)]
