"""The checker finds nothing where nothing is wrong, and every mistake that is made on purpose."""

from collections.abc import Sequence
from random import Random

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from penstock.filters.parsing import as_predicate
from penstock.model.events import Event
from penstock.net.torture.check import SHOWN, Verdict, check
from penstock.net.torture.excuses import ACK_MAX, Excuses, Happened
from penstock.net.torture.faults import Fault
from penstock.net.torture.figures import ALL, CALM
from penstock.net.torture.networks import Network, draw_network
from penstock.net.torture.plan import draw_round
from penstock.net.torture.records import Delivered, Interest, Published, Told, interests, wanted


class Case(msgspec.Struct):
    """A round in which all went well, to be spoilt."""

    network: Network
    interests: list[Interest]
    published: list[Published]
    delivered: list[Delivered]

    def judged(
        self,
        delivered: Sequence[Delivered],
        told: Sequence[Told] = (),
        happened: Sequence[Happened] = (),
        *,
        calm: bool = False,
    ) -> Verdict:
        excuses = Excuses(self.network, happened, told)
        return check(self.interests, self.published, delivered, excuses, calm=calm)

    def sorts(
        self, delivered: Sequence[Delivered], told: Sequence[Told] = (), *, calm: bool = False
    ) -> set[str]:
        return {text.split(":")[0] for text in self.judged(delivered, told, calm=calm).wrong}

    @property
    def everybody(self) -> list[Told]:
        """Notices that excuse every loss."""
        return [Told(99.0, client, "missed", 999) for client in {wish.client for wish in self.interests}]

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
    return Case(network, wishes, published, delivered)


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
    assert (verdict.lost, verdict.told, verdict.duplicates, verdict.late, verdict.unacknowledged) == (0,) * 5


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
    assert verdict.lost == verdict.rows[ALL].lost == verdict.rows[CALM].lost == 1


@pytest.mark.property
@given(cases, spots)
def test_a_lost_event_is_excused_only_if_its_subscriber_is_told(case: Case, spot: float) -> None:
    number = at(spot, case.delivered)
    spoilt = case.delivered[:number] + case.delivered[number + 1 :]
    lost = case.delivered[number]
    one = next(one for one in case.published if one.key == lost.key)
    subscriber = case.client(lost)
    verdict = case.judged(spoilt, [Told(one.at, subscriber, "missed", 1)])
    assert (verdict.wrong, verdict.told, verdict.rows[ALL].told, verdict.lost) == ([], 1, 1, 0)
    assert (verdict.missed_notices, verdict.missed_in_vain) == (1, 0)
    # Who is told of a number that nobody knows, or is dropped, may have missed any.
    assert case.sorts(spoilt, [Told(one.at, subscriber, "missed", 0)]) == set()
    assert case.sorts(spoilt, [Told(one.at, subscriber, "dropped", 0)]) == set()
    other = next(n for n in range(99) if n not in (subscriber, one.publisher))
    for told in (
        Told(one.at - 0.01, subscriber, "missed"),
        Told(one.at, other, "missed"),
        Told(one.at, subscriber, "slow"),
    ):
        assert case.sorts(spoilt, [told]) == {"lost"}
    assert case.judged(spoilt, [Told(one.at, other, "missed")]).missed_in_vain == 1


@pytest.mark.property
@given(cases, spots)
def test_a_slow_acknowledgement_is_found_unless_the_network_suffers(case: Case, spot: float) -> None:
    one = case.published[int(spot * len(case.published))]
    one.acked = one.at + ACK_MAX + 1
    verdict = case.judged(case.delivered)
    assert {text.split(":")[0] for text in verdict.wrong} == {"held"}
    assert verdict.rows[ALL].longest_ack_s == pytest.approx(ACK_MAX + 1)
    for kind, on, sorts in (("pause", "broker", 0), ("manual", "broker", 1), ("hostile", "broker", 1)):
        fault = Happened(Fault(kind, on, 0, 0.0, 60.0), 0.0, 60.0)
        verdict = case.judged(case.delivered, happened=[fault])
        assert len(verdict.wrong) == sorts
        assert verdict.rows[kind].longest_ack_s == pytest.approx(ACK_MAX + 1)
        assert verdict.rows[kind].faults == verdict.rows[ALL].faults == 1


@pytest.mark.property
@given(cases, spots, spots)
def test_an_event_that_comes_twice_is_found_whoever_is_told(case: Case, spot: float, where: float) -> None:
    again = case.delivered[at(spot, case.delivered)]
    place = at(where, case.delivered)
    spoilt = [*case.delivered[:place], again, *case.delivered[place:]]
    for told in ([], case.everybody):
        verdict = case.judged(spoilt, told)
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
    assert case.sorts(spoilt) == case.sorts(spoilt, case.everybody) == {"disordered"}
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
    rows = case.judged(spoilt).rows[ALL]
    assert (rows.late, rows.longest_gap_s) == (0, case.judged(case.delivered).rows[ALL].longest_gap_s)
    assert case.judged(spoilt).unwanted == 1
    assert case.sorts(spoilt, case.everybody) == {"unwanted"}


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
def test_an_event_without_acknowledgement_may_come_or_not_but_is_found(case: Case, spot: float) -> None:
    number = at(spot, case.delivered)
    one = next(one for one in case.published if one.key == case.delivered[number].key)
    one.acked = None
    spoilt = case.delivered[:number] + case.delivered[number + 1 :]
    for delivered in (spoilt, case.delivered):
        assert case.judged(delivered).unacknowledged == 1
        assert case.sorts(delivered, case.everybody) == {"refused"}


@pytest.mark.property
@given(cases, spots, st.floats(1, 50))
def test_a_gap_is_as_long_as_nothing_came_though_something_was_there(
    case: Case, spot: float, length: float
) -> None:
    came = [delivery.at for delivery in case.delivered]
    last = max(one.at for one in case.published)
    assert case.judged(case.delivered).rows[ALL].longest_gap_s <= 0.2 + 1e-9
    # From then on all stand still for a while.
    stop = spot * last
    held = [msgspec.structs.replace(d, at=d.at + last + length) if d.at > stop else d for d in case.delivered]
    gap = case.judged(held).rows[ALL].longest_gap_s
    assert (gap >= length) == any(at > stop for at in came)
    assert gap <= last + length + 0.2 + 1e-9


def test_an_event_counts_for_each_kind_of_fault_while_it_was_under_way() -> None:
    case = make_case(1)
    first, last = (find(one.at for one in case.published) for find in (min, max))
    happened = [
        Happened(Fault("kill", "broker", 0, 0, 1), first, last),
        Happened(Fault("lag", "link", 0, 0, 1), first, last),
        Happened(Fault("short", "link", 0, 0, 1), last + 50, last + 51),
    ]
    rows = case.judged(case.delivered, happened=happened).rows
    assert rows["kill"].wanted == rows["lag"].wanted == rows[ALL].wanted == len(case.delivered)
    assert (rows["short"].wanted, rows["short"].faults, rows[ALL].faults) == (0, 1, 3)
    assert CALM not in rows


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
    excuses = Excuses(draw_network(1, 7))
    wrong = check([Interest(0, 1, "x = 1")], published, [], excuses).wrong
    assert len(wrong) == SHOWN + 1
    assert wrong[-1] == "lost: and 5 more"
