"""Whole rounds, on a network in memory that loses, repeats and mixes up what it is told to."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest

from penstock.cli.torture import as_dict, table, told
from penstock.errors import PenstockError
from penstock.filters.parsing import as_predicate
from penstock.model.events import Event, as_event
from penstock.model.values import Value
from penstock.net.torture import check, excuses, faults, plan, run
from penstock.net.torture.check import Verdict
from penstock.net.torture.faults import KINDS, Fault
from penstock.net.torture.figures import ALL, CALM, Figures
from penstock.net.torture.probing import Wave, first_streak
from penstock.net.torture.report import Options, Report, Row
from penstock.net.torture.run import Torture
from penstock.node.client.notices import Notice


class Arrived:
    def __init__(self, event: Event, late: bool = False) -> None:
        self.event, self.late = event, late


class MemoryStream:
    def __init__(self, text: str) -> None:
        self.predicate = as_predicate(text)
        self.queue: asyncio.Queue[Arrived] = asyncio.Queue()

    async def __aiter__(self) -> AsyncIterator[Arrived]:
        while True:
            yield await self.queue.get()

    async def change(self, text: str, /) -> None:
        self.predicate = as_predicate(text)


class Hub:
    """Everybody is connected to it; `spoil` gives what becomes of a delivery."""

    def __init__(self) -> None:
        self.streams: list[MemoryStream] = []
        self.spoil: Callable[[Event], Sequence[Event]] = lambda event: [event]
        self.is_down = self.stays_down = False
        self.open = 0
        self.running = False
        self.faults: list[str] = []
        self.crashes: list[str] = []
        self.complaints: list[str] = []
        self.tells = False
        self.ack_seconds = 0.0
        self.listeners: list[Callable[[Notice], None]] = []

    async def connect(
        self, urls: Sequence[str], *, on_notice: Callable[[Notice], None], **_options: object
    ) -> "MemoryNet":
        assert urls
        self.listeners.append(on_notice)
        self.open += 1
        return MemoryNet(self)

    async def start(self) -> None:
        self.running = True

    async def close(self) -> None:
        self.running = False

    def urls(self, client: int) -> list[str]:
        return [f"memory:{client}"]

    def crashed(self) -> list[str]:
        return self.crashes

    async def suffer(self, fault: Fault) -> list[str]:
        self.faults.append(fault.kind)
        self.is_down = True
        await asyncio.sleep(fault.length)
        if self.tells:
            self.listeners[fault.target](Notice("missed", "something", 10_000))
        self.is_down = self.stays_down
        return self.complaints


class MemoryNet:
    broker = "b0"

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    async def advertise(self, text: str, /) -> None:
        as_predicate(text)

    async def publish_many(self, events: Sequence[Mapping[str, Value]], /) -> None:
        await asyncio.sleep(0)
        for event in map(as_event, events):
            for stream in self.hub.streams:
                if not self.hub.is_down and stream.predicate.matches(event):
                    for one in self.hub.spoil(event) if "probe" not in event else [event]:
                        stream.queue.put_nowait(Arrived(one))
        await asyncio.sleep(self.hub.ack_seconds)

    async def subscribe(self, text: str, /, *, queue: int) -> MemoryStream:
        assert queue > 0
        self.hub.streams.append(MemoryStream(text))
        return self.hub.streams[-1]

    async def close(self) -> None:
        self.hub.open -= 1
        raise PenstockError("what closing says is of no interest")


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "_LEAD", 0.05)
    monkeypatch.setattr(faults, "_LENGTHS", dict.fromkeys(KINDS, ((0.1, 0.2),)))
    monkeypatch.setattr(run, "_QUIET", 0.3)
    monkeypatch.setattr(run, "_AFTER", 0.05)


@contextmanager
def ended(hub: Hub) -> Iterator[None]:
    """Whatever happens, nothing stays behind."""
    try:
        yield
    finally:
        assert not hub.running
        assert hub.open == 0


def tortured(
    hub: Hub,
    *,
    rounds: int = 1,
    faults: tuple[str, ...] = (),
    patience: float = 30,
    keep_going: bool = False,
) -> Report:
    options = Options(
        seed=3, rounds=rounds, seconds=0.2, brokers=7, events=200, faults=faults, keep_going=keep_going
    )
    with ended(hub):
        return asyncio.run(Torture(options, hub, hub.connect).run(lambda _text: None, patience))


def once(spoilt: Sequence[Event] | None = None) -> Callable[[Event], Sequence[Event]]:
    """Spoil one delivery of those that come: let it get lost, or replace it."""
    done: list[Event] = []

    def spoil(event: Event) -> Sequence[Event]:
        done.append(event)
        return [event] if len(done) != 5 else (spoilt if spoilt is not None else [])

    return spoil


def test_a_good_network_is_found_right() -> None:
    report = tortured(Hub(), rounds=2)
    assert report.is_right
    assert [row.name for row in report.rows] == ["round 1 of 2", "round 2 of 2", "in the end"]
    assert all(row.verdict.got == row.verdict.expected > 0 for row in report.rows)
    assert all(row.recovery_s is not None for row in report.rows)
    totals = report.totals
    assert totals.got == totals.expected == sum(row.verdict.expected for row in report.rows)
    assert (totals.faults, totals.late, totals.lost, totals.told, totals.duplicates) == (0, 0, 0, 0, 0)


def test_a_loss_is_found_and_ends_the_torture() -> None:
    hub = Hub()
    hub.spoil = once()
    report = tortured(hub, rounds=3)
    assert not report.is_right
    assert len(report.rows) == 1
    assert [text.split(":")[0] for text in report.rows[0].wrong] == ["lost"]
    assert report.totals.lost == report.table[ALL].lost == 1


def test_it_can_go_on_after_a_violation() -> None:
    hub = Hub()
    hub.spoil = once()
    report = tortured(hub, rounds=2, keep_going=True)
    assert [len(row.wrong) for row in report.rows] == [1, 0, 0]
    assert report.table[CALM].lost == report.table[ALL].lost == 1


def test_a_repetition_is_found() -> None:
    hub = Hub()
    hub.spoil = lambda event: [event, event] if event["sequence"] == 20 else [event]
    report = tortured(hub)
    assert {text.split(":")[0] for text in report.rows[0].wrong} == {"duplicate"}
    assert report.rows[0].verdict.duplicates > 0


def test_what_nobody_published_is_found() -> None:
    hub = Hub()
    hub.spoil = once([Event({"x": 1})])
    report = tortured(hub)
    assert report.wrong == ["unknown: {'x': 1} came to subscription " + report.wrong[0].split()[-1]]


@pytest.mark.parametrize("kind", ["kill", "term", "pause", "long", "split", "oneway", "failover", "dead"])
def test_losses_that_nobody_is_told_of_are_violations_whatever_fails(kind: str) -> None:
    hub = Hub()
    report = tortured(hub, faults=(kind,))
    assert set(hub.faults) == {kind}
    assert {text.split(":")[0] for text in report.rows[0].wrong} == {"lost"}
    assert report.table[kind].lost == report.totals.lost > 0


@pytest.mark.parametrize("told", [True, False])
def test_losses_of_a_subscriber_that_is_told_so_are_counted_and_excused(
    told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "_filter", lambda *_round: "true")
    hub = Hub()
    hub.tells = told
    report = tortured(hub, faults=("dead",))
    verdict = report.rows[0].verdict
    assert (verdict.told > 0) == told
    assert verdict.told == report.table["dead"].told
    # The others were not told.
    assert verdict.lost > 0
    assert (verdict.missed_notices > 0) == told


def test_a_slow_acknowledgement_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "ACK_MAX", 0.3)
    monkeypatch.setattr(excuses, "ACK_MAX", 0.3)
    hub = Hub()
    hub.ack_seconds = 0.4
    report = tortured(hub)
    assert {text.split(":")[0] for text in report.rows[0].wrong} == {"held"}
    assert report.table[ALL].longest_ack_s >= 0.4


def test_a_network_that_does_not_recover_is_told_of() -> None:
    hub = Hub()
    hub.stays_down = True
    report = tortured(hub, faults=("kill",), patience=1.5)
    assert report.rows[0].failed[0].startswith("unrecovered: after all faults were mended")
    assert "client 0 does not reach subscriptions [0, 1, 2, 3, 4, 5, 6, 7]" in report.rows[0].failed[0]
    assert report.rows[0].recovery_s is None


def test_crashes_and_bad_ends_are_violations() -> None:
    hub = Hub()
    hub.crashes = ["crashed: b1"]
    assert tortured(hub).wrong == ["crashed: b1"]
    hub = Hub()
    hub.complaints = ["ending: b1 ended with 1"]
    assert set(tortured(hub, faults=("term",)).wrong) == {"ending: b1 ended with 1"}


def test_an_interrupted_torture_leaves_nothing_behind() -> None:
    hub = Hub()

    def interrupt(_text: str) -> None:
        if hub.open == 7:
            raise KeyboardInterrupt

    with ended(hub), pytest.raises(KeyboardInterrupt):
        asyncio.run(Torture(Options(), hub, hub.connect).run(interrupt))


def test_a_streak_is_of_complete_waves_in_a_row() -> None:
    waves = [Wave(float(at)) for at in range(6)]
    assert first_streak(waves, [True, True, False, True, True, True]) is waves[3]
    assert first_streak(waves, [True, True, False, True, True, False]) is None
    assert first_streak([], []) is None


def test_a_wave_is_complete_when_all_of_it_has_come_everywhere() -> None:
    wave = Wave(1.0, [(0, 5), (1, 9)])
    assert wave.complete_at({(0, 5): {0: 2.0, 1: 3.0}, (1, 9): {0: 2.5, 1: 2.5}}, [0, 1]) == 3.0
    assert wave.complete_at({(0, 5): {0: 2.0, 1: 3.0}, (1, 9): {0: 2.5}}, [0, 1]) is None
    assert Wave(1.0, [(0, 5), None]).complete_at({(0, 5): {0: 2.0}}, [0]) is None


def test_the_command_draws_the_same_plan_again() -> None:
    options = Options(seed=4, rounds=2, seconds=3, brokers=8, events=9, faults=("kill", "stall"))
    assert options.command == (
        "penstock torture --seed 4 --rounds 2 --seconds 3 --brokers 8 --events 9 --faults kill,stall"
    )
    assert "--faults" not in Options().command
    assert "--scheme" not in Options().command
    assert Options(scheme="flooding").command.endswith("--scheme flooding")
    assert Options(single_homed=True).command == f"{Options().command} --single-homed"
    assert Options(faults=()).command.endswith("--faults none")
    more = Options(topology="all", subscribers=6, faults_per_round=16, keep_going=True)
    assert more.command.endswith("--topology all --subscribers 6 --faults-per-round 16 --keep-going")


def test_reports_of_several_networks_are_joined() -> None:
    report = Report(Options(topology="all"))
    for topology in ("chain", "ring"):
        verdict = Verdict(expected=5, rows={"kill": Figures(faults=1, wanted=3, longest_gap_s=2.0)})
        rows = [Row("round 1 of 1", ["kill b1"], verdict, kinds=["kill"])]
        report.join(Report(Options(), links=4, rows=rows, wrong=["crashed"], seconds=1.0), topology)
    assert [row.name for row in report.rows] == ["chain, round 1 of 1", "ring, round 1 of 1"]
    assert report.wrong == ["chain: crashed", "ring: crashed"]
    assert (report.links, report.seconds, report.totals.expected) == (8, 2.0, 10)
    assert list(table(report)) == [("kill", ["2", "6", "0", "0", "0", "2.0", "0.0"])]
    assert as_dict(report)["table"]["kill"]["wanted"] == 6


def test_kinds_that_were_asked_for_and_never_drawn_are_told() -> None:
    rows = [Row("1", ["b1 is killed"], Verdict(), kinds=["kill"]), Row("last", [], Verdict())]
    first, *more = told(Report(Options(rounds=1, faults=("kill", "lag")), rows=rows), None)
    assert first.startswith("1 fault, 0 events published, 0 deliveries wanted: ")
    assert "Never drawn in 1 round: lag; say more --rounds, or another --seed." in more
    for kinds in (("kill",), KINDS):
        lines = told(Report(Options(faults=kinds), rows=rows), None)
        assert not [line for line in lines if "drawn in" in line]
