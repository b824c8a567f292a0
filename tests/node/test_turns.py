"""Filters of clients take turns: what one subject sends costs others no time, and itself only its filters."""

from typing import Any

import pytest

from node_cases import FakeWorld
from penstock.broker.grants import EVERYTHING
from penstock.model.schema import Schema
from penstock.node import asking, turns
from penstock.wire.frames import Kind
from penstock.wire.messages import Subscribe
from penstock.wire.requests import (
    Ask,
    Bye,
    Denied,
    Done,
    Offer,
    Rejected,
    Unoffer,
    Unwant,
    Want,
)
from turns_cases import Busy, Case, Client

DEAR = "x = 1 or y = 1"
"""A filter that is not plain, and so is parsed elsewhere."""
PLAIN = "x = 1"


# What waits, and what does not


def test_a_filter_that_is_not_plain_is_parsed_elsewhere_and_everything_else_goes_on() -> None:
    case = Case()
    eve, ann, bob = Client(case, "eve", "eve"), Client(case, "ann", "ann"), Client(case, "bob", "bob")
    ann.ask(Offer(1, 1, "x >= 0"))
    bob.ask(Want(1, 1, "x >= 0"))
    eve.ask(Offer(1, 1, "x >= 0"), Want(2, 2, DEAR))
    assert case.computing == 1
    assert eve.answered == [1]
    # Others subscribe and publish, and so does who sent it.
    case.world.run(2)
    ann.publish(1, 1)
    eve.publish(1, 1, 2)
    bob.ask(Want(2, 2, "x = 2"))
    case.world.run(1)
    assert bob.got == [1, 1, 2]
    assert bob.answered == [1, 2]
    case.finish()
    assert eve.answered == [1, 2]


@pytest.mark.parametrize("operator", ["like", "ilike", "rlike"])
def test_a_filter_with_a_pattern_is_not_plain(operator: str) -> None:
    assert not asking.is_plain(f"x > 1 and s {operator} 'a'")


def test_what_has_to_fit_a_schema_is_compared_with_it_elsewhere_and_counted_to_its_subject() -> None:
    case = Case(schema=Schema.from_json({"properties": {"amount": {"type": "number"}}}))
    eve, ann = Client(case, "eve", "eve"), Client(case, "ann", "ann")
    eve.ask(Want(1, 1, "amuont > 5"), Want(2, 2, "amuont > 6"))
    ann.ask(Want(1, 1, "amount > 5"))
    assert case.computing == 1
    assert eve.answered == ann.answered == []
    # What took so long is made up for, and others are served meanwhile.
    case.finish(seconds=2.0)
    (denied,) = [answer for answer in eve.answers if isinstance(answer, Denied)]
    assert denied.code == "filter"
    assert "did you mean 'amount'?" in denied.reason
    case.world.run(turns.REST_MAX)
    case.finish()
    assert ann.answered == [1]
    case.world.run(1)
    assert case.computing == 0
    assert eve.answered == [1]
    assert case.runtime.counts["refused"] == 1


def test_requests_of_one_client_are_served_and_answered_in_their_order() -> None:
    case = Case()
    eve = Client(case, "eve", "eve")
    eve.ask(Want(1, 1, DEAR), Unwant(2, 1), Want(3, 1, PLAIN), Ask(4), Want(5, 2, DEAR), Unwant(6, 2))
    assert eve.answered == []
    case.finish()
    assert eve.answered == [1, 2, 3, 4]
    case.finish()
    assert eve.answered == [1, 2, 3, 4, 5, 6]
    (client,) = case.runtime.core.client(next(iter(case.runtime.links))).subscriptions
    assert client == 1


def test_events_under_an_advertisement_that_waits_wait_for_it_and_keep_their_order() -> None:
    case = Case()
    case.world.run(2)
    eve, bob = Client(case, "eve", "eve"), Client(case, "bob", "bob")
    bob.ask(Want(1, 1, "x >= 0"))
    eve.ask(Offer(1, 1, "x >= 0 or y >= 0"))
    eve.publish(1, 1, 2)
    eve.publish(1, 3)
    case.world.run(5)
    assert bob.got == []
    assert not [answer for answer in eve.answers if isinstance(answer, Rejected)]
    case.finish()
    eve.publish(1, 4)
    case.world.run(1)
    assert bob.got == [1, 2, 3, 4]


def test_events_after_a_withdrawal_that_waits_are_not_published_under_what_was_withdrawn() -> None:
    case = Case()
    case.world.run(2)
    eve, bob = Client(case, "eve", "eve"), Client(case, "bob", "bob")
    bob.ask(Want(1, 1, "x >= 0"))
    eve.ask(Offer(1, 1, "x >= 0"))
    eve.publish(1, 1)
    eve.ask(Want(2, 1, DEAR), Unoffer(3, 1))
    eve.publish(1, 2)
    case.world.run(1)
    case.finish()
    case.world.run(1)
    assert bob.got == [1]
    assert [answer.numbers for answer in eve.answers if isinstance(answer, Rejected)] == [[2]]


