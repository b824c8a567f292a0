"""The detector against the reference: the same detections, in the same order, however events come."""

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.composites.detector import DETECTIONS_MAX, Detector
from penstock.composites.expression import Composite
from penstock.composites.language import parse
from penstock.composites.matches import Detection
from penstock.composites.reference import detections
from penstock.model.events import Event
from penstock.model.values import Time

SECOND = 1_000_000_000

atoms = st.sampled_from(
    ["[x = 1]", "[x = 2]", "[x >= 1 and k = $k]", "[k = $k]", "[x = $x and k = $k]", "[x < 3 and x = $k]"]
)


@st.composite
def parts(draw: st.DrawFn, depth: int = 2) -> str:
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(atoms)
    left, right = draw(parts(depth=depth - 1)), draw(parts(depth=depth - 1))
    word = draw(st.sampled_from(["and", "or", "then", "then", "then not [x = 0 and k = $k] then"]))
    window = draw(st.sampled_from(["", "", " within 3 s", " within 4 events"]))
    return f"({left} {word} {right}{window})"


@st.composite
def composites(draw: st.DrawFn) -> str:
    found = []
    for _one in range(draw(st.integers(1, 2))):
        part = f"({draw(parts())} within {draw(st.sampled_from(['2 s', '4 s', '3 events', '6 events']))})"
        if draw(st.integers(0, 2)) == 0:
            part = f"({part} then not {draw(atoms)} within {draw(st.integers(1, 4))} s)"
        found.append(part)
    return " or ".join(found) + draw(st.sampled_from(["", " each event once"]))


events = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.fixed_dictionaries(
            {}, optional={"x": st.sampled_from([0, 1, 2, 3, 1.0, True]), "k": st.sampled_from([1, 2])}
        ),
    ),
    max_size=9,
)


def in_time(steps: list[tuple[int, dict[str, object]]]) -> list[tuple[int, Event]]:
    at, found = 0, []
    for step, attributes in steps:
        at += step * SECOND
        found.append((at, Event(attributes)))
    return found


def told(found: list[Detection]) -> list[tuple[int, tuple[tuple[str, int], ...]]]:
    return [(one.at, tuple((name, happened.number) for name, happened in one.match.events)) for one in found]


def detected(composite: Composite, log: list[tuple[int, Event]], until: int) -> list[Detection]:
    detector = Detector(composite)
    found = [one for at, event in log for one in detector.take(event, at)]
    found += detector.finish(until + 1)
    assert detector.dropped == {}
    return found


@pytest.mark.property
@settings(max_examples=300)
@given(composites(), events)
def test_what_is_found_in_events_one_by_one_is_what_is_found_in_the_log(
    text: str, steps: list[tuple[int, dict[str, object]]]
) -> None:
    composite, log = parse(text), in_time(steps)
    until = (log[-1][0] if log else 0) + 100 * SECOND
    assert told(detected(composite, log, until)) == told(detections(composite, log, until))


@pytest.mark.property
@given(composites(), events, st.randoms(use_true_random=False))
def test_events_that_come_late_are_put_in_order_by_their_own_time(
    text: str, steps: list[tuple[int, dict[str, object]]], random: object
) -> None:
    timed = [
        (at, Event({**{name: event[name] for name in event}, "t": Time(at)})) for at, event in in_time(steps)
    ]
    shuffled = list(timed)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    composite = parse(f"{text} by time t late by 1000 s")
    until = (timed[-1][0] if timed else 0) + 2_000 * SECOND
    detector = Detector(composite)
    found = [one for _at, event in shuffled for one in detector.take(event, 0)]
    found += detector.finish(until + 1)
    assert told(found) == told(detections(composite, shuffled, until))


def found_in(
    text: str, *log: tuple[float, Mapping[str, object]], until: float = 100
) -> list[Mapping[str, object]]:
    composite = parse(text)
    events = [(int(at * SECOND), Event(attributes)) for at, attributes in log]
    found = detected(composite, events, int(until * SECOND))
    assert told(found) == told(detections(composite, events, int(until * SECOND)))
    return [one.event(composite) for one in found]


def test_a_sequence_with_a_variable_finds_pairs_of_the_same_value() -> None:
    pair = "[s = 1 and c = $c] as a then [s = 2 and c = $c] as b"
    text = " ".join(("select a.n as first, b.n as second, $c from", pair, "within 10 s"))
    log = [
        (0.0, {"s": 1, "c": "UA", "n": 1}),
        (1.0, {"s": 2, "c": "AA", "n": 2}),
        (2.0, {"s": 2, "c": "UA", "n": 3}),
    ]
    assert found_in(text, *log) == [{"first": 1, "second": 3, "c": "UA"}]
    assert found_in(text, *log, (11.0, {"s": 2, "c": "UA", "n": 4})) == [{"first": 1, "second": 3, "c": "UA"}]


