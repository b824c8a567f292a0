"""What clients and operators do that others must not notice: readers that hold, hostile clients, draining."""

from collections.abc import Iterator

import pytest

from penstock.broker.effects import Missed
from penstock.node.hub import Hub
from penstock.node.links import Link
from penstock.node.runtime import Runtime
from penstock.node.telling import Telling
from penstock.sim.plan import Plan, Step, check
from penstock.sim.play import Outcome, play
from penstock.sim.whole.draw import draw_whole
from penstock.sim.whole.hostile import ATTACKS
from penstock.sim.whole.play import KINDS
from penstock.wire.sessions import Session

CHAIN = ((0, 1), (1, 2))
RING = ((0, 1), (1, 2), (2, 0))


def events(client: int, *values: int, apart: float = 0.1) -> list[Step]:
    return [step for x in values for step in (Step("publish", (client, {"x": x})), Step("pass", (apart,)))]


def outcome(steps: list[Step], *, homes: tuple[int, ...], **more: object) -> Outcome:
    """What comes of steps, once all clients have subscribed to everything and c0 advertises it."""
    begin = [Step("pass", (1.0,)), Step("advertise", (0, "a", "x >= 0"))]
    begin += [Step("subscribe", (client, "s", "x >= 0")) for client in range(len(homes))]
    settings = {"seed": 1, "scheme": "covering", "advertisements": True, "brokers": 3, "edges": CHAIN, **more}
    steps = [*begin, Step("settle"), *steps, Step("mend"), Step("settle")]
    plan = Plan(homes=homes, steps=tuple(steps), links="reliable", **settings)  # type: ignore[arg-type]
    check(plan)
    return play(plan)


# Readers that acknowledge by hand


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("pad", [0, 6_000])
def test_a_reader_that_acknowledges_late_or_never_holds_nobody_for_longer_than_the_patience(
    share: float, pad: int
) -> None:
    steps = [Step("manual", (1, share, 14.0)), *events(0, *range(8), apart=2.0), Step("pass", (20.0,))]
    found = outcome([*steps, Step("auto", (1,)), *events(0, 1)], homes=(0, 2, 1), pad=pad)
    assert found.wrong == []


def test_a_reader_that_dies_with_events_in_its_hands_holds_nobody_for_long() -> None:
    steps = [Step("manual", (1, 0.0, 0.0)), *events(0, 1, 2), Step("exit", (1,)), *events(0, 3)]
    found = outcome([*steps, Step("pass", (20.0,))], homes=(0, 2, 1))
    assert found.wrong == []
    assert found.faults_by_kind["manual reader, never acknowledges"] == 1


def test_each_event_is_held_for_the_patience_however_slowly_those_before_it_are_acknowledged() -> None:
    # The patience began anew with each event that came to be the first one not acknowledged.
    steps = [Step("manual", (1, 1.0, 6.0)), *events(2, 1), Step("manual", (1, 0.0, 0.0)), *events(0, 2)]
    steps = [Step("advertise", (2, "b", "x >= 0")), Step("pass", (2.0,)), *steps, Step("pass", (20.0,))]
    assert outcome(steps, homes=(0, 0, 0), brokers=1, edges=()).wrong == []


def test_a_reader_that_leaves_an_event_aside_holds_nobody_while_others_have_windows_full() -> None:
    # As long as it took others, and another reader had a publisher's window full, the event was held.
    steps = [Step("lag", (2, 8.0)), Step("manual", (1, 0.0, 0.0)), *events(0, 1)]
    steps += [Step("manual", (1, 1.0, 0.0)), *events(0, *range(150), apart=0.4)]
    assert outcome(steps, homes=(0, 0, 0), brokers=1, edges=(), pad=6_000).wrong == []


def test_a_reader_whose_window_is_full_is_paused_in_time_though_it_answers_that_it_is_slow() -> None:
    # It acknowledged the notice that it is slow, which counted as if it had taken events.
    steps = [Step("lag", (1, 27.0)), *events(0, *range(12), apart=0.01), Step("pass", (40.0,))]
    found = outcome([*steps, Step("lag", (1, 0.0))], homes=(0, 0), brokers=1, edges=(), pad=6_000)
    assert found.wrong == []


