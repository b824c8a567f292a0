"""The checker finds nothing where nothing is wrong, and every mistake that is made on purpose."""

import math
from collections.abc import Sequence
from random import Random

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from penstock.filters.parsing import as_predicate
from penstock.model.events import Event
from penstock.net.torture.check import SHOWN, Verdict, check
from penstock.net.torture.plan import draw_network, draw_round
from penstock.net.torture.records import Delivered, Interest, Published, interests, wanted
from penstock.net.torture.separation import Window


class Case(msgspec.Struct):
    """A round in which all went well, to be spoilt."""

    interests: list[Interest]
    published: list[Published]
    delivered: list[Delivered]

    def judged(
        self, delivered: Sequence[Delivered], allowed: Sequence[Window] = (), *, calm: bool = False
    ) -> Verdict:
        return check(self.interests, self.published, delivered, allowed, calm=calm)

    def sorts(
        self, delivered: Sequence[Delivered], allowed: Sequence[Window] = (), *, calm: bool = False
    ) -> set[str]:
        return {text.split(":")[0] for text in self.judged(delivered, allowed, calm=calm).wrong}

    @property
    def everybodys(self) -> list[Window]:
        """Windows that excuse every loss."""
        return [Window(-math.inf, math.inf, client) for client in {wish.client for wish in self.interests}]

    def client(self, delivery: Delivered) -> int:
        return self.interests[delivery.subscription].client


def make_case(seed: int) -> Case:
    network = draw_network(seed, 7)
    plan = draw_round(network, 1, kinds=(), seconds=4, events=30)
    published: list[Published] = []
    sequences = dict.fromkeys(network.publishers, 0)
    for burst in plan.bursts:
        for event in burst.events:
            sequence = sequences[burst.publisher]
            sequences[burst.publisher] += 1
            numbered = Event({**event, "publisher": burst.publisher, "sequence": sequence, "round": 1})
            published.append(Published(burst.publisher, sequence, numbered, burst.at, burst.at + 0.1))
    wishes = interests(network, plan.filters)
    # Subscriptions get theirs at different speeds, each in order.
    queues = [
        [Delivered(wish.subscription, *one.key, one.event, one.at + 0.2) for one in wanted(wish, published)]
        for wish in wishes
    ]
    random, delivered = Random(seed), []
    while any(queues):
        delivered.append(random.choice([queue for queue in queues if queue]).pop(0))
    return Case(wishes, published, delivered)


cases = st.integers(0, 5000).map(make_case).filter(lambda case: len(case.delivered) > 3)
spots = st.floats(0, 1, exclude_max=True)


def at(spot: float, delivered: Sequence[Delivered]) -> int:
    return int(spot * len(delivered))


@pytest.mark.property
@given(cases)
def test_what_went_well_is_right(case: Case) -> None:
    verdict = case.judged(case.delivered)
    assert verdict.wrong == []
    assert verdict.expected == verdict.got == len(case.delivered)
    assert verdict.published == len(case.published)
    assert (verdict.lost_apart, verdict.duplicates, verdict.late, verdict.unsure) == (0, 0, 0, 0)


@pytest.mark.property
@given(cases, spots)
def test_a_lost_event_is_found(case: Case, spot: float) -> None:
    number = at(spot, case.delivered)
    spoilt = case.delivered[:number] + case.delivered[number + 1 :]
    verdict = case.judged(spoilt)
    lost = case.delivered[number]
    assert len(verdict.wrong) == 1
    assert verdict.wrong[0].startswith(f"lost: event {lost.sequence} of client {lost.publisher}")
    assert verdict.got == verdict.expected - 1


@pytest.mark.property
@given(cases, spots)
def test_a_lost_event_is_excused_only_while_its_publisher_and_subscriber_are_separated(
    case: Case, spot: float
) -> None:
    number = at(spot, case.delivered)
    spoilt = case.delivered[:number] + case.delivered[number + 1 :]
    lost = case.delivered[number]
    one = next(one for one in case.published if one.key == lost.key)
    subscriber = case.client(lost)
    for who in ((subscriber,), (one.publisher,), (one.publisher, subscriber), (subscriber, one.publisher)):
        for window in (Window(one.at - 1, one.at, *who), Window(one.at + 0.1, math.inf, *who)):
            verdict = case.judged(spoilt, [window])
            assert (verdict.wrong, verdict.lost_apart) == ([], 1)
    other = next(n for n in range(99) if n not in (subscriber, one.publisher))
    for window in (
        Window(0, one.at - 0.01, subscriber),
        Window(one.at + 0.11, math.inf, subscriber),
        Window(0, math.inf, other),
        Window(0, math.inf, one.publisher, other),
        Window(0, math.inf, subscriber, other),
    ):
        assert case.sorts(spoilt, [window]) == {"lost"}


