"""A profile as what the engine takes: distributions for estimates, and a sample of events to learn from.

Both take a profile as `profile` gives it, or its collected rows. Attributes are taken as independent, as
estimates do.
"""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.errors import InputError
from penstock.filters import cuts
from penstock.filters.estimate import Distribution, Histogram, ValueCounts
from penstock.filters.order import canonical_number, successor
from penstock.filters.valuesets import ValueSet, of_cuts
from penstock.model.values import Family, Time, Value

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, Row

_DOUBLES: Final = ("float", "double")


class Frequency(msgspec.Struct, frozen=True):
    """A value, as text, and how often it came."""

    value: str
    count: int


class AttributeProfile(msgspec.Struct, frozen=True):
    """A row of a profile; `penstock.spark.analysis.profile` says what its columns are."""

    name: str
    family: str
    type: str
    rows: int
    present: int
    presence: float
    distinct: int
    distinct_exact: bool
    nan: int
    unusable: int
    min: str | None
    max: str | None
    edges: list[str]
    counts: list[int]
    top: list[Frequency]
    rest: int
    others: list[str]

    def value(self, text: str) -> Value:
        """A value of the attribute from its text."""
        family = Family.named(self.family)
        if family is Family.BOOL:
            return text == "true"
        if family is Family.NUMBER:
            return float(text) if _has_doubles(self.type) else int(text)
        return Time.parse(text) if family is Family.TIME else text

    def listed(self) -> dict[Value, int]:
        """The most frequent values with their counts."""
        return {self.value(each.value): each.count for each in self.top}

    def unlisted_bins(self) -> tuple[list[Value], list[int]]:
        """Edges and counts of the bins without the listed values; no edges where nothing is left."""
        edges = [self.value(edge) for edge in self.edges]
        counts = list(self.counts)
        inner = edges[1:-1]
        for value, count in self.listed().items():
            if counts:
                counts[int(sum(edge <= value for edge in inner))] -= count  # type: ignore[operator]
        return (edges, counts) if sum(counts) > 0 else ([], [])

    def unlisted(self) -> list[Value]:
        """Values that stand for those that are neither listed nor in bins."""
        texts = self.others or [text for text in (self.min,) if text is not None]
        return [self.value(text) for text in texts]


def _has_doubles(kind: str) -> bool:
    """Whether a profile has the values of a type as doubles."""
    return kind in _DOUBLES or kind.startswith("decimal")


def read_profile(profile: "DataFrame | Iterable[Row | AttributeProfile]") -> list[AttributeProfile]:
    """The rows of a profile, checked to be such."""
    rows: Iterable[Any] = profile.collect() if hasattr(profile, "collect") else profile
    try:
        return [
            row if isinstance(row, AttributeProfile) else msgspec.convert(_plain(row), AttributeProfile)
            for row in rows
        ]
    except (msgspec.ValidationError, AttributeError) as error:
        raise InputError(f"this is no profile as profile() makes it: {error}") from None


def _plain(row: Any) -> dict[str, Any]:
    plain: dict[str, Any] = row.asDict(recursive=True)
    return plain


def distributions(profile: "DataFrame | Iterable[Row | AttributeProfile]") -> dict[str, Distribution]:
    """What is known of each attribute, for `merge` and `Estimator`. Of no events, nothing is known."""
    return {each.name: _distribution(each) for each in read_profile(profile) if each.rows}


def _distribution(profile: AttributeProfile) -> Distribution:
    counts: dict[Value | None, float] = dict(profile.listed().items())
    counts.update({None: profile.rows - profile.present, math.nan: profile.nan})
    if not profile.rest:
        return ValueCounts(counts)
    edges, in_bins = profile.unlisted_bins()
    if edges and edges[0] != edges[-1]:
        rest: Distribution = Histogram(edges, in_bins)
    else:
        rest = ValueCounts(dict.fromkeys(edges[:1] or profile.unlisted(), 1))
    return Mixed(counts, rest, profile.rest, max(1, profile.distinct - len(profile.top)), profile.family)


