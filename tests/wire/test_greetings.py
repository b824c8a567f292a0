"""How connections begin, and what clients ask, as bytes."""

import contextlib
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import WireError
from penstock.wire.frames import HELLO_BYTES_MAX, FrameReader, Kind
from penstock.wire.greetings import (
    TOKEN_LENGTH_MAX,
    Hello,
    Refused,
    Welcome,
    read_hello,
    read_refused,
    read_welcome,
    write_hello,
    write_refused,
    write_welcome,
)
from penstock.wire.requests import (
    Answer,
    Ask,
    Bye,
    Denied,
    Done,
    Notify,
    Offer,
    Rejected,
    Request,
    Traced,
    Unoffer,
    Unwant,
    Want,
    read_answer,
    read_request,
    write_answer,
    write_request,
)
from wire_cases import changed

TEXTS = st.text(max_size=20)
PRINTABLE = st.text(min_size=1, max_size=20).filter(str.isprintable)
COUNTS = st.integers(0, 2**62 - 1)
HELLOS = st.builds(
    Hello,
    version=st.integers(0, 9),
    role=st.sampled_from(("client", "broker")),
    name=PRINTABLE,
    token=TEXTS,
    session=PRINTABLE,
    received=COUNTS,
    incarnation=COUNTS,
    when_slow=st.sampled_from(("pause", "drop")),
)
WELCOMES = st.builds(
    Welcome,
    broker=PRINTABLE,
    incarnation=COUNTS,
    resumed=st.booleans(),
    received=COUNTS,
    window=st.integers(1, 2**32),
    frame_bytes=st.integers(1, 2**32),
    proof=TEXTS,
)
KEYS = st.integers(0, 2**32 - 1)
REQUESTS: st.SearchStrategy[Request] = st.one_of(
    st.builds(Want, COUNTS, KEYS, TEXTS),
    st.builds(Unwant, COUNTS, KEYS),
    st.builds(Offer, COUNTS, KEYS, TEXTS),
    st.builds(Unoffer, COUNTS, KEYS),
    st.builds(Ask, COUNTS),
    st.builds(Bye, COUNTS),
)
ANSWERS: st.SearchStrategy[Answer] = st.one_of(
    st.builds(Done, COUNTS, st.binary(max_size=9)),
    st.builds(Denied, COUNTS, TEXTS, TEXTS),
    st.builds(Rejected, KEYS, st.lists(COUNTS, max_size=3), TEXTS, TEXTS),
    st.builds(Notify, TEXTS, TEXTS, COUNTS),
    st.builds(Traced, TEXTS, st.binary(max_size=9)),
)


def payload(data: bytes, kind: Kind) -> memoryview:
    ((found, content),) = FrameReader().feed(data)
    assert found is kind
    return content


def check_changed(data: st.DataObject, encoded: bytes, read: Callable[[memoryview], object]) -> None:
    with contextlib.suppress(WireError):
        read(memoryview(data.draw(changed(encoded))))


@pytest.mark.property
@given(HELLOS)
def test_a_greeting_is_read_as_it_was_written(hello: Hello) -> None:
    assert read_hello(payload(write_hello(hello), Kind.HELLO)) == hello


@pytest.mark.property
@given(WELCOMES)
def test_a_welcome_is_read_as_it_was_written(welcome: Welcome) -> None:
    assert read_welcome(payload(write_welcome(welcome), Kind.WELCOME)) == welcome


@pytest.mark.property
@given(TEXTS, TEXTS)
def test_a_refusal_is_read_as_it_was_written(code: str, reason: str) -> None:
    assert read_refused(payload(write_refused(code, reason), Kind.REFUSED)) == Refused(code, reason)


def test_a_long_reason_still_fits_a_greeting() -> None:
    assert len(write_refused("access", "\U0010ffff" * 100_000)) < HELLO_BYTES_MAX


@pytest.mark.property
@given(HELLOS, WELCOMES, st.data())
def test_greetings_that_were_changed_are_greetings_or_wire_errors(
    hello: Hello, welcome: Welcome, data: st.DataObject
) -> None:
    check_changed(data, msgspec.msgpack.encode(hello), read_hello)
    check_changed(data, msgspec.msgpack.encode(welcome), read_welcome)
    check_changed(data, msgspec.msgpack.encode(Refused("access", "why")), read_refused)


@pytest.mark.property
@given(REQUESTS)
def test_a_request_is_read_as_it_was_written(request: Request) -> None:
    assert read_request(memoryview(write_request(request))) == request


@pytest.mark.property
@given(ANSWERS)
def test_an_answer_is_read_as_it_was_written(answer: Answer) -> None:
    assert read_answer(memoryview(write_answer(answer))) == answer


@pytest.mark.property
@given(REQUESTS, ANSWERS, st.data())
def test_requests_and_answers_that_were_changed_are_such_or_wire_errors(
    request: Request, answer: Answer, data: st.DataObject
) -> None:
    check_changed(data, write_request(request), read_request)
    check_changed(data, write_answer(answer), read_answer)


GOOD = Hello(1, "client", "me", "", "s:0", 0)


@pytest.mark.parametrize(
    "change",
    [
        {"name": ""},
        {"name": "n" * 513},
        {"name": "a\nb"},
        {"name": "\x1b[31m"},
        {"session": ""},
        {"session": "s" * 513},
        {"session": "\0"},
        {"token": "t" * (TOKEN_LENGTH_MAX + 1)},
        {"received": -1},
        {"incarnation": -1},
        {"incarnation": 2**62},
        {"role": "root"},
        {"when_slow": "never"},
        {"version": None},
        {"version": 1.0},
    ],
)
def test_a_greeting_that_cannot_be_is_refused(change: dict[str, Any]) -> None:
    hello = msgspec.structs.replace(GOOD, **change)
    with pytest.raises(WireError):
        read_hello(memoryview(msgspec.msgpack.encode(hello)))


@pytest.mark.parametrize(
    "change",
    [
        {"broker": ""},
        {"broker": "b" * 513},
        {"broker": "a\nb"},
        {"received": -1},
        {"incarnation": -1},
        {"window": 0},
        {"window": -1},
        {"frame_bytes": 0},
        {"frame_bytes": 2**40},
    ],
)
def test_a_welcome_that_cannot_be_is_refused(change: dict[str, Any]) -> None:
    welcome = msgspec.structs.replace(Welcome("b", 1, False, 0, 2**20, 2**20, ""), **change)
    with pytest.raises(WireError):
        read_welcome(memoryview(msgspec.msgpack.encode(welcome)))


@pytest.mark.parametrize(
    "plain",
    [
        [],
        ["want"],
        ["want", 1, -1, "x > 1"],
        ["want", 1, 2**32, "x > 1"],
        ["want", -1, 1, "x > 1"],
        ["want", 2**62, 1, "x > 1"],
        ["want", 1, 1, 5],
        ["want", 1, 1, "x > 1", "more"],
        ["ask", 1, "secrets"],
        ["done", 1, b""],
        ["publish", 1, {}],
        {"type": "bye"},
        5,
    ],
)
def test_what_is_no_request_is_refused(plain: object) -> None:
    with pytest.raises(WireError):
        read_request(memoryview(msgspec.msgpack.encode(plain)))
