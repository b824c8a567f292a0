"""The network benchmark asks all parties for the same, checks what they deliver, and says what it measured.

Nothing here depends on how long anything takes. Other brokers are run only where they are installed.
"""

import asyncio
import json
import math
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.bench.network import ours, pacing, report
from penstock.bench.network.alarms import Alarm
from penstock.bench.network.nats import Nats, subject
from penstock.bench.network.party import Brokers, find_program, parties
from penstock.bench.network.rabbitmq import binding
from penstock.bench.network.servers import Process, answers, free_ports
from penstock.bench.network.trial import Choices, Row, measure
from penstock.bench.network.workload import TOPIC, Job, Oracle, Plan, Workload
from penstock.cli.main import main
from penstock.errors import PenstockError
from penstock.filters.parsing import parse

FEW = st.lists(st.integers(0, 3), min_size=1, max_size=20)
JOBS: tuple[Job, ...] = ("equalities", "ranges")


def oracle(matches: list[int], *, once: bool = False) -> Oracle:
    return Oracle(np.array(matches, dtype=np.int64), once=once)


# The workload.


@pytest.mark.parametrize("count", [1, 2, 10, 49, 50, 333, 2_000])
@pytest.mark.parametrize("job", JOBS)
def test_there_are_as_many_subscriptions_as_asked_for(job: Job, count: int) -> None:
    workload = Workload(Plan(job, count, 1))
    assert len(workload.filters) == count
    assert len(set(workload.topics)) == count
    if count > 20:
        assert len(set(workload.filters)) == count


@pytest.mark.parametrize("job", JOBS)
def test_the_oracle_says_what_trying_every_filter_says(job: Job) -> None:
    workload = Workload(Plan(job, 120, 7))
    filters = [parse(text) for text in workload.filters]
    matches = workload.matches()
    for number in range(0, len(workload.events), 97):
        event = workload.event(number, 0)
        assert matches[number] == sum(f.matches(event) for f in filters)


@pytest.mark.parametrize("count", [100, 3_000])
@pytest.mark.parametrize("job", JOBS)
def test_an_event_matches_about_one_subscription(job: Job, count: int) -> None:
    matches = Workload(Plan(job, count, 3)).matches()
    assert 0.5 < matches.mean() < 1.5
    assert (matches == 0).any()
    assert (matches > 1).any()


def test_subjects_and_bindings_ask_for_what_the_filters_ask_for() -> None:
    workload = Workload(Plan("equalities", 200, 5))
    for text, topic in zip(workload.filters, workload.topics, strict=True):
        f, pattern, bound = parse(text), subject(topic).split("."), binding(topic)
        assert bound.pop("x-match") == "all"
        for event in workload.events[:100]:
            tokens = [event[name] for name in TOPIC]
            fits = all(asked in ("*", token) for asked, token in zip(pattern, tokens, strict=True))
            binds = all(event.get(name) == value for name, value in bound.items())
            assert f.matches(event) == fits == binds


def test_events_are_as_long_as_said() -> None:
    import msgspec

    workload = Workload(Plan("equalities", 10_000, 1))
    for seq in range(0, 300_000, 7_001):
        size = len(msgspec.msgpack.encode(workload.event(seq, time.monotonic_ns())))
        assert abs(size - 150) <= 10


def test_every_process_makes_the_same_workload() -> None:
    one, other = Workload(Plan("ranges", 50, 9)), Workload(Plan("ranges", 50, 9))
    assert one.filters == other.filters
    assert one.event(40_000, 1) == other.event(40_000, 1)
    assert Workload(Plan("ranges", 50, 8)).filters != one.filters


@pytest.mark.property
@given(FEW, st.integers(0, 50), st.integers(0, 50), st.booleans())
def test_deliveries_until_an_event_are_the_sum_of_those_before(
    matches: list[int], first: int, count: int, once: bool
) -> None:
    made = oracle(matches, once=once)
    each = made.of(first, count).tolist()
    expected = [matches[n % len(matches)] for n in range(first, first + count)]
    assert each == ([min(1, n) for n in expected] if once else expected)
    assert made.until(first + count) - made.until(first) == sum(each)


