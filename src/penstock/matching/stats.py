"""What a matcher holds, and which of its filters cost most."""

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from penstock.filters import html
from penstock.filters.filter import Filter
from penstock.matching.batch import Batch
from penstock.model.names import Id

if TYPE_CHECKING:
    from penstock.matching.store import Snapshot


class FilterCost(msgspec.Struct, frozen=True):
    """How much work a filter makes."""

    id: Id
    filter: Filter
    found_by: Filter
    tests_per_event: float
    """How often it was found and had to be tested, for each event."""
    matches_per_event: float


class ConstraintCost(msgspec.Struct, frozen=True):
    """How much work the filters make that are found by one constraint, or by one pair of them."""

    constraint: Filter
    """What finds them; of filters that are tried on every event, as nothing helps to find them, all that they
    ask for. A filter that asks for nothing has no constraint, and is among the filters only."""
    filters: int
    """How many of the filters that cost most are found by it."""
    tests_per_event: float


class Stats(msgspec.Struct, frozen=True):
    """See `Matcher.stats`."""

    ids: int
    filters: int
    constraints: int
    """Constraints of the filters as compiled: a value set of an attribute, or a pattern, counts as one."""
    parts: int
    """Tables; several while changes are being merged."""
    removed: int
    """Filters that have been removed, and stand in the tables until these are merged."""
    bytes: int
    """Of all tables, ids and what is needed to find them."""
    events: int
    """On how many events the costs below were counted."""
    tests_per_event: float
    matches_per_event: float
    expensive_filters: list[FilterCost]
    expensive_constraints: list[ConstraintCost]

    @property
    def bytes_per_constraint(self) -> float:
        """Bytes for each constraint."""
        return self.bytes / max(1, self.constraints)

    def _repr_html_(self) -> str:
        figures = ("ids", "filters", "constraints", "parts", "removed", "bytes", "events")
        told = html.table(("what", "number"), [(name, getattr(self, name)) for name in figures])
        costs = [
            (str(one.id), one.filter, f"{one.tests_per_event:.3g}", f"{one.matches_per_event:.3g}")
            for one in self.expensive_filters
        ]
        names = ("id", "filter", "tests per event", "matches per event")
        return told + (html.table(names, costs) if costs else "")


def stats_of(
    snapshot: "Snapshot", names: dict[str, int], batch: Batch | None, homes: int, ids: int, top: int
) -> Stats:
    """Count everything; `homes` are the bytes that the matcher needs to find ids."""
    events = 0 if batch is None else len(batch.start)
    costs: list[FilterCost] = []
    tests = matches = 0
    by_constraint: dict[Filter, tuple[int, float]] = {}
    for part in snapshot.parts:
        if batch is None or not events:
            break
        visits = np.zeros(part.size, np.int64)
        found = part.match(batch, names, snapshot.ids.count, filters=True, visits=visits)
        tests += int(visits.sum())
        # The removed are found until they are merged away, but there is nothing left to do about them.
        visits[~part.alive()] = 0
        matches += len(found.numbers)
        hits = np.bincount(found.numbers, minlength=part.size)
        most = np.argsort(-visits, kind="stable")[: max(100, 10 * top)]
        most = most[visits[most] > 0]
        for position, f in zip(most.tolist(), part.filters_at(most, names), strict=True):
            how = part.found_by(position, f, names)
            per_event = float(visits[position]) / events
            number = int(part.ids[position])
            costs.append(
                FilterCost(snapshot.ids.get(number), f, how, per_event, float(hits[position]) / events)
            )
            # Nothing can be done about "true": what is tried on every event is named by what it asks for.
            named = how if how.conditions else f
            if named.conditions:
                count, total = by_constraint.get(named, (0, 0.0))
                by_constraint[named] = count + 1, total + per_event
    constraints = sorted(
        (ConstraintCost(named, count, total) for named, (count, total) in by_constraint.items()),
        key=lambda cost: -cost.tests_per_event,
    )
    return Stats(
        ids=ids,
        filters=sum(part.live for part in snapshot.parts),
        constraints=sum(part.constraints for part in snapshot.parts),
        parts=len(snapshot.parts),
        removed=sum(part.dead for part in snapshot.parts),
        bytes=sum(part.nbytes for part in snapshot.parts) + snapshot.ids.nbytes + homes,
        events=events,
        tests_per_event=tests / max(1, events),
        matches_per_event=matches / max(1, events),
        expensive_filters=sorted(costs, key=lambda cost: -cost.tests_per_event)[:top],
        expensive_constraints=constraints[:top],
    )
