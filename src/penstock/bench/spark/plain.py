"""The same answer by plain Spark: joins of events with filters as columns, and how far they get in a budget.

expressions   What fits any filters: each pair of an event and a filter is tried. The event's codes are an
              array, in which a filter's condition picks by number; of the ways tried it is the quickest (a
              `case` on the attribute's name takes ten times as long).
by hand       What fits filters of this one form only: events are unfolded into pairs of codes, filters by
              their list, and both are joined on attribute and code, twice. The rest is a condition.
"""

import time
from collections.abc import Callable
from threading import Timer
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.workloads import rules

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FIRST: Final = 256
"""Events to begin with."""
_GROWTH: Final = 8
_USED: Final = 0.8
"""The share of the budget that a next size is foreseen to take."""
_WORTH: Final = 1.25
"""What is not so many times larger is not worth another run."""

_LISTED: Final = ", ".join(f"r.listed_{at}" for at in range(rules.INCLUDED))
_EXCLUDED: Final = ", ".join(f"r.excluded_{at}" for at in range(rules.EXCLUDED))
_NOT_EXCLUDED: Final = f"e.codes[r.excluded_at] not in ({_EXCLUDED})"


def expressions(events: "DataFrame", filters: "DataFrame") -> "DataFrame":
    """Events with the id of each filter that they match, a row each; every pair is tried."""
    condition = (
        f"e.codes[r.equal_at] = r.equal_code and e.codes[r.listed_at] in ({_LISTED}) and {_NOT_EXCLUDED}"
    )
    return _joined(_with_codes(events), filters, condition, events.columns)


def by_hand(events: "DataFrame", filters: "DataFrame") -> "DataFrame":
    """The same, by a join on the equality and on the list, which all of these filters have."""
    pairs = [
        f"{i}, {a}, {j}, {b}"
        for i, a in enumerate(rules.ATTRIBUTES)
        for j, b in enumerate(rules.ATTRIBUTES)
        if i != j
    ]
    unfolded = _with_codes(events).selectExpr(
        "*", f"stack({len(pairs)}, {', '.join(pairs)}) as (at_1, code_1, at_2, code_2)"
    )
    listed = filters.alias("r").selectExpr("*", f"explode(array({_LISTED})) as listed")
    condition = (
        "e.at_1 = r.equal_at and e.code_1 = r.equal_code and e.at_2 = r.listed_at and e.code_2 = r.listed "
        f"and {_NOT_EXCLUDED}"
    )
    return _joined(unfolded, listed, condition, events.columns)


def _with_codes(events: "DataFrame") -> "DataFrame":
    return events.selectExpr("*", f"array({', '.join(rules.ATTRIBUTES)}) as codes")


def _joined(events: "DataFrame", filters: "DataFrame", condition: str, columns: list[str]) -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

    # A filter is smaller than what it would cost to sort events by it: it goes to where they are.
    found = events.alias("e").join(F.broadcast(filters).alias("r"), F.expr(condition))
    return found.selectExpr(*(f"e.{name}" for name in columns), "r.id as filter_id")


JOINS: Final = {"expressions": expressions, "by hand": by_hand}


class Largest(NamedTuple):
    """The most events that something finished in its budget; none where it never did."""

    events: int
    seconds: float


def largest(measure: Callable[[int], float | None], most: int, budget: float) -> Largest | None:
    """Try with more and more events, as many as the time so far foresees; with fewer if not even the first.

    `measure` tells how many seconds so many events took, or None where they took longer than the budget.
    """
    best: Largest | None = None
    events = min(FIRST, most)
    while True:
        seconds = measure(events)
        if seconds is None:
            if best is not None or events == 1:
                return best
            events = max(1, events // _GROWTH)
            continue
        smaller_failed = best is None and events < min(FIRST, most)
        best = Largest(events, seconds)
        foreseen = int(events * min(_GROWTH, _USED * budget / max(seconds, 1e-9)))
        following = min(most, foreseen)
        if smaller_failed or following < _WORTH * events:
            return best
        events = following


def within(session: "SparkSession", seconds: float, work: Callable[[], object]) -> float | None:
    """How many seconds a job took; None where it was stopped because its time was up."""
    context = session.sparkContext
    group = "penstock-bench-plain"
    context.setJobGroup(group, "a plain join", interruptOnCancel=True)
    up: list[bool] = []

    def stop() -> None:
        up.append(True)
        context.cancelJobGroup(group)

    timer = Timer(seconds, stop)
    timer.daemon = True
    started = time.perf_counter()
    timer.start()
    try:
        work()
    except Exception:
        if not up:
            raise
        return None
    finally:
        timer.cancel()
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    return None if up else time.perf_counter() - started