def test_a_reader_that_never_acknowledges_is_not_paused_while_its_window_has_room() -> None:
    # Events that were passed on as time went by, and only waited to be written, had it paused.
    steps = [Step("manual", (1, 0.0, 0.0)), *events(0, 1), Step("pass", (20.0,))]
    # The events of a new advertisement wait for a moment.
    steps += [Step("unadvertise", (0, "a")), Step("advertise", (0, "b", "x >= 0")), Step("pass", (0.1,))]
    steps += [*events(0, 2), Step("pass", (2.0,)), *events(0, 3)]
    found = outcome(steps, homes=(0, 0), brokers=2, edges=((0, 1),))
    assert (found.wrong, found.excused) == ([], {})


def test_readers_that_hold_publishers_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "release_sent", lambda _session, _to=None: None)
    steps = [Step("manual", (1, 0.0, 0.0)), *events(0, 1), Step("pass", (30.0,)), Step("auto", (1,))]
    found = outcome(steps, homes=(0, 2))
    assert any("Prompt" in text and "was settled after" in text for text in found.wrong)


def test_a_subscriber_that_waits_for_others_filters_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.sim.whole.process._COMPUTING_MAX", 0.6)
    monkeypatch.setattr("penstock.sim.whole.process._COMPUTING_BYTE", 1.0)
    monkeypatch.setattr("penstock.node.turns._Account.ready_at", 0.0)
    steps = [Step("attack", (0, "dear filters")), Step("pass", (0.05,))]
    steps += [Step("subscribe", (1, f"n{n}", f"x = {n} or y = 2")) for n in range(3)]
    found = outcome([*steps, Step("pass", (30.0,))], homes=(0, 0), brokers=1, edges=())
    assert any("Prompt: c1 was answered about" in text for text in found.wrong)


# Hostile clients


@pytest.mark.parametrize("kind", ATTACKS)
@pytest.mark.parametrize(
    "more",
    [{}, {"edges": RING, "scheme": "flooding"}, {"advertisements": False, "protocol": "flood", "pad": 6_000}],
)
def test_nobody_notices_a_hostile_client(kind: str, more: dict[str, object]) -> None:
    steps = [Step("attack", (1, kind)), *events(0, *range(5)), Step("attack", (0, kind))]
    found = outcome([*steps, *events(0, *range(20), apart=1.0)], homes=(0, 2, 1), **more)
    assert (found.wrong, found.excused) == ([], {})
    assert found.faults_by_kind[f"hostile client, {kind}"] == 2


@pytest.mark.parametrize("kind", ["silence", "half a greeting", "unfinished frame"])
def test_a_broker_that_never_ends_a_connection_is_noticed(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Hub, "tick", lambda _hub: None)
    found = outcome([Step("attack", (0, kind)), Step("pass", (20.0,))], homes=(0,))
    assert [text for text in found.wrong if text.startswith("Strangers: b0 did not end")]


def test_a_broker_that_grants_what_a_token_does_not_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.broker.grants.Grants.why_not", lambda *_: None)
    monkeypatch.setattr("penstock.broker.grants.Grants.has_any", lambda *_: True)
    found = outcome([Step("attack", (0, "no rights")), Step("pass", (20.0,))], homes=(0,))
    assert any("was allowed what its token does not grant" in text for text in found.wrong)


# Draining


@pytest.mark.parametrize("edges", [RING, CHAIN])
@pytest.mark.parametrize("seconds", [0.2, 20.0])
def test_a_broker_that_is_drained_and_started_again_loses_nothing(
    edges: tuple[tuple[int, int], ...], seconds: float
) -> None:
    steps = [*events(0, *range(5)), Step("drain", (2, seconds)), *events(0, *range(30), apart=0.5)]
    found = outcome([*steps, Step("pass", (20.0,))], homes=(0, 2, 1), others=((), (1,), ()), edges=edges)
    assert (found.wrong, found.excused) == ([], {})
    assert (found.faults_by_kind["drain"], found.faults_by_kind["stop"]) == (1, 1)


def test_a_broker_that_drains_waits_no_longer_than_it_may_for_a_reader() -> None:
    steps = [Step("manual", (1, 0.0, 0.0)), *events(0, 1), Step("drain", (0, 1.0)), Step("pass", (20.0,))]
    found = outcome(steps, homes=(0, 0), brokers=1, edges=())
    assert found.wrong == []


def test_a_broker_that_drains_sends_what_it_holds_back_first() -> None:
    # The events of a new advertisement wait for a moment, if there are neighbours.
    steps = [Step("unadvertise", (0, "a")), Step("advertise", (0, "b", "x >= 0")), Step("pass", (0.05,))]
    steps += [Step("publish", (0, {"x": 1})), Step("pass", (0.3,)), Step("drain", (0, 1.0))]
    found = outcome([*steps, Step("pass", (20.0,))], homes=(0, 0))
    assert (found.wrong, found.excused) == ([], {})