@pytest.mark.property
@given(cases, spots, spots)
def test_an_event_that_comes_twice_is_found_whatever_the_windows(
    case: Case, spot: float, where: float
) -> None:
    again = case.delivered[at(spot, case.delivered)]
    place = at(where, case.delivered)
    spoilt = [*case.delivered[:place], again, *case.delivered[place:]]
    for allowed in ([], case.everybodys):
        verdict = case.judged(spoilt, allowed)
        assert verdict.duplicates == 1
        assert any(text.startswith("duplicate") for text in verdict.wrong)


@pytest.mark.property
@given(cases, spots)
def test_events_out_of_order_are_found(case: Case, spot: float) -> None:
    first = at(spot, case.delivered)
    one = case.delivered[first]
    later = [
        number
        for number, other in enumerate(case.delivered)
        if number > first and (other.subscription, other.publisher) == (one.subscription, one.publisher)
    ]
    assume(later)
    spoilt = list(case.delivered)
    spoilt[first], spoilt[later[-1]] = spoilt[later[-1]], spoilt[first]
    assert case.sorts(spoilt) == case.sorts(spoilt, case.everybodys) == {"disordered"}
    # What says of itself that it is late is no mistake after a fault; where there was none, it is.
    flagged = [
        msgspec.structs.replace(d, late=True) if number > first else d for number, d in enumerate(spoilt)
    ]
    assert case.sorts(flagged) == set()
    assert case.sorts(flagged, calm=True) == {"disordered"}


@pytest.mark.property
@given(cases, spots)
def test_an_event_that_nobody_there_wants_is_found(case: Case, spot: float) -> None:
    strangers = [
        (one, wish)
        for wish in case.interests
        for predicate in [as_predicate(wish.filter)]
        for one in case.published
        if not predicate.matches(one.event)
    ]
    assume(strangers)
    one, wish = strangers[int(spot * len(strangers))]
    spoilt = [*case.delivered, Delivered(wish.subscription, *one.key, one.event, 9.0, late=True)]
    assert "unwanted" in case.sorts(spoilt)
    assert case.sorts(spoilt, case.everybodys) == {"unwanted"}


@pytest.mark.property
@given(cases, spots)
def test_an_event_that_was_altered_or_never_published_is_found(case: Case, spot: float) -> None:
    number = at(spot, case.delivered)
    one = case.delivered[number]
    altered = msgspec.structs.replace(one, event=Event({**one.event, "x": -1}))
    assert case.sorts([*case.delivered[:number], altered, *case.delivered[number + 1 :]]) == {"altered"}
    invented = msgspec.structs.replace(one, sequence=10_000)
    assert case.sorts([*case.delivered, invented]) == {"unknown"}


@pytest.mark.property
@given(cases, spots)
def test_an_event_without_acknowledgement_may_come_or_not_but_only_in_a_window(
    case: Case, spot: float
) -> None:
    number = at(spot, case.delivered)
    one = next(one for one in case.published if one.key == case.delivered[number].key)
    one.acked = None
    spoilt = case.delivered[:number] + case.delivered[number + 1 :]
    allowed = [Window(one.at, one.at, one.publisher)]
    for delivered in (spoilt, case.delivered):
        assert case.sorts(delivered, allowed) == set()
        assert case.judged(delivered, allowed).unsure == 1
        assert case.sorts(delivered) == {"refused"}


@pytest.mark.property
@given(cases)
def test_probes_need_not_come_but_come_once(case: Case) -> None:
    for one in case.published:
        one.is_probe = True
    assert case.judged([]).wrong == []
    assert case.judged([]).expected == 0
    assert case.sorts([*case.delivered, case.delivered[-1]]) == {"duplicate"}


def test_many_mistakes_of_a_sort_are_told_shortly() -> None:
    published = [Published(0, n, Event({"x": 1}), 0.0, 0.1) for n in range(SHOWN + 5)]
    wrong = check([Interest(0, 1, "x = 1")], published, [], []).wrong
    assert len(wrong) == SHOWN + 1
    assert wrong[-1] == "lost: and 5 more"
