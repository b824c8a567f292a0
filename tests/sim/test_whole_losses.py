"""Plans in which acknowledged events were lost and nobody was told: whoever was responsible died, or forgot.

At any time somebody knows since when a client may be missing events that it was not told of: its broker, and
the client itself, in case its broker dies (docs/PROTOCOLS.md, "Who answers for an event").
"""

from typing import Any

import pytest

from penstock.sim.plan import Step
from penstock.sim.play import Outcome
from whole_cases import events, outcome

CUT, HEAL = Step("cut", (0, 1)), Step("heal", (0, 1))


def wait(seconds: float) -> Step:
    return Step("pass", (seconds,))


def again(broker: int) -> list[Step]:
    """A broker is killed, and started again with nothing."""
    return [Step("crash", (broker,)), wait(2.0), Step("restart", (broker, False))]


def of_two(*steps: Step, homes: tuple[int, ...] = (0, 1), **more: object) -> Outcome:
    """c0 publishes at b0 and c1 reads at b1, unless it is said otherwise."""
    return outcome(list(steps), homes=homes, brokers=2, edges=((0, 1),), **more)


# What a client has to remember until somebody answers


@pytest.mark.parametrize("protocol", ["trees", "flood"])
@pytest.mark.parametrize("seconds", [20.0, 60.0, 120.0])
def test_a_client_that_was_away_for_long_remembers_what_its_broker_was_missing(
    seconds: float, protocol: str
) -> None:
    steps = [CUT, *events(0, 1, 2, 3), wait(40.0), Step("unplug", (1, 1)), wait(seconds)]
    found = of_two(*steps, HEAL, wait(5.0), Step("plug", (1, 1)), wait(10.0), protocol=protocol)
    assert (found.wrong, found.excused) == ([], {})


@pytest.mark.parametrize("protocol", ["trees", "flood"])
@pytest.mark.parametrize("seconds", [10.0, 100.0, 150.0])
def test_a_client_remembers_what_its_broker_was_missing_when_that_had_forgotten_the_path(
    seconds: float, protocol: str
) -> None:
    steps = [CUT, wait(seconds), *events(0, 1, 2, 3), wait(5.0), *again(1), wait(10.0), HEAL]
    found = of_two(*steps, wait(10.0), protocol=protocol)
    assert (found.wrong, found.excused) == ([], {})


# After it was told that nobody knows, more may be missing


@pytest.mark.parametrize("protocol", ["trees", "flood"])
@pytest.mark.parametrize("seconds", [250.0, 300.0, 700.0])
@pytest.mark.parametrize("ending", [again(1), [Step("drain", (1, 2.0)), wait(12.0)]])
def test_what_is_missed_after_a_client_was_told_is_sent_to_it_though_its_broker_has_died(
    ending: list[Step], seconds: float, protocol: str
) -> None:
    steps = [CUT, wait(seconds), *events(0, 1, 2, 3), wait(20.0), *ending, wait(5.0), HEAL, wait(12.0)]
    found = of_two(*steps, protocol=protocol)
    assert found.wrong == []
    # Of the first part of the time, nobody knew.
    assert sum(found.missed.values()) == 1


def test_what_is_acknowledged_after_a_client_was_told_is_told_when_the_publisher_says_so() -> None:
    """b0 dies with what it kept, once c1 was told that nobody knows; c0 comes to b1, and says how much."""
    steps = [CUT, wait(300.0), *events(0, 1, 2, 3), wait(20.0), Step("crash", (0,)), wait(300.0)]
    found = of_two(*steps, Step("restart", (0, False)), others=((1,), ()))
    assert found.wrong == []
    assert found.excused["told"] == 3
    # Of the time before anything was published, nobody knew.
    assert (sum(found.missed.values()), sum(found.missed_in_vain.values())) == (2, 1)


def test_who_was_told_is_not_told_again_of_the_same() -> None:
    """c0 was acknowledged events before c1 was told that nobody knows, and none after that."""
    steps = [CUT, wait(100.0), *events(0, 1, 2, 3), wait(200.0), Step("crash", (0,)), wait(600.0)]
    found = of_two(*steps, Step("restart", (0, False)), others=((1,), ()))
    assert found.wrong == []
    assert found.missed == {"cut": 1}


# Brokers that have just started, and know nobody yet


@pytest.mark.parametrize("protocol", ["trees", "flood"])
@pytest.mark.parametrize("seconds", [10.0, 120.0, 500.0])
def test_brokers_that_both_started_anew_while_apart_send_each_other_what_was_missed(
    seconds: float, protocol: str
) -> None:
    steps = [CUT, wait(5.0), Step("crash", (0,)), Step("crash", (1,)), wait(1.0)]
    steps += [Step("restart", (0, False)), Step("restart", (1, False)), wait(seconds), *events(0, 1, 2, 3)]
    found = of_two(*steps, wait(3.0), HEAL, wait(10.0), protocol=protocol)
    assert (found.wrong, found.excused) == ([], {})