class Mixed:
    """Counts of some values, and of the many others how they are spread.

    `count` events have one of `distinct` values that are not in `counts`, spread like `rest`. What is asked
    for by value is not looked up there: each of the others is as likely.
    """

    def __init__(
        self,
        counts: dict[Value | None, float],
        rest: Distribution,
        count: float,
        distinct: int,
        family: Family | str,
    ) -> None:
        known = math.fsum(counts.values())
        self._known = ValueCounts(counts) if known else None
        self._weight = count / (known + count)
        self._rest = rest
        self._distinct = distinct
        self._family = Family.named(family)
        self._listed = {_point(value) for value in counts if value is not None and value == value}

    def share(self, states: ValueSet) -> float:
        """The share of the events whose attribute is in the set."""
        known = 0.0 if self._known is None else self._known.share(states) * (1 - self._weight)
        return min(1.0, known + self._share_of_rest(states) * self._weight)

    def _share_of_rest(self, states: ValueSet) -> float:
        if states.kind is not self._family:
            return self._rest.share(states)
        kept: list[Any] = []
        points = 0
        for start, end in cuts.intervals(states.cuts):
            if end != successor(self._family, start):
                kept += [start] if end is None else [start, end]
            elif start not in self._listed and _admits(states, start):
                points += 1
        spread = self._rest.share(of_cuts(states.kind, tuple(kept), states.required, states.forbidden))
        return min(1.0, spread + points / self._distinct)


def _point(value: Value) -> Any:
    """A value as cuts have it."""
    if isinstance(value, Time):
        return value.nanoseconds
    return canonical_number(value) if type(value) is float else value


def _admits(states: ValueSet, point: Any) -> bool:
    return not (states.required or states.forbidden) or states.admits(point)


def sample_events(
    profile: "DataFrame | Iterable[Row | AttributeProfile]", count: int, seed: int
) -> "pa.Table":
    """So many events as the profile's might be, for `Matcher.learn`: the same seed draws the same.

    Every event has an attribute; there are none if no event of the profile had one.
    """
    import pyarrow as pa

    random = np.random.default_rng(seed)
    known = [each for each in read_profile(profile) if each.present]
    if not known:
        return pa.table({})
    absent = np.array([random.random(count) >= each.presence for each in known])
    # An event has something: where nothing was drawn, what is there most often is likeliest to be there.
    empty = np.flatnonzero(absent.all(axis=0))
    presence = np.array([each.presence for each in known])
    absent[random.choice(len(known), len(empty), p=presence / presence.sum()), empty] = False
    columns = [_drawn(each, count, random, gone) for each, gone in zip(known, absent, strict=True)]
    return pa.table(columns, names=[each.name for each in known])


def _drawn(
    profile: AttributeProfile, count: int, random: np.random.Generator, absent: NDArray[np.bool_]
) -> "pa.Array":
    """A column of values as the attribute has them where it is there."""
    import pyarrow as pa

    listed = profile.listed()
    weights = np.array([*listed.values(), profile.nan, profile.rest], np.float64)
    picks = random.choice(len(weights), count, p=weights / weights.sum())
    rest = _drawn_from_rest(profile, count, random) if profile.rest else [None] * count
    choices = [*map(_plain_value, listed), math.nan]
    values = [choices[at] if at < len(choices) else rest[row] for row, at in enumerate(picks.tolist())]
    kinds = {
        Family.BOOL: pa.bool_(),
        Family.NUMBER: pa.float64() if _has_doubles(profile.type) else pa.int64(),
        Family.STRING: pa.string(),
        Family.TIME: pa.timestamp("ns", tz="UTC"),
    }
    return pa.array(values, kinds[Family.named(profile.family)], mask=absent)


def _drawn_from_rest(profile: AttributeProfile, count: int, random: np.random.Generator) -> list[Any]:
    edges, counts = profile.unlisted_bins()
    if not edges:
        choices = [_plain_value(value) for value in profile.unlisted()]
        return [choices[at] for at in random.integers(len(choices), size=count).tolist()]
    ends = np.array([_plain_value(edge) for edge in edges])
    picks = random.choice(len(counts), count, p=np.array(counts) / sum(counts))
    low, high = ends[picks], ends[picks + 1]
    if ends.dtype.kind == "f":
        part = random.random(count)
        drawn: list[Any] = (low * (1 - part) + high * part).tolist()
    else:
        drawn = random.integers(low, np.where(high > low, high - 1, low), endpoint=True).tolist()
    return drawn


def _plain_value(value: Value) -> Any:
    """A value as Arrow takes it."""
    return value.nanoseconds if isinstance(value, Time) else value