@pytest.mark.property
@given(FEW, st.integers(0, 50), st.integers(1, 50), st.data())
def test_each_delivery_missing_or_too_many_is_wrong(
    matches: list[int], first: int, count: int, data: st.DataObject
) -> None:
    made = oracle(matches)
    right = np.repeat(np.arange(first, first + count), made.of(first, count))
    assert made.wrong(first, count, right) == 0
    lost = data.draw(st.integers(0, len(right)))
    assert made.wrong(first, count, right[lost:]) == lost
    more = data.draw(st.lists(st.integers(0, first + count + 5), max_size=5))
    assert made.wrong(first, count, np.concatenate((right, np.array(more, dtype=np.int64)))) == len(more)


# Pacing.


@pytest.mark.property
@given(st.lists(st.integers(0, 10**9), min_size=1), st.floats(0.01, 1))
def test_a_percentile_is_the_smallest_delay_not_exceeded_by_that_share(
    delays: list[int], share: float
) -> None:
    found = pacing.percentile(np.array(delays, dtype=np.int64), share) * 1e6
    below = sum(delay <= round(found) for delay in delays)
    strictly = sum(delay < round(found) for delay in delays)
    assert below >= share * len(delays) - 1e-6 > strictly - 1e-3


def test_of_no_delays_there_is_no_percentile() -> None:
    assert math.isnan(pacing.percentile(np.empty(0, dtype=np.int64), 0.5))


@pytest.mark.property
@given(st.floats(0.5, 1e6), st.integers(0, 10**6), st.integers(0, 10**15))
def test_an_event_is_due_from_when_it_should_leave(rate: float, number: int, started: int) -> None:
    table = pacing.Timetable(started, rate)
    leaves = table.leaves(number)
    assert leaves >= started
    assert table.due(leaves - 1) <= number < table.due(leaves)
    # On the whole the rate is the one asked for.
    assert leaves - started == pytest.approx(number / rate * pacing.NS, rel=1e-6, abs=2 * pacing.TICK)


@pytest.mark.property
@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**5)), max_size=30))
def test_what_is_under_way_is_bounded_by_what_came_in_half_a_second(steps: list[tuple[int, int]]) -> None:
    now = received = 0
    window = pacing.Window(now, received)
    for later, more in steps:
        now, received = now + later, received + more
        room = window.room(now, received, received)
        assert 64 <= room <= 65_536
        assert room <= max(64, received)
        assert window.room(now, received, received + room) == 0


def recorder() -> tuple[list[tuple[int, list[int]]], Callable[[int, list[int]], Any]]:
    blocks: list[tuple[int, list[int]]] = []

    async def publish(first: int, times: list[int]) -> None:
        blocks.append((first, times))

    return blocks, publish


def published(blocks: list[tuple[int, list[int]]]) -> list[int]:
    return [seq for first, times in blocks for seq in range(first, first + len(times))]


def test_saturating_publishes_each_event_once_and_keeps_to_the_window() -> None:
    blocks, publish = recorder()
    delivered = 0

    def received() -> int:
        nonlocal delivered
        delivered = sum(len(times) for _, times in blocks)
        return delivered

    last = asyncio.run(pacing.saturate(publish, 100, 5_000, 60, lambda seq: seq - 100, received))
    assert last == 5_000
    assert published(blocks) == list(range(100, 5_000))
    assert max(len(times) for _, times in blocks) <= pacing.BLOCK


def test_saturating_ends_in_time_where_nothing_is_delivered() -> None:
    blocks, publish = recorder()
    last = asyncio.run(pacing.saturate(publish, 0, 10_000, 0.05, lambda seq: seq, lambda: 0))
    assert last == len(published(blocks)) <= 64


@pytest.mark.parametrize("rate", [700, 5_000, 333_333])
def test_paced_events_are_stamped_with_when_they_should_have_left(rate: float) -> None:
    blocks, publish = recorder()
    last = asyncio.run(pacing.pace(publish, 10, 60, rate, 60))
    assert last == 70
    assert published(blocks) == list(range(10, 70))
    times = [when for _, each in blocks for when in each]
    table = pacing.Timetable(times[0], rate)
    assert times == [table.leaves(number) for number in range(60)]
    assert times[-1] <= time.monotonic_ns()


