"""The composite of `penstock demo`: late departures, and cancellations of the same carrier after them.

A matcher finds the flights that have a part in it, a detector puts them together, and DuckDB, where it is
installed, counts the same by a join.
"""

import sys
import textwrap
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from penstock.composites.detector import Detector
from penstock.composites.language import parse
from penstock.composites.matches import Detection
from penstock.matching.matcher import Matcher
from penstock.model.arrow import events_from_arrow

if TYPE_CHECKING:
    import pyarrow as pa

COMPOSITE: Final = """
    select $c as carrier, late.flight, late.dep_delay, gone.flight as cancelled
    from [dep_delay > 60 and carrier = $c] as late then [dep_time is null and carrier = $c] as gone
    within 2 h by time scheduled
"""

_COUNTED: Final = """
    select count(*) from flights late join flights gone on late.carrier = gone.carrier
    where late.dep_delay > 60 and gone.dep_time is null
      and (late.scheduled < gone.scheduled or late.scheduled = gone.scheduled and late.row < gone.row)
      and gone.scheduled - late.scheduled <= interval 2 hour
"""


def by_schedule(flights: "pa.Table") -> "pa.Table":
    """The flights in the order in which they should have left, with that time, and their places in it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    hours = flights.column("time_hour").cast(pa.timestamp("us"))
    minutes = pc.multiply(flights.column("minute").cast(pa.int64()), 60_000_000).cast(pa.duration("us"))
    timed = flights.append_column("scheduled", pc.add(hours, minutes))
    timed = timed.take(pc.sort_indices(timed.column("scheduled")))
    return timed.append_column("row", pa.array(range(timed.num_rows), pa.int64()))


def detections(flights: "pa.Table") -> list[Detection]:
    """All that the composite finds."""
    composite = parse(COMPOSITE)
    matcher = Matcher((atom.name, atom.wanted()) for atom in composite.atoms())
    has_part = [bool(ids) for ids in matcher.match_batch(flights)]
    detector = Detector(composite)
    found: list[Detection] = []
    for event in events_from_arrow(flights.filter(has_part)):
        if event is not None:
            found += detector.take(event, 0)
    found += detector.finish()
    if detector.dropped:
        raise AssertionError(f"the demo's composite left something out: {detector.dropped}")
    return found


def counted_by_duckdb(flights: "pa.Table") -> int | None:
    """How many there are by a join; None where DuckDB is not installed."""
    if find_spec("duckdb") is None:
        return None
    import duckdb

    with duckdb.connect() as connection:
        connection.register(
            "flights", flights.select(["carrier", "dep_delay", "dep_time", "scheduled", "row"])
        )
        row = connection.execute(_COUNTED).fetchone()
    return None if row is None else int(row[0])


def show(flights: "pa.Table") -> int:
    """Detect, print what was found and how it compares; return the exit status."""
    flights = by_schedule(flights)
    started = time.perf_counter()
    found = detections(flights)
    elapsed = time.perf_counter() - started
    sys.stdout.write(
        "\nA departure more than an hour late, then a cancellation of the same carrier within two hours:\n"
        f"{textwrap.indent(textwrap.dedent(COMPOSITE).strip(), '  ')}\n"
        f"{len(found):,} such pairs of flights, found in {elapsed:.1f} s"
    )
    if found:
        event = found[-1].event(parse(COMPOSITE))
        sys.stdout.write(
            f"; the last one: {event['carrier']}{event['late.flight']}, {event['late.dep_delay']} min late, "
            f"then {event['carrier']}{event['cancelled']} cancelled"
        )
    sys.stdout.write(".\n")
    counted = counted_by_duckdb(flights)
    if counted is None:
        return 0
    agrees = counted == len(found)
    verdict = "the same" if agrees else "a difference, which is a mistake"
    sys.stdout.write(f"DuckDB counts {counted:,} by a join: {verdict}.\n")
    return 0 if agrees else 1
