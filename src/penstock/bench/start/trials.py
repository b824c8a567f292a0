"""What is timed: from the start of a process to its first answer, and to the last."""

import signal
import time
from collections.abc import Callable
from typing import Final

import msgspec

from penstock.bench.start.installation import Installation, finished, first_line
from penstock.errors import InputError
from penstock.workloads import rules

_RULES: Final = (
    {"id": "late", "filter": "delay > 60"},
    {"id": "from-jfk", "filter": "origin = 'JFK' or origin like 'E%'"},
    {"id": "no-gate", "filter": "gate is null"},
)
_EVENTS: Final = (
    {"origin": "JFK", "delay": 75},
    {"origin": "LGA", "gate": "C2"},
    {"origin": "EWR", "delay": 61},
)

_BROKER: Final = """
import sys, time
from penstock import connect_sync
url = sys.argv[1]
with connect_sync(url) as client:
    subscription = client.subscribe("x > 1 and s like '%b%'")
    client.publish({"x": 2, "s": "abc"})
    print(next(iter(subscription)).event["x"])
"""

_SPARK: Final = """
import time
began = time.perf_counter()
from penstock.spark import builder, route
session = builder("penstock-start", "local[2]").getOrCreate()
session.sparkContext.setLogLevel("OFF")
events = session.createDataFrame([(1, "abc"), (2, "xyz")], "x long, s string")
events.mapInArrow(lambda batches: batches, events.schema).count()
started = time.perf_counter()
rules = session.createDataFrame([("a", "x = 1"), ("b", "s like '%y%' or x > 7")], "id string, filter string")
found = sorted((row.x, list(row.ids)) for row in route(events, rules).collect())
assert found == [(1, ["a"]), (2, ["b"])], found
print(started - began, time.perf_counter() - started)
session.stop()
"""


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """What a trial took: seconds to the first answer and to the last; and what is to be the same always."""

    first: float
    all: float
    answer: bytes


Trial = Callable[[Installation], Figure]


def tiny(installation: Installation) -> Figure:
    """`penstock match` of three rules and three events."""
    return _match(installation, "tiny", _lines(_RULES), _lines(_EVENTS))


def large(count: int, events: int) -> Trial:
    """`penstock match` of many rules and events."""
    made = rules.filters(count, 1)
    subscriptions = _lines({"id": i, "filter": str(rules.as_filter(made, i))} for i in range(count))
    happened = rules.as_json_lines(rules.events(events, 1))
    return lambda installation: _match(installation, "large", subscriptions, happened)


def broker(installation: Installation) -> Figure:
    """`penstock broker`: until it listens, and until an event has gone through it.

    The client is a process of the same installation; its own start is part of that.
    """
    began = time.perf_counter()
    process = installation.start(
        *("-m", "penstock", "broker", "--name", "start", "--listen", "penstock://127.0.0.1:0"),
        "--allow-anonymous",
    )
    try:
        line = first_line(process).decode().split()
        if not line:
            finished(process)
        listening = time.perf_counter() - began
        answer = installation.run("-c", _BROKER, line[-1])
        delivered = time.perf_counter() - began
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()
    return Figure(first=listening, all=delivered, answer=answer)


def spark(installation: Installation) -> Figure:
    """`route` on local Spark: beyond what Spark itself takes to start, and with that."""
    began = time.perf_counter()
    out = installation.run("-c", _SPARK).split()
    return Figure(first=float(out[1]), all=time.perf_counter() - began, answer=b"")


def _match(installation: Installation, name: str, subscriptions: bytes, events: bytes) -> Figure:
    files = []
    for what, content in (("rules", subscriptions), ("events", events)):
        file = installation.folder / f"{name}-{what}.jsonl"
        if not file.exists():
            file.write_bytes(content)
        files.append(str(file))
    began = time.perf_counter()
    process = installation.start("-m", "penstock", "match", "--subscriptions", files[0], "--events", files[1])
    line = first_line(process)
    first = time.perf_counter() - began
    rest = finished(process)
    if not line:
        raise InputError("nothing matched: there is no first answer")
    return Figure(first=first, all=time.perf_counter() - began, answer=line + rest)


def _lines(values: object) -> bytes:
    return msgspec.json.Encoder().encode_lines(list(values))  # type: ignore[call-overload]