@pytest.mark.parametrize("naps", [False, True])
def test_an_alarm_never_goes_off_early_and_leaves_the_loop_its_turns(naps: bool) -> None:
    async def play() -> None:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0.001)

        counting = asyncio.ensure_future(count())
        with Alarm(naps=naps) as alarm:
            for later in (-1, 0, 1, 300_000, 7_000_000, 1_000):
                when = time.monotonic_ns() + later
                await alarm.until(when)
                assert time.monotonic_ns() >= when
        assert turns > 1
        counting.cancel()

    asyncio.run(play())


def test_pacing_ends_when_its_time_is_over() -> None:
    _, publish = recorder()
    assert asyncio.run(pacing.pace(publish, 10, 60, 1, 0)) < 70


# The processes.


def test_a_server_that_ends_at_once_is_quoted(tmp_path: Path) -> None:
    process = Process("server", (sys.executable, "-c", "print('no such option')"), tmp_path, {})
    with pytest.raises(PenstockError, match="server ended when it was started: no such option"):
        process.wait_for(lambda: None)
    process.stop()


def test_a_server_that_is_never_ready_is_given_up(tmp_path: Path) -> None:
    process = Process("server", (sys.executable, "-c", "import time; time.sleep(100)"), tmp_path, {})
    try:
        with pytest.raises(PenstockError, match="server was not ready after 0 seconds: it said nothing"):
            process.wait_for(lambda: None, 0)
    finally:
        process.stop()


def test_what_a_server_has_started_ends_with_it(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    listen = f"import socket, time; s = socket.create_server(('127.0.0.1', {port})); time.sleep(100)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {listen!r}])"
    process = Process("server", (sys.executable, "-c", parent), tmp_path, {})
    try:
        assert process.wait_for(lambda: answers(port))
    finally:
        process.stop()
    assert answers(port) is None


class Broken(Nats):
    name: ClassVar[str] = "broken"

    def missing(self) -> str | None:
        return None

    def start(self, folder: Path, brokers: int) -> Brokers:
        raise PenstockError("it does not start")


def test_what_goes_wrong_with_one_party_is_told_in_its_row() -> None:
    plan, matches = Plan("equalities", 10, 1), np.ones(5, dtype=np.int64)
    row = measure(Broken(), plan, 3, Choices(), matches, lambda _what: None)
    assert (row.problem, row.failed, row.agrees) == ("it does not start", True, None)
    assert row.brokers == 3


def test_programs_are_found_where_servers_usually_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_program("some-server") is None
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "some-server").touch(0o755)
    found = find_program("some-server", (str(tmp_path / "two"),))
    assert found == str(tmp_path / "two" / "some-server")


class FakeNet:
    def __init__(self) -> None:
        self.blocks: list[list[Any]] = []
        self.acknowledged = asyncio.Event()
        self.callbacks: dict[str, Callable[[Any], None]] = {}
        self.closed = False

    async def subscribe(self, text: str, callback: Callable[[Any], None]) -> None:
        self.callbacks[text] = callback

    async def close(self) -> None:
        self.closed = True

    async def publish_many(self, events: list[Any]) -> None:
        self.blocks.append(events)
        await self.acknowledged.wait()


def test_blocks_of_ours_are_sent_in_order_and_wait_for_acknowledgement_only_when_many_are_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ours, "_AHEAD", 16)

    async def play() -> list[list[Any]]:
        net = FakeNet()
        publisher = ours._Publisher(net)
        for number in range(8):
            await publisher.publish([{"seq": number}] * 2)
        ninth = asyncio.ensure_future(publisher.publish([{"seq": 8}]))
        await asyncio.sleep(0.01)
        assert not ninth.done()
        net.acknowledged.set()
        await ninth
        await publisher.flush()
        return net.blocks

    assert asyncio.run(play()) == [*([{"seq": number}] * 2 for number in range(8)), [{"seq": 8}]]