def test_two_atoms_of_a_match_are_two_events() -> None:
    assert found_in("[x > 0] and [x > 0] within 5 s", (0, {"x": 1})) == []
    assert len(found_in("[x > 0] and [x > 0] within 5 s", (0, {"x": 1}), (1, {"x": 1}))) == 2


def test_events_of_the_same_time_follow_each_other_as_they_came() -> None:
    assert len(found_in("[x = 1] then [x = 2] within 1 s", (0, {"x": 1}), (0, {"x": 2}))) == 1
    assert found_in("[x = 1] then [x = 2] within 1 s", (0, {"x": 2}), (0, {"x": 1})) == []


def test_what_must_not_come_between_is_bound_by_the_same_variables() -> None:
    text = "[s = 1 and c = $c] then not [s = 0 and c = $c] then [s = 2 and c = $c] within 9 s"
    log = [(0, {"s": 1, "c": 1}), (1, {"s": 0, "c": 2}), (2, {"s": 2, "c": 1})]
    assert len(found_in(text, *log)) == 1
    log.insert(1, (1, {"s": 0, "c": 1}))
    assert found_in(text, *log) == []


def test_what_must_not_come_between_may_be_of_the_same_kind_as_the_ends() -> None:
    text = "[x > 0] as a then not [x > 0] then [x > 1] as b within 9 s"
    log = [(0, {"x": 1}), (1, {"x": 2}), (2, {"x": 3})]
    assert found_in(text, *log) == [{"a.x": 1, "b.x": 2}, {"a.x": 2, "b.x": 3}]


def test_that_nothing_came_is_told_when_the_time_is_over() -> None:
    text = "[s = 1] as a then not [s = 2] within 5 s"
    composite = parse(text)
    detector = Detector(composite)
    assert detector.take(Event({"s": 1}), 0) == []
    assert detector.advance(5 * SECOND) == []
    (found,) = detector.advance(5 * SECOND + 1)
    assert found.at == 5 * SECOND
    # At the end of the time itself, it still counts.
    assert found_in(text, (0, {"s": 1}), (5, {"s": 2})) == []
    assert found_in(text, (0, {"s": 1}), (5.1, {"s": 2})) == [{"a.s": 1}]


def test_each_event_once_takes_the_first_match() -> None:
    log = [(0, {"x": 1, "n": 1}), (1, {"x": 1, "n": 2}), (2, {"x": 2, "n": 3}), (3, {"x": 2, "n": 4})]
    text = "select a.n as a, b.n as b from [x = 1] as a then [x = 2] as b within 9 s"
    assert len(found_in(text, *log)) == 4
    assert found_in(f"{text} each event once", *log) == [{"a": 1, "b": 3}, {"a": 2, "b": 4}]


def test_events_that_are_too_late_or_have_no_time_are_left_out_and_counted() -> None:
    detector = Detector(parse("[x = 1] then [x = 2] within 9 s by time t late by 2 s"))
    for seconds, x in ((10, 1), (20, 2), (17, 1), (19, 1)):
        detector.take(Event({"x": x, "t": Time(seconds * SECOND)}), 0)
    detector.take(Event({"x": 1}), 0)
    assert detector.dropped == {"late": 1, "untimed": 1}
    assert [one.match.first.at for one in detector.finish()] == [19 * SECOND]


def test_state_is_bounded_and_what_is_dropped_is_counted() -> None:
    detector = Detector(parse("[x = 1] then [x = 2] within 1 d"), state_max=50)
    for at in range(200):
        assert detector.take(Event({"x": 1}), at) == []
        assert detector.state <= 50
    assert detector.dropped == {"state": 150}
    assert len(detector.take(Event({"x": 2}), 1_000)) == 50


def test_so_many_detections_are_told_of_one_event() -> None:
    detector = Detector(parse("[x = 1] then [x = 2] within 1 d"))
    for at in range(DETECTIONS_MAX + 5):
        detector.take(Event({"x": 1}), at)
    assert len(detector.take(Event({"x": 2}), 10_000)) == DETECTIONS_MAX
    assert detector.dropped == {"detections": 1}


@pytest.mark.parametrize("window", ["within 3 s", "within 5 events"])
def test_what_is_out_of_its_window_is_not_kept(window: str) -> None:
    detector = Detector(
        parse(f"([x = 1] and [x = 2] {window}) or ([x = 1] then not [x = 3] then [x = 2] {window})")
    )
    for at in range(3_000):
        detector.take(Event({"x": 1 + 2 * (at % 2)}), at * SECOND)
    assert detector.state < 300
    assert detector.dropped == {}