@pytest.mark.parametrize("seconds", [20.0, 100.0, 200.0])
def test_a_client_of_a_broker_that_started_anew_twice_while_cut_off_is_sent_what_was_missed(
    seconds: float,
) -> None:
    steps = [CUT, wait(5.0), *again(1), wait(seconds), *events(0, 1, 2, 3), wait(5.0), *again(1), wait(3.0)]
    found = of_two(*steps, HEAL, wait(10.0))
    assert (found.wrong, found.excused) == ([], {})


@pytest.mark.parametrize("protocol", ["trees", "flood"])
def test_a_client_remembers_what_its_broker_was_missing_when_that_starts_anew_twice(protocol: str) -> None:
    """The second one has met nobody, so that it does not know who is missing."""
    steps = [CUT, wait(5.0), Step("crash", (0,)), *again(1), Step("restart", (0, False)), wait(100.0)]
    steps += [*events(0, 1, 2, 3), wait(4.0), Step("crash", (0,)), *again(1), Step("restart", (0, False))]
    found = of_two(*steps, wait(30.0), HEAL, wait(10.0), protocol=protocol)
    assert found.wrong == []
    assert found.excused["told"] == 3


def test_flood_a_new_node_has_nothing_sent_again_to_others() -> None:
    """b1 has not met b2 since it was started itself, long ago."""
    steps = [Step("crash", (2,)), *again(1), wait(400.0), *events(0, *range(20)), wait(240.0)]
    steps += [Step("restart", (2, False))]
    found = outcome([*steps, wait(10.0)], homes=(0, 1), protocol="flood")
    assert (found.wrong, found.excused) == ([], {})


# Publishers that were somewhere else meanwhile


def test_who_was_there_all_the_time_is_told_what_an_unknown_broker_of_a_publisher_took() -> None:
    """c0 comes back to b1 while that is cut off; b1 dies before b0 has heard of it."""
    steps = [Step("unplug", (0, 1)), wait(30.0), CUT, wait(5.0), Step("plug", (0, 1)), wait(3.0)]
    steps += [*events(0, 1, 2, 3), wait(10.0), *again(1), HEAL, wait(300.0)]
    found = of_two(*steps, homes=(1, 0))
    assert found.wrong == []
    assert found.excused["told"] == 3
    assert found.missed_in_vain == {}


@pytest.mark.parametrize("seconds", [1.0, 40.0])
def test_who_was_away_is_told_what_a_publisher_that_withdrew_reports(seconds: float) -> None:
    """c0 withdraws what it advertised; b0, which keeps its events for c1, is drained before b1 is back."""
    steps = [wait(8.0), Step("crash", (1,)), wait(9.0), *events(0, 1, 2, 3), wait(3.0)]
    steps += [Step("unadvertise", (0, "a")), wait(1.0), Step("drain", (0, 4.46)), wait(seconds)]
    found = of_two(*steps, Step("restart", (1, False)), wait(30.0), homes=(1, 1), others=((0,), ()))
    assert found.wrong == []
    assert found.excused["told"] == 3
    assert found.missed_in_vain == {}


@pytest.mark.parametrize("protocol", ["trees", "flood"])
@pytest.mark.parametrize("ending", [[Step("drain", (0, 5.12))], again(0)])
@pytest.mark.parametrize("seconds", [20.0, 100.0])
def test_who_leaves_a_broker_is_sent_what_that_had_not_heard_of(
    ending: list[Step], seconds: float, protocol: str
) -> None:
    """c0 is at a new life of b0, of which b1 does not know; c1 comes from b1, which has died."""
    steps = [*ending, wait(0.1), CUT, wait(seconds), *events(0, 1, 2, 3), wait(13.0), Step("crash", (1,))]
    steps += [wait(1.0), Step("restart", (1, False)), wait(1.0), HEAL, wait(15.0)]
    found = of_two(*steps, homes=(0, 0), others=((), (1,)), protocol=protocol)
    assert (found.wrong, found.excused) == ([], {})


def test_who_was_there_all_the_time_is_told_nothing_of_a_publisher_that_moves_on_and_on() -> None:
    steps: list[Step] = []
    for broker in (0, 1, 0, 1):
        steps += [*events(0, 1, 2, 3), wait(3.0), *again(broker), wait(200.0)]
    found = outcome([*steps, *events(0, 4)], homes=(0, 2), edges=((0, 1), (1, 2), (2, 0)), others=((1,), ()))
    assert (found.wrong, found.excused) == ([], {})


# Nodes that flood, and that have all died who could have noticed


@pytest.mark.parametrize("advertisements", [True, False])
@pytest.mark.parametrize("seconds", [7.7, 40.0])
def test_flood_a_client_that_was_away_is_told_what_its_only_node_took(
    seconds: float, advertisements: bool
) -> None:
    steps = [Step("unplug", (1, 0)), *events(0, 1, 2, 3), wait(seconds), *again(0), Step("plug", (1, 0))]
    more = {"protocol": "flood", "advertisements": advertisements}
    found = outcome([*steps, wait(10.0)], homes=(0, 0), brokers=1, edges=(), **more)
    assert found.wrong == []
    assert found.excused["told"] == 3
    assert found.missed_in_vain == {}


