"""How alike a subscription is to what would take its place, from what was delivered (seed paper 002).

Chen, Hu, Muthusamy and Jacobsen, *Congestion avoidance with incremental filter aggregation in content-based
routing networks*, sections III-B, IV-A and IV-B. If a subscription S is cancelled, a broker at `mu` hops from
S's own, on the way to a publisher, goes on receiving the share phi(mu) of what S matched: others want it too.
Where phi(mu) is high, S may as well stay in the tables: the unsubscription stops there, at the *critical
distance*, and what S covered need not be sent in its place.

A publication's *distance* from S (definition 1) is the number of hops from S's broker to the nearest broker,
on the way to the publisher's, where another subscription matches it too: so far it would come without S. Then
(equation 3)

    phi(mu) = publications of distance <= mu / all publications that S matched, of a publisher

and the critical distance for a threshold is the least mu with phi(mu) >= threshold.

A history has a row for each publication and each subscription that it was delivered to, as in the paper's
table I: `publication`, `publisher`, `subscription`, `distance`, and if there is a column `subscriber`, ids of
subscriptions are the subscriber's own. `history_from_trace` makes one of the trace of a simulation.

What differs from the paper:
- Distances are computed afterwards, from who got what and which way it took. In the paper they are counted up
  in the header of each publication, which events of Penstock have not. Both give the same: the nearest broker
  where another subscription matches is one where ways part, whatever a scheme leaves out of tables beyond it.
- If nobody else wants an event, its distance is that of the publisher's broker, which has it anyway: so the
  paper's counting has it, though not its definition. So phi is 1 there at the latest.
- A publisher is the origin of events: a client and its advertisement.
- Overlays may have cycles; the way of an event is that of its tree.
- Nothing expires or is purged: select the rows that matter, by the time `at` for example.
- The paper says that in table I the critical distance at 90 % is 10. By its own equation it is 7, the largest
  distance in that table.

Live brokers trace single events (`penstock trace`) and tell how many were delivered, not to which
subscriptions: whoever wants a history of them has to record it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.errors import InputError
from penstock.spark.python import ready

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

TRACE: Final = (
    "kind string, at double, broker string, link string, origin string, number long, "
    "subscriptions array<string>"
)
"""What is read of the lines of a trace: `spark.read.schema(TRACE).json(path)`. One trace is of one run."""

HISTORY: Final = (
    "publication long, publisher string, subscriber string, subscription string, distance int, at double"
)
"""The columns of a history that `history_from_trace` makes. Publications count up for each publisher."""

_NEEDED: Final = ("publication", "publisher", "subscription", "distance")


class Line(NamedTuple):
    """What matters of a line of a trace: an event came to a broker over a link, or to a client there."""

    origin: str
    number: int
    at: float
    broker: str
    link: str
    subscriptions: list[str] | None
    """None where the event came to the broker; else it was delivered to the client `link` for these."""


class Entry(NamedTuple):
    """A row of a history."""

    publication: int
    publisher: str
    subscriber: str
    subscription: str
    distance: int
    at: float


def similarity(history: "DataFrame", *, thresholds: Sequence[float] = (0.5, 0.7, 0.9)) -> "DataFrame":
    """How similar each subscription is to what would take its place, for each publisher; see the module.

    A row has `subscription` (and `subscriber`, where the history has one), `publisher`, the number of
    `publications`, `phi` as an array of (distance, share), each of which holds up to the next one (before the
    first, phi is 0), and `critical`, an array of (threshold, distance) in the order of the thresholds.
    """
    from pyspark.sql import Window, functions

    wanted = _checked(thresholds)
    missing = [name for name in _NEEDED if name not in history.columns]
    if missing:
        raise InputError(
            f"a history has the columns {', '.join(_NEEDED)}; {', '.join(missing)} is missing: "
            f"history_from_trace() makes one of a trace"
        )
    keys = [*(["subscriber"] if "subscriber" in history.columns else []), "subscription", "publisher"]
    # A publication that is there twice, say from two overlapping reads of a log, is still one.
    entries = history.select(*keys, "publication", "distance").distinct()
    counts = entries.groupBy(*keys, "distance").agg(functions.count("*").alias("count"))
    of_all = Window.partitionBy(*keys)
    so_far = functions.sum("count").over(of_all.orderBy("distance"))
    total = functions.sum("count").over(of_all)
    shares = counts.select(*keys, "distance", total.alias("total"), (so_far / total).alias("share"))
    critical = [
        functions.struct(
            functions.lit(threshold).alias("threshold"),
            functions.min(
                functions.when(functions.col("share") >= threshold, functions.col("distance"))
            ).alias("distance"),
        )
        for threshold in wanted
    ]
    return shares.groupBy(*keys).agg(
        functions.max("total").alias("publications"),
        functions.sort_array(functions.collect_list(functions.struct("distance", "share"))).alias("phi"),
        functions.array(*critical).alias("critical"),
    )


def _checked(thresholds: Sequence[float]) -> list[float]:
    try:
        wanted = [float(threshold) for threshold in thresholds]
    except (TypeError, ValueError):
        wanted = []
    if not wanted or not all(0 < threshold <= 1 for threshold in wanted):
        raise InputError(f"thresholds are shares above 0 and up to 1, at least one, not {thresholds!r:.60}")
    return wanted


def history_from_trace(lines: "DataFrame") -> "DataFrame":
    """The history of a run from the lines of its trace, as `penstock sim --trace` writes them.

    Read them with `spark.read.schema(TRACE).json(path)`: lines are of several kinds, and what Spark makes out
    by itself suits none.
    """
    from pyspark.sql import functions

    needed = [part.split()[0] for part in TRACE.split(", ")]
    missing = [name for name in needed if name not in lines.columns]
    if missing:
        raise InputError(
            f"lines of a trace have {', '.join(missing)}, these have not: "
            f"read them with spark.read.schema(TRACE).json(path)"
        )
    kind = lines.schema["subscriptions"].dataType.simpleString()
    if kind != "array<string>":
        raise InputError(
            f"the subscriptions of a trace are array<string>, these are {kind}: read the trace with "
            "spark.read.schema(TRACE).json(path), TRACE from penstock.spark"
        )
    column = functions.col
    told = lines.where(column("kind").isin("Publish", "Deliver") & column("number").isNotNull()).select(
        "origin",
        column("number").cast("long"),
        column("at").cast("double"),
        "broker",
        "link",
        functions.when(column("kind") == "Deliver", column("subscriptions")).alias("subscriptions"),
    )
    # All lines of a publication in one task, one after the other.
    together = told.repartition("origin", "number").sortWithinPartitions("origin", "number", "at")
    ready(lines.sparkSession)
    return together.mapInArrow(history_of_batches, HISTORY)


def history_of_batches(batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """The history of lines that are sorted by publication."""
    import pyarrow as pa

    lines = (
        Line(*values)
        for batch in batches
        for values in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    )
    schema = pa.schema(
        [
            ("publication", pa.int64()),
            ("publisher", pa.string()),
            ("subscriber", pa.string()),
            ("subscription", pa.string()),
            ("distance", pa.int32()),
            ("at", pa.float64()),
        ]
    )
    entries: list[Entry] = []
    for _publication, of_one in groupby(lines, key=lambda line: (line.origin, line.number)):
        entries += entries_of(list(of_one))
        if len(entries) >= _ENTRIES:
            yield _batch(entries, schema)
            entries = []
    yield _batch(entries, schema)


_ENTRIES: Final = 16_384
"""Rows of a batch, or somewhat more."""


def _batch(entries: list[Entry], schema: "pa.Schema") -> "pa.RecordBatch":
    import pyarrow as pa

    return pa.RecordBatch.from_pylist([entry._asdict() for entry in entries], schema)


def entries_of(lines: Iterable[Line]) -> list[Entry]:
    """The rows of the history that the lines about one publication give."""
    deliveries: dict[tuple[str, str, str], Line] = {}
    came_from: dict[str, tuple[float, str]] = {}
    for line in lines:
        if line.subscriptions is None:
            # A second copy is dropped where it comes to.
            came_from[line.broker] = min(
                came_from.get(line.broker, (line.at, line.link)), (line.at, line.link)
            )
        for name in line.subscriptions or ():
            deliveries.setdefault((line.broker, line.link, name), line)
    needed: dict[str, int] = {}
    ways = {broker: _way(broker, came_from) for broker, _client, _name in deliveries}
    for broker, _client, _name in deliveries:
        for passed in ways[broker]:
            needed[passed] = needed.get(passed, 0) + 1
    return [
        Entry(line.number, line.origin, client, name, _distance(ways[broker], needed), line.at)
        for (broker, client, name), line in deliveries.items()
    ]


def _way(broker: str, came_from: Mapping[str, tuple[float, str]]) -> list[str]:
    """The brokers from this one to the publisher's."""
    way = [broker]
    while (before := came_from.get(way[-1])) is not None and before[1] not in way:
        way.append(before[1])
    return way


def _distance(way: list[str], needed: Mapping[str, int]) -> int:
    """Hops to the first broker that is needed for another delivery too, or to the publisher's."""
    return next((hops for hops, broker in enumerate(way) if needed[broker] > 1), len(way) - 1)