def test_a_broker_that_ends_before_it_has_acknowledged_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Runtime, "is_idle", property(lambda _runtime: True))
    steps = [Step("manual", (1, 1.0, 4.0)), *events(0, 1, apart=1.0), Step("drain", (0, 1.0))]
    found = outcome([*steps, Step("pass", (20.0,))], homes=(0, 0), brokers=1, edges=())
    assert any("ended and had not acknowledged" in text for text in found.wrong)


# Plans that are drawn


def counted(seeds: range) -> Iterator[str]:
    for seed in seeds:
        for step in draw_whole(seed).steps:
            yield step.verb


def test_all_kinds_of_faults_are_drawn_often() -> None:
    found = list(counted(range(200)))
    for verb in ("manual", "auto", "attack", "drain", "pause", "stall", "flip", "exit", "cut"):
        assert found.count(verb) >= 8, verb


def test_kinds_are_counted_by_name() -> None:
    steps = [Step("crash", (2,)), Step("pass", (1.0,)), Step("restart", (2, False)), Step("pause", ("b1",))]
    steps += [Step("pass", (70.0,)), Step("continue", ("b1",)), Step("cut", (0, 1)), Step("heal", (0, 1))]
    steps += [Step("cut", (0, 1)), Step("pass", (61.0,)), Step("heal", (0, 1))]
    steps += [Step("manual", (0, 0.0, 0.0)), Step("stall", ("b0", "b1")), Step("flip", ("b1", "b2"))]
    found = outcome(steps, homes=(0,)).faults_by_kind
    assert {kind for kind in KINDS if not kind.startswith("hostile")} - found.keys() == {"drain"}
    assert found["pause, longer than every timeout"] == found["crash, restarted within resume"] == 1
    assert found["outage, longer than keep"] == 1
    assert found["split"] == 2


def test_what_is_told_in_vain_is_counted_by_what_had_failed() -> None:
    steps = [Step("cut", (1, 2)), *events(0, *range(10)), Step("pass", (200.0,)), Step("heal", (1, 2))]
    found = outcome(steps, homes=(0, 2))
    assert found.missed.keys() == {"cut"}
    assert sum(found.missed.values()) == found.excused["missed, told"]
    assert found.missed_in_vain == {}


@pytest.mark.parametrize("ended", [False, True])
def test_what_is_told_and_not_counted_is_noticed_also_where_a_broker_has_ended(
    monkeypatch: pytest.MonkeyPatch, *, ended: bool
) -> None:
    monkeypatch.setattr(Telling, "gather", _gather_and_forget)
    steps = [Step("crash", (0,)), Step("pass", (5.0,)), Step("restart", (0, False)), Step("pass", (60.0,))]
    steps = [*(steps if ended else ()), Step("cut", (1, 2)), *events(0, *range(10)), Step("pass", (200.0,))]
    found = outcome([*steps, Step("heal", (1, 2)), Step("pass", (30.0,))], homes=(1, 2))
    assert any("clients were told `missed` of" in text for text in found.wrong)


def _gather_and_forget(telling: Telling, link: Link, missed: Missed) -> None:
    telling._runtime.lost.clear()
    telling._gathered.setdefault(link, []).append(missed)


def test_what_is_told_to_whom_the_publishers_broker_does_not_know_is_not_in_vain() -> None:
    """c0 advertises something else during a cut, so that nobody there can know of c1."""
    steps = [Step("cut", (0, 1)), Step("pass", (1.0,)), Step("advertise", (0, "a", "x >= 1"))]
    steps += [Step("pass", (0.5,)), *events(0, *range(1, 5)), Step("pass", (200.0,)), Step("heal", (0, 1))]
    found = outcome([*steps, Step("pass", (5.0,))], homes=(0, 1))
    assert found.wrong == []
    assert found.missed == {"cut": 2}
    assert found.missed_in_vain == {}


def test_what_is_told_before_anything_was_missed_is_in_vain() -> None:
    """c1 is told after 231 s that it may have missed something; what it does miss is published after that."""
    steps = [Step("cut", (0, 1)), Step("pass", (240.0,)), *events(0, 1, 2), Step("pass", (200.0,))]
    found = outcome([*steps, Step("heal", (0, 1)), Step("pass", (5.0,))], homes=(0, 1))
    assert found.wrong == []
    assert (found.missed, found.missed_in_vain) == ({"cut": 2}, {"cut": 1})