@pytest.mark.parametrize("seconds", [5.0, 35.0])
def test_flood_a_client_is_told_what_nodes_took_that_all_died(seconds: float) -> None:
    steps = [CUT, wait(seconds), *events(0, 1, 2, 3), wait(0.1), Step("crash", (0,)), Step("crash", (1,))]
    steps += [wait(1.0), Step("restart", (0, False)), Step("restart", (1, False)), wait(5.0), HEAL]
    found = of_two(*steps, wait(10.0), protocol="flood")
    assert found.wrong == []
    assert found.excused["told"] == 3
    assert found.missed_in_vain == {}


def test_flood_those_who_were_there_are_told_what_strangers_took() -> None:
    """b1 has met nobody since it started, and c1 has been there ever since."""
    steps = [CUT, wait(5.0), Step("crash", (0,)), *again(1), Step("restart", (0, False)), wait(500.0)]
    steps += [*events(0, 1, 2, 3), wait(4.0), *again(0), wait(10.0), HEAL]
    found = of_two(*steps, wait(10.0), protocol="flood")
    assert found.wrong == []
    assert found.excused["told"] == 3


@pytest.mark.parametrize("seconds", [300.0, 800.0])
def test_flood_who_was_there_all_the_time_is_told_nothing_when_its_only_node_dies(seconds: float) -> None:
    steps = [*events(0, 1, 2, 3), wait(3.0), *again(0), wait(seconds)] * 3
    found = outcome([*steps, *events(0, 4)], homes=(0, 0), brokers=1, edges=(), protocol="flood")
    assert (found.wrong, found.missed) == ([], {})


@pytest.mark.parametrize("leaving", [[Step("unplug", (1, 2))], [Step("crash", (2,))]])
@pytest.mark.parametrize("protocol", ["trees", "flood"])
def test_who_leaves_a_broker_far_from_a_cut_is_told_what_was_missed_behind_the_cut(
    protocol: str, leaving: list[Step]
) -> None:
    """c1 goes from b2 to b1, from where b0 cannot be reached; b0 dies with what it kept."""
    steps = [CUT, *events(0, 1, 2, 3), wait(16.0), Step("crash", (0,)), wait(1.0), *leaving, wait(8.0)]
    steps += [Step("restart", (0, False)), wait(2.0), HEAL, wait(10.0)]
    back = [] if leaving[0].verb == "unplug" else [Step("restart", (2, False))]
    found = outcome([*steps, *back], homes=(0, 2), others=((), (1,)), protocol=protocol)
    assert found.wrong == []
    assert found.excused["told"] == 3
    assert found.missed_in_vain == {}


@pytest.mark.parametrize("protocol", ["trees", "flood"])
def test_a_client_far_from_a_cut_is_told_though_the_broker_at_the_cut_has_ended_too(protocol: str) -> None:
    """b0 ends with what it kept, and b1, the only one that could have noticed, before it hears of it."""
    steps = [CUT, wait(7.0), *events(0, 1, 2, 3), Step("drain", (0, 0.46)), wait(11.0)]
    found = outcome([*steps, Step("drain", (1, 1.06)), wait(3.0), HEAL], homes=(0, 2), protocol=protocol)
    assert found.wrong == []
    assert found.excused["told"] == 3


# Of what nobody knows, nobody can tell


@pytest.mark.parametrize(
    "more",
    [
        {"protocol": "flood", "gateways": (0,)},
        {"protocol": "trees", "advertisements": False, "scheme": "flooding"},
    ],
)
@pytest.mark.parametrize("is_back", [True, False])
def test_nobody_is_left_where_the_clients_broker_was_dead_when_the_publishers_died(
    is_back: bool, more: dict[str, Any]
) -> None:
    """The publisher does not report. With b1 back before b0 ends, what is kept there is sent."""
    steps = [Step("crash", (1,)), wait(20.0), *events(0, 1, 2, 3), wait(0.5)]
    back = [Step("restart", (1, False)), wait(15.0)]
    steps += [*(back if is_back else ()), Step("drain", (0, 10.91)), wait(0.5), *([] if is_back else back)]
    found = of_two(*steps, wait(30.0), **more)
    assert found.wrong == []
    assert ("nobody left" in found.excused) == (not is_back)


def test_somebody_is_left_where_the_client_of_a_dead_broker_has_gone_elsewhere() -> None:
    """b2 knows that c1 may have missed what b0 took with it."""
    steps = [Step("crash", (1,)), wait(20.0), Step("unplug", (1, 2)), wait(10.0), *events(0, 1, 2, 3)]
    steps += [wait(4.0), *again(0), wait(1.0), Step("plug", (1, 2)), wait(10.0), Step("restart", (1, False))]
    found = outcome(
        steps, homes=(0, 1), edges=((0, 1), (0, 2)), others=((), (2,)), gateways=(0,), protocol="flood"
    )
    assert found.wrong == []
    assert "nobody left" not in found.excused
