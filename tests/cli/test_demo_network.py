"""The network part of the demo: real brokers, one of which is killed."""

import os
import re
from pathlib import Path

import pytest

from penstock.cli.demo_play import Play
from penstock.cli.demo_scene import BROKERS_MAX, BROKERS_MIN, Flights, make_scene
from penstock.cli.main import main
from penstock.errors import PenstockError
from penstock.model.events import Event
from penstock.net.client.subscriptions import Received
from penstock.wire.blocks import Header
from penstock.wire.events import encode_event
from penstock.workloads.flights import load_flights


def test_the_flights_arrive_around_a_broker_that_is_killed(
    warm_kernels: None, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(["demo", "--only", "network", "--flights", "2000"])
    out = capsys.readouterr().out
    assert status == 0, out
    assert re.search(
        r"^1,998 flights published and 2 traced, ([\d,]+) deliveries of \1 expected: ", out, re.MULTILINE
    ), out
    assert "nothing lost, nothing twice" in out
    assert re.search(r" s  b7 is killed: kill -9 \d+$", out, re.MULTILINE)
    assert " s  b7's neighbours wait 2 s for it to come back, then look for other ways; " in out
    assert out.count("the connection to b7 is lost") == 2
    assert out.count(" is traced; its ways: b") == 2
    for one in make_scene(7).subscribers:
        assert re.search(rf"^ ?{re.escape(one.name)} +b\d", out, re.MULTILINE), one.name
    assert "b7 → b4" in out
    assert _running(out) == []


def test_no_broker_stays_when_the_demo_fails(
    warm_kernels: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_arguments: object) -> None:
        raise PenstockError("enough")

    monkeypatch.setattr(Play, "publish", fail)
    assert main(["demo", "--only", "network", "--flights", "50", "--brokers", "5"]) == 2
    out, err = capsys.readouterr()
    assert err == "penstock: enough\n"
    assert _running(out) == []


def _running(out: str) -> list[str]:
    """The brokers whose processes are still there, by the line that tells of them."""
    told = re.search(r"^\d brokers run \(processes (.*)\)\.$", out, re.MULTILINE)
    assert told is not None, out
    running = []
    for broker in told[1].split(", "):
        try:
            os.kill(int(broker.split()[1]), 0)
        except ProcessLookupError:
            continue
        running.append(broker)
    return running


@pytest.mark.parametrize("brokers", range(BROKERS_MIN, BROKERS_MAX + 1))
def test_without_the_broker_that_is_killed_the_others_are_linked_and_every_client_has_one(
    brokers: int,
) -> None:
    scene = make_scene(brokers)
    left = {link for link in scene.links if scene.victim not in link}
    reached, before = {0}, 0
    while len(reached) > before:
        before = len(reached)
        reached |= {end for link in left if reached & set(link) for end in link}
    assert reached == set(range(brokers)) - {scene.victim}
    assert len(set(map(frozenset, scene.links))) == len(scene.links) > brokers
    for one in (*scene.publishers, *scene.subscribers):
        assert len(set(one.homes)) == len(one.homes) > 1
        assert set(one.homes) <= set(range(brokers))
    assert sum(one.homes[0] == scene.victim for one in scene.subscribers) == 2


@pytest.mark.parametrize("brokers", ["4", "21"])
def test_a_network_that_is_too_small_or_too_large_is_refused(
    brokers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--brokers", brokers]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"penstock: --brokers: {brokers} ")


@pytest.fixture
def play(tmp_path: Path) -> Play:
    """A demo in which nothing is published yet."""
    scene = make_scene(7)
    play = Play(scene, Flights(scene, load_flights().slice(0, 300)), tmp_path)
    play.killed_at = 100.0
    return play


SOMEBODY = -2
"""Delta Fleet Planning, at the broker that is killed."""


def publish(play: Play) -> None:
    """All flights, the last one first."""
    for row in (len(play.flights) - 1, *range(len(play.flights) - 1)):
        play._note(row)


def received(play: Play, row: int, *, late: bool = False, **other: str) -> Received:
    data = encode_event(Event({**play.flights.events[row], **other}))
    return Received(data, Header("t", "o", 2), row, late, None)


def deliver(play: Play, *, lost: int | None = None) -> None:
    """Everything that must come, but for a flight that one of them loses."""
    for at, inbox in enumerate(play.inboxes):
        for row in play.names:
            if row in play.flights.wanted[at] and (inbox is not play.inboxes[SOMEBODY] or row != lost):
                inbox.take(received(play, row))


def wrong(play: Play) -> list[str]:
    play.judge()
    return list(play.wrong())


def test_what_arrives_once_is_right(play: Play) -> None:
    publish(play)
    deliver(play)
    assert not any(play.ledger.missing())
    assert wrong(play) == []
    assert play.tally.expected == play.tally.delivered == play.delivered == sum(map(len, play.flights.wanted))
    assert play.delivered > 0


@pytest.mark.parametrize(("at", "is_excused"), [(97.0, False), (99.0, True), (104.0, True), (107.0, False)])
def test_what_is_lost_is_excused_only_around_the_kill(play: Play, at: float, is_excused: bool) -> None:
    row = min(play.flights.wanted[SOMEBODY])
    publish(play)
    deliver(play, lost=row)
    assert any(play.ledger.missing())
    play.published_at[row] = at
    assert wrong(play) == (
        []
        if is_excused
        else [f"Delta Fleet Planning never got 1 flights, such as row {row:,}, without excuse"]
    )
    assert (play.tally.missed, play.tally.excused) == (not is_excused, is_excused)
    assert play.inboxes[SOMEBODY].missing == 1


def test_what_comes_twice_altered_or_to_the_wrong_one_is_never_excused(play: Play) -> None:
    inbox, wanted = play.inboxes[SOMEBODY], play.flights.wanted[SOMEBODY]
    publish(play)
    deliver(play)
    play.published_at = [100.0] * len(play.flights)
    inbox.take(received(play, min(wanted)))
    inbox.take(received(play, min(wanted), origin="XYZ"))
    inbox.take(received(play, min(set(range(300)) - wanted), late=True))
    assert wrong(play) == [
        "Delta Fleet Planning got 2 events that it did not want, or that were altered",
        "Delta Fleet Planning got 1 events twice",
    ]


@pytest.mark.parametrize("is_late", [False, True])
def test_what_comes_after_later_flights_has_to_say_so(play: Play, is_late: bool) -> None:
    row = min(play.flights.wanted[SOMEBODY])
    publish(play)
    deliver(play, lost=row)
    play.inboxes[SOMEBODY].take(received(play, row, late=is_late))
    assert wrong(play) == (
        [] if is_late else ["Delta Fleet Planning got 1 events out of order, or wrongly marked late"]
    )
    assert play.late == is_late


def test_the_first_flight_that_had_to_wait_for_another_way_is_told(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    for now, published in ((100.5, 98.0), (103.0, 102.9), (104.5, 100.5), (104.6, 100.6)):
        monkeypatch.setattr(play, "clock", lambda now=now: now)
        play.published_at[0] = published
        play.came(0)
        play._tell(lambda _at, text: told.append(text), 1_000.0, None)
    assert told == ["the first flight that had waited comes by another way, 4.5 s after the kill"]
    assert play.last_delivery == 104.6