def test_our_publisher_begins_when_the_last_subscription_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    here = {"delivered": 0, "sent_to": []}
    further = {"delivered": 0, "sent_to": [{"link": "b2", "report": None}]}
    there = {"delivered": 0, "sent_to": [{"link": "b2", "report": {"delivered": 1, "sent_to": []}}]}
    reports, traced = [here, further, there], []

    class Traced(FakeNet):
        async def trace(self, event: dict[str, Any]) -> dict[str, Any]:
            traced.append(event)
            return reports[len(traced) - 1]

    async def connect(_url: str, *, name: str) -> FakeNet:
        return Traced()

    monkeypatch.setattr("penstock.connect", connect, raising=False)
    monkeypatch.setattr(ours, "_LOOK_S", 0)
    asyncio.run(ours.Penstock().publisher("penstock://here"))
    assert len(traced) == 3
    assert all(parse(ours._LAST).matches(event) for event in traced)


def test_our_subscriber_has_a_callback_for_each_subscription(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        net, taken, ready = FakeNet(), [], asyncio.Event()

        async def connect(_url: str, *, name: str) -> FakeNet:
            return net

        monkeypatch.setattr("penstock.connect", connect, raising=False)
        workload = Workload(Plan("ranges", 700, 1))
        receiving = asyncio.create_task(
            ours.Penstock().receive("penstock://here", workload, lambda *told: taken.append(told), ready)
        )
        await ready.wait()
        assert list(net.callbacks) == [*workload.filters, ours._LAST]
        net.callbacks[workload.filters[-1]](workload.event(12, 34))
        assert taken == [(12, 34)]
        receiving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await receiving
        assert net.closed

    asyncio.run(play())


# The report.

MEASURED = [
    Row(
        party="penstock",
        job="equalities",
        version="1",
        subscribe_seconds=0.5,
        events=1_000,
        events_per_second=40_000.0,
        paced_per_second=1_000.0,
        p50_ms=1.5,
        p99_ms=9.25,
        expected=990,
        delivered=990,
    ),
    Row(
        party="rabbitmq",
        job="equalities",
        version="3",
        events_per_second=100.0,
        expected=10,
        delivered=8,
        wrong=2,
    ),
    Row(party="nats", job="equalities", problem="not installed: apt install nats-server"),
    Row(party="penstock", job="ranges", problem="out of luck", failed=True),
    Row(party="penstock", job="equalities", brokers=3, events_per_second=30_000.0, p50_ms=4.0, p99_ms=8.0),
    Row(party="nats", job="equalities", brokers=3, events_per_second=60_000.0, p50_ms=1.0, p99_ms=4.0),
]


def test_figures_are_compared_with_ours_in_the_same_job_through_as_many_brokers() -> None:
    compared = report.compared(MEASURED)
    assert [row.ratio for row in compared] == [1.0, 0.0025, None, None, 1.0, 2.0]
    assert [row.p50_ratio for row in compared] == [1.0, None, None, None, 1.0, 0.25]
    assert [row.p99_ratio for row in compared] == [1.0, None, None, None, 1.0, 0.5]
    assert [row.ratio for row in report.compared(MEASURED[1:4])] == [None, None, None]


def test_the_table_says_all(capsys: pytest.CaptureFixture[str]) -> None:
    report.show(report.compared(MEASURED), Choices(), parties())
    out = capsys.readouterr().out
    lines = {tuple(line.split()[:3]): line for line in out.splitlines() if line.strip()}
    ours_line = lines["equalities", "penstock", "1"]
    for figure in ("40,000", "1 ×", "1.50", "9.25", "990", "as expected"):
        assert figure in ours_line
    assert "0.0025 ×" in lines["equalities", "rabbitmq", "1"]
    assert "2 wrong, 10 expected" in lines["equalities", "rabbitmq", "1"]
    assert "not installed: apt install nats-server" in lines["equalities", "nats", "1"]
    assert "failed, see below" in lines["ranges", "penstock", "1"]
    chained = lines["equalities", "nats", "3"].split()
    assert chained[4:11] == ["60,000", "2", "×", "1.00", "0.25", "×", "4.00"]
    for said in (
        "penstock, ranges: out of luck",
        "rabbitmq 3: basic_publish",
        "once where several bindings",
        "at 1,000 events/s for all",
        "leaf node of the one before",
    ):
        assert said in out


def test_machines_are_told_all_too() -> None:
    made: Any = json.loads(json.dumps(report.document(report.compared(MEASURED), Choices(), parties())))
    assert [row["agrees"] for row in made["rows"]] == [True, False, None, None, True, True]
    assert made["choices"]["subscriptions"] == 10_000
    assert made["notes"]


# The command.


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--parties", "kafka"], "there is no 'kafka'; there are penstock, nats, rabbitmq"),
        (["--parties", " , "], "name at least one of penstock, nats, rabbitmq"),
        (["--subscriptions", "100001"], "at most 100,000"),
        (["--seconds", "301"], "at most 300"),
        (["--rate", "1000001"], "at most 1,000,000"),
        (["--brokers", "1,x"], "numbers from 1 to 9, with commas"),
        (["--brokers", "0"], "numbers from 1 to 9, with commas"),
        (["--brokers", "10"], "numbers from 1 to 9, with commas"),
        (["--brokers", ","], "numbers from 1 to 9, with commas"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    options: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "network", *options]) == 2
    assert complaint in capsys.readouterr().err


