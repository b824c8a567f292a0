"""Messages between brokers as bytes."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import WireError
from penstock.filters.expression import normalise
from penstock.filters.parsing import parse
from penstock.model.limits import TEXT_LENGTH_MAX
from penstock.wire.codec import Codec, Returned, TraceReport
from penstock.wire.messages import (
    Advertise,
    Alive,
    Control,
    Lost,
    Message,
    Resync,
    Subscribe,
    Sync,
    Unadvertise,
    Unreachable,
    Unsubscribe,
)
from strategies import mixed
from wire_cases import changed

CODEC = Codec((Control, Sync, Resync, Alive))
PREDICATES = mixed(complete=False).map(normalise)
NUMBERS = st.integers(-(2**63), 2**63 - 1)
NAMES = st.text(max_size=12)
KEYS = st.one_of(NAMES, NUMBERS)
SESSIONS = st.tuples(NUMBERS, NUMBERS)
ADVERTISEMENTS = st.builds(Advertise, NAMES, PREDICATES, NUMBERS)
SUBSCRIPTIONS = st.builds(
    Subscribe, KEYS, PREDICATES, st.frozensets(NAMES, max_size=3), st.lists(KEYS, max_size=2).map(tuple)
)
BODIES = st.one_of(
    ADVERTISEMENTS,
    SUBSCRIPTIONS,
    st.builds(Unsubscribe, KEYS),
    st.builds(Unadvertise, NAMES),
    st.builds(Unreachable, NAMES),
    st.builds(Lost, NAMES, SESSIONS, st.lists(st.tuples(NAMES, NUMBERS), max_size=3).map(tuple)),
)
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(Control, SESSIONS, NUMBERS, st.lists(BODIES, max_size=4).map(tuple)),
    st.builds(
        Sync,
        SESSIONS,
        NUMBERS,
        st.lists(ADVERTISEMENTS, max_size=3).map(tuple),
        st.lists(SUBSCRIPTIONS, max_size=3).map(tuple),
    ),
    st.builds(Alive, SESSIONS, NUMBERS),
    st.builds(Resync),
    st.builds(Returned, NUMBERS),
    st.builds(TraceReport, NAMES, st.binary(max_size=20)),
)


@pytest.mark.property
@given(MESSAGES)
def test_what_is_written_is_read_as_the_same(message: Message) -> None:
    assert CODEC.read(memoryview(CODEC.write(message))) == message


@pytest.mark.property
@given(MESSAGES, st.data())
def test_bytes_that_were_changed_are_a_message_or_a_wire_error(message: Message, data: st.DataObject) -> None:
    try:
        read = CODEC.read(memoryview(data.draw(changed(CODEC.write(message)))))
    except WireError:
        return
    # What was accepted can be passed on, and means the same there.
    assert CODEC.read(memoryview(CODEC.write(read))) == read


PLAIN = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(),
        st.binary(max_size=4),
        st.sampled_from(
            ("control", "sync", "alive", "resync", "returned", "tracereport", "subscribe", "lost", "x > 1")
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=5), st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=12,
)


@pytest.mark.property
@given(PLAIN)
def test_anything_else_is_a_wire_error_or_one_of_the_messages(plain: object) -> None:
    try:
        read = CODEC.read(memoryview(msgspec.msgpack.encode(plain)))
    except WireError:
        return
    assert isinstance(read, Control | Sync | Resync | Alive | Returned | TraceReport)


@pytest.mark.parametrize(
    "plain",
    [
        [],
        ["resync", 1],
        ["nothing"],
        [["control"]],
        ["alive", [1], 1],
        ["alive", [1, 2], True],
        ["alive", [1, 2], 1.0],
        ["alive", "12", 1],
        ["control", [1, 2], 1, [["subscribe", "k", "x >", [], []]]],
        ["control", [1, 2], 1, [["subscribe", 5.5, "x > 1", [], []]]],
        ["control", [1, 2], 1, [["subscribe", "k", "x > 1", [5], []]]],
        ["control", [1, 2], 1, [["subscribe", ["x > 1", "x > 2"], "x > 1", [], []]]],
        ["control", [1, 2], 1, [["subscribe", "k", "x > 1", "ab", 5]]],
        ["control", [1, 2], 1, ["resync"]],
        ["control", [1, 2], 1, 5],
        ["sync", [1, 2], 1, [[]], []],
        ["sync", [1, 2], 1, [], [], "3"],
        ["advertise", "t", "true", 0],
        ["tracereport", "t", 5],
        ["returned", "1"],
        ["returned", None],
    ],
)
def test_what_is_no_message_is_refused(plain: object) -> None:
    with pytest.raises(WireError):
        CODEC.read(memoryview(msgspec.msgpack.encode(plain)))


def test_a_message_that_is_nested_deeply_is_refused() -> None:
    with pytest.raises(WireError):
        CODEC.read(memoryview(b"\x91" * 100_000))


def test_a_filter_beyond_the_limits_is_refused() -> None:
    plain = ["control", [1, 2], 1, [["advertise", "t", "x = 1" + " " * TEXT_LENGTH_MAX, 0]]]
    with pytest.raises(WireError, match="TEXT_LENGTH_MAX"):
        CODEC.read(memoryview(msgspec.msgpack.encode(plain)))


def test_a_large_filter_is_read_as_it_was_written() -> None:
    message = Advertise("t", parse(" and ".join(f"(a{n} = 1 or b{n} < 2)" for n in range(8))))
    control = Control((1, 2), 3, (message,))
    assert CODEC.read(memoryview(CODEC.write(control))) == control
