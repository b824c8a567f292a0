"""Values that tasks left out of events (`unsupported="skip"`), counted on the driver.

Which columns are left out is known when a job is built. Which values are, only tasks find: each tells with
its end, by an accumulator of Spark, and the driver logs the first of each attribute. A task that Spark runs
twice counts twice. Spark Connect has no accumulators: there, nothing is counted.
"""

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext
from pyspark.accumulators import Accumulator, AccumulatorParam

from penstock.errors import InputError, printable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Counts = dict[str, tuple[int, str]]
"""By attribute: how many values were left out, and why the first was."""

_HELD: Final = "_penstock_skipped"
"""What a DataFrame or a query is given to remember its counts by."""

_log: Final = logging.getLogger("penstock.spark")


class _Adding(AccumulatorParam[Counts]):
    """Adds up what tasks tell."""

    def zero(self, value: Counts) -> Counts:
        """What a task begins with."""
        return {}

    def addInPlace(self, value1: Counts, value2: Counts) -> Counts:  # noqa: N802 - the interface of Spark
        """Add what another task tells; on the driver, log what is new."""
        for name, (count, why) in value2.items():
            if name not in value1 and TaskContext.get() is None:
                values = "value" if count == 1 else "values"
                _log.warning("%s", printable(f"{count:,} {values} of {name!r:.80} left out so far: {why}"))
            before, first = value1.get(name, (0, why))
            value1[name] = before + count, first
        return value1


def counter(session: "SparkSession") -> "Accumulator[Counts] | None":
    """What tasks count by, where Spark has such a thing."""
    try:
        return session.sparkContext.accumulator({}, _Adding())
    except Exception:
        return None


def of_blocks(found: Iterable[tuple[Counts, Counts]]) -> Counts:
    """What was left out, by what each block of a table had counted before and after, of the same rows."""
    counts: Counts = {}
    for before, after in found:
        for name, (count, why) in after.items():
            new = count - before.get(name, (0, ""))[0]
            if new > counts.get(name, (0, ""))[0]:
                counts[name] = new, why
    return counts


def hold(routed: Any, counts: "Accumulator[Counts] | None") -> None:
    """Have a DataFrame or a query remember what it is counted by."""
    vars(routed)[_HELD] = counts


def skipped(routed: "DataFrame | StreamingQuery") -> dict[str, int]:
    """How many values were left out so far, by attribute, of those that rules name.

    routed   what `route` gave, or the query of `route_stream`, with unsupported="skip". Each run of a
             DataFrame adds its own. On a grid, and on Spark Connect, nothing is counted.
    """
    counts = vars(routed).get(_HELD)
    if counts is None:
        raise InputError(
            "nothing is counted here: give what route gave, or the query of route_stream, with "
            "unsupported='skip', not on a grid and not on Spark Connect"
        )
    return {name: count for name, (count, _why) in sorted(counts.value.items())}