def test_no_time_and_no_events_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--seconds", "--events", "--subscriptions", "--rate"):
        with pytest.raises(SystemExit):
            main(["bench", "network", option, "0"])
        assert "above 0" in capsys.readouterr().err


def test_a_party_that_is_not_installed_is_told_how_to_be(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in ("nats", "rabbitmq"):
        monkeypatch.setattr(f"penstock.bench.network.{module}.find_program", lambda *_where: None)
    options = ["--parties", "nats,rabbitmq,nats", "--subscriptions", "5", "--brokers", "1"]
    assert main(["bench", "network", *options]) == 0
    out = capsys.readouterr().out
    assert out.count("not installed: apt install nats-server") == 1
    assert out.count("not installed: apt install rabbitmq-server") == 1


def here(name: str) -> bool:
    """Whether a party can be run; ours needs its live network."""
    parts = ("penstock.net.server", "penstock.net.client") if name == "penstock" else ()
    return parties()[name].missing() is None and None not in map(find_spec, parts)


@pytest.mark.parametrize("name", list(parties()))
def test_a_party_delivers_what_the_matcher_says(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    if not here(name):
        pytest.skip(f"{name} is not installed")
    # A rate that all of them reach.
    options = ["--subscriptions", "60", "--events", "1500", "--seconds", "1", "--rate", "50", "--json"]
    status = main(["bench", "network", "--parties", name, "--brokers", "1,2", *options])
    rows = json.loads(capsys.readouterr().out)["rows"]
    party = parties()[name]
    chains = [brokers for brokers in (1, 2) if brokers <= party.brokers_max]
    assert [(row["party"], row["brokers"], row["problem"], row["agrees"]) for row in rows] == [
        (name, brokers, None, True) for _ in party.jobs for brokers in chains
    ]
    assert status == 0
    for row in rows:
        assert 0 < row["events"] <= 1500
        assert row["delivered"] == row["expected"] > 0
        assert row["paced_per_second"] == 50
        assert 0 < row["p50_ms"] <= row["p99_ms"]
        assert row["version"][0].isdigit()


def test_a_party_that_does_not_reach_the_rate_has_no_delays(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--subscriptions", "5", "--events", "20", "--seconds", "1", "--brokers", "1", "--json"]
    status = main(["bench", "network", "--parties", "penstock", "--rate", "1000000", *options])
    assert status == 0
    for row in json.loads(capsys.readouterr().out)["rows"]:
        assert row["events_per_second"] < 1_000_000
        assert (row["paced_per_second"], row["p50_ms"], row["p99_ms"]) == (None, None, None)