def test_who_says_goodbye_is_not_waited_for() -> None:
    case = Case()
    eve, ann = Client(case, "eve", "eve"), Client(case, "ann", "ann")
    eve.ask(*(Want(n, n, DEAR) for n in range(1, 10)), Bye(10))
    ann.ask(Want(1, 1, DEAR))
    assert 10 in eve.answered
    case.finish()
    case.finish()
    assert case.computing == 0
    assert ann.answered == [1]


def test_a_link_that_ends_takes_its_requests_with_it() -> None:
    case = Case()
    eve, ann = Client(case, "eve", "eve"), Client(case, "ann", "ann")
    eve.ask(*(Want(n, n, DEAR) for n in range(1, 10)))
    ann.ask(Want(1, 1, DEAR))
    link = next(link for link in case.runtime.links.values() if link.peer == "eve")
    case.runtime.end(link, case.world.now, failed=True)
    case.finish()
    case.finish()
    assert case.computing == 0
    assert ann.answered == [1]


def test_what_waits_is_acknowledged_when_it_is_served_so_that_a_window_bounds_it() -> None:
    case = Case()
    eve = Client(case, "eve", "eve")
    eve.ask(*(Want(n, n, DEAR) for n in range(1, 4)))
    assert eve.acked == 0
    case.finish()
    assert eve.acked == 1
    limits = Case(window_bytes=2**16, frame_bytes=2**16)
    mallory = Client(limits, "mallory", "mallory")
    long = f"x = '{'a' * 30_000}' or y = 1"
    for n in range(1, 10):
        mallory.ask(Want(n, n, long))
    assert [kind for kind, _data in mallory.heard][-1] is Kind.REFUSED
    assert not limits.runtime.links


def test_requests_that_wait_make_nobody_else_slow() -> None:
    case = Case(window_bytes=2**16, frame_bytes=2**16)
    eve = Client(case, "eve", "eve")
    for n in range(1, 4):
        eve.ask(Want(n, n, f"x = '{'a' * 30_000}' or y = 1"))
    case.runtime.tick(case.world.now)
    assert not case.runtime._watch._is_held_up


def test_a_filter_that_cannot_be_parsed_or_is_not_granted_is_refused() -> None:
    case = Case()
    eve = Client(case, "eve", "eve:x >= 0")
    eve.ask(Want(1, 1, "x = 1 or ("), Want(2, 2, "x = 1 or y = 1"), Want(3, 3, "x = 1 or x = 2"))
    for _ in range(3):
        case.finish()
    assert [(type(answer), getattr(answer, "code", "")) for answer in eve.answers] == [
        (Denied, "filter"),
        (Denied, "access"),
        (Done, ""),
    ]


def test_a_mistake_of_ours_in_a_filter_ends_its_client_and_nobody_else(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    case = Case()
    eve, ann = Client(case, "eve", "eve"), Client(case, "ann", "ann")

    def fail(_text: str) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(asking, "parse", fail)
        eve.ask(Want(1, 1, DEAR), Want(2, 2, DEAR))
        ann.ask(Want(1, 1, DEAR))
        case.finish()
    case.finish()
    assert [kind for kind, _data in eve.heard][-1] is Kind.REFUSED
    assert ann.answered == [1]
    assert "led to an error" in caplog.text


# Turns and accounts


def test_subjects_take_turns_however_many_filters_and_connections_each_has() -> None:
    case = Case()
    eves = [Client(case, f"eve{n}", "eve") for n in range(5)]
    ann, bob = Client(case, "ann", "ann"), Client(case, "bob", "bob")
    for eve in eves:
        eve.ask(*(Want(n, n, DEAR) for n in range(1, 100)))
    ann.ask(Want(1, 1, DEAR), Want(2, 2, DEAR))
    bob.ask(Want(1, 1, DEAR))
    for _ in range(6):
        case.finish()
    assert ann.answered == [1, 2]
    assert bob.answered == [1]
    # The first was eve's before anybody else came; then one of hers for each of others.
    assert sum(len(eve.answered) for eve in eves) == 3


def test_who_has_used_much_waits_with_filters_only_and_others_do_not() -> None:
    case = Case()
    case.world.run(2)
    eve, other, ann = Client(case, "eve", "eve"), Client(case, "eve2", "eve"), Client(case, "ann", "ann")
    ann.ask(Want(1, 1, "x >= 0"), Offer(2, 1, "x >= 0"))
    eve.ask(Offer(1, 1, "x >= 0"), Want(2, 2, DEAR), Want(3, 3, DEAR))
    case.finish(seconds=1.0)
    assert eve.answered == [1, 2]
    assert case.computing == 0
    # Neither the same filter on another connection of hers, nor a plain one, is looked at now.
    other.ask(Want(1, 1, PLAIN))
    eve.publish(1, 1, 2)
    ann.publish(1, 7)
    ann.ask(Want(3, 2, DEAR))
    case.world.run(turns.REST_MAX)
    case.finish()
    assert ann.answered == [1, 2, 3]
    assert ann.got == [1, 2, 7]
    assert eve.acked >= 2
    case.world.run(turns.DEAR_FACTOR * 1.0 - turns.ALLOWANCE - turns.REST_MAX - 0.1)
    assert (case.computing, other.answered) == (0, [])
    case.world.run(0.2)
    assert case.computing == 1
    case.finish()
    assert eve.answered == [1, 2, 3]
    assert other.answered == [1]


def test_filters_of_all_subjects_together_are_parsed_a_tenth_of_the_time_at_most() -> None:
    case = Case()
    clients = [Client(case, f"c{n}", f"subject{n}") for n in range(20)]
    for client in clients:
        client.ask(Want(1, 1, DEAR))
    cost = 0.008
    for done in range(1, 21):
        assert case.computing == 1
        case.world.run(cost)
        case.finish(seconds=cost)
        assert case.computing == 0
        assert sum(len(client.answered) for client in clients) == done
        case.world.run(cost * (turns.REST_FACTOR - 0.1))
        assert case.computing == 0
        case.world.run(cost * 0.2)


def test_a_filter_that_was_parsed_with_pauses_has_less_of_a_rest_after_it() -> None:
    case = Case()
    for n in range(3):
        Client(case, f"c{n}", f"subject{n}").ask(Want(1, 1, DEAR))
    cost = 0.008
    case.finish(seconds=cost, rested=cost * turns.REST_FACTOR / 2)
    case.world.run(cost * (turns.REST_FACTOR / 2 - 0.1))
    assert case.computing == 0
    case.world.run(cost * 0.2)
    assert case.computing == 1
    case.finish(seconds=cost, rested=2 * cost * turns.REST_FACTOR)
    case.world.run(0.0)
    assert case.computing == 1


def test_a_process_that_was_paused_punishes_nobody() -> None:
    case = Case()
    eve = Client(case, "eve", "eve")
    eve.ask(Want(1, 1, DEAR))
    # Stopped for 20 s by somebody else, it has worked for a millisecond.
    case.world.now += 20
    case.finish(seconds=0.001)
    eve.ask(Want(2, 2, PLAIN), Want(3, 3, DEAR))
    assert eve.answered == [1, 2]
    case.finish()
    assert eve.answered == [1, 2, 3]


def test_many_cheap_filters_are_not_taken_for_expensive_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case()
    assert isinstance(case.world, Busy)
    eve = Client(case, "eve", "eve")
    world = case.world
    handle = case.runtime.handle

    def slow(*given: Any) -> Any:
        world.worked += 0.001
        return handle(*given)

    monkeypatch.setattr(case.runtime, "handle", slow)
    began = world.now
    eve.ask(*(Want(n, n, PLAIN) for n in range(1, 2_001)))
    while len(eve.answered) < 2_000:
        world.run(0.1)
    # Two seconds of work take about two more, and not eighteen.
    assert 1.5 < world.now - began < 3


@pytest.mark.parametrize(
    ("first", "second", "is_shared"),
    [
        (("eve", "10.0.0.1"), ("eve", "10.0.0.2"), True),
        (("eve", "10.0.0.1"), ("ann", "10.0.0.1"), False),
        (("", "10.0.0.1"), ("", "10.0.0.1"), True),
        (("", "10.0.0.1"), ("", "10.0.0.2"), False),
        (("", "127.0.0.1"), ("", "127.0.0.1"), False),
        (("", ""), ("", ""), False),
    ],
)
def test_costs_are_counted_to_a_subject_or_to_an_address_or_on_this_machine_to_a_client(
    first: tuple[str, str], second: tuple[str, str], is_shared: bool
) -> None:
    case = Case()
    for n, (token, address) in enumerate((first, second)):
        Client(case, f"c{n}", token, address)
    payers = {link.payer for link in case.runtime.links.values()}
    assert (len(payers) == 1) is is_shared


def test_accounts_of_those_who_owe_nothing_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_ACCOUNTS_MAX", 5)
    case = Case()
    for n in range(20):
        client = Client(case, f"c{n}", f"c{n}")
        client.ask(Want(1, 1, DEAR))
        case.finish()
        case.world.run(1)
    assert len(case.runtime.turns._accounts) <= 5


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("origin = 'JFK' and dep_delay > 60", True),
        ("x in (1, 2, 3) and y between 1 and 2 and ornithology = 1", True),
        ("x = 1 or y = 2", False),
        ("x = 1 OR y = 2", False),
        ("not x = 1", False),
        ("s like '%a%'", False),
        ("x = " + "1" * 2_000, False),
    ],
)
def test_what_has_alternatives_negations_or_patterns_is_not_plain(text: str, plain: bool) -> None:
    assert asking.is_plain(text) is plain


def test_under_virtual_time_everything_is_served_at_once() -> None:
    case = Case(FakeWorld())
    eve = Client(case, "eve", "eve")
    eve.ask(*(Want(n, n, DEAR) for n in range(1, 500)))
    case.world.run(1)
    assert eve.answered == list(range(1, 500))


def test_a_filter_that_is_parsed_elsewhere_still_says_how_long_nothing_was_heard() -> None:
    message = asking.prepared(Want(1, 2, "x = 1 or y = 2", 7.5), EVERYTHING)
    assert isinstance(message, Subscribe)
    assert message.seconds == 7.5
