"""Frames: cut out of a stream of bytes, however it was cut before."""

import itertools
from binascii import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import WireError
from penstock.wire.frames import HELLO_BYTES_MAX, DamagedError, FrameReader, Kind, frame

FRAMES = st.lists(st.tuples(st.sampled_from(Kind), st.binary(max_size=300)), max_size=8)
UNKNOWN = frame(99, b"")  # type: ignore[arg-type]
BROKEN = st.sampled_from([b"", bytes(12), UNKNOWN, b"\xff" * 12, b"GET / HTTP/1.1\r\n", b"\0\1"])

Heard = tuple[list[tuple[Kind, bytes]], bool]


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    bounds = [0, *sorted({cut % (len(data) + 1) for cut in cuts}), len(data)]
    return [data[at:end] for at, end in itertools.pairwise(bounds)]


def read(parts: list[bytes], limit: int = HELLO_BYTES_MAX) -> Heard:
    """The frames of a stream that comes in parts, and whether an error ended it."""
    reader = FrameReader(limit)
    found: list[tuple[Kind, bytes]] = []
    try:
        for part in parts:
            frames = reader.feed(part)
            while frames:
                found += [(kind, bytes(payload)) for kind, payload in frames]
                frames = reader.feed()
    except WireError:
        return found, True
    return found, False


@pytest.mark.property
@given(FRAMES, BROKEN, st.lists(st.integers(0, 4000), max_size=12))
def test_any_split_of_a_stream_gives_the_same_frames_and_the_same_end(
    frames: list[tuple[Kind, bytes]], after: bytes, cuts: list[int]
) -> None:
    data = b"".join(frame(kind, payload) for kind, payload in frames) + after
    assert read(pieces(data, cuts)) == read([data]) == (frames, after not in (b"", b"\0\1"))


@pytest.mark.property
@given(FRAMES)
def test_it_makes_no_difference_if_the_bytes_come_one_by_one(frames: list[tuple[Kind, bytes]]) -> None:
    data = b"".join(frame(kind, payload[:5], payload[5:]) for kind, payload in frames)
    assert read([data[at : at + 1] for at in range(len(data))]) == (frames, False)


@pytest.mark.property
@given(st.binary(max_size=400), st.lists(st.integers(0, 400), max_size=8), st.integers(1, 64))
def test_any_bytes_are_frames_or_a_wire_error(data: bytes, cuts: list[int], limit: int) -> None:
    frames, failed = read(pieces(data, cuts), limit)
    assert (frames, failed) == read([data], limit)
    assert all(len(payload) <= limit for _kind, payload in frames)


@pytest.mark.property
@given(FRAMES.filter(bool), st.data())
def test_a_flipped_bit_is_noticed_wherever_it_is(
    frames: list[tuple[Kind, bytes]], data: st.DataObject
) -> None:
    sent = b"".join(frame(kind, payload) for kind, payload in frames)
    bit = data.draw(st.integers(0, 8 * len(sent) - 1))
    changed = bytearray(sent)
    changed[bit // 8] ^= 1 << (bit % 8)
    found, failed = read([bytes(changed)])
    assert failed
    assert found == frames[: len(found)]
    assert len(found) < len(frames)


@pytest.mark.parametrize("length", [HELLO_BYTES_MAX + 1, 2**31, 2**32 - 1])
def test_a_length_that_cannot_be_is_refused_before_anything_follows_it(length: int) -> None:
    head = (length << 8 | Kind.HELLO).to_bytes(5, "big")
    with pytest.raises(WireError, match=f"a frame of {length:,} bytes: at most"):
        FrameReader().feed(head + (crc32(head) & 0xFFFFFF).to_bytes(3, "big") + bytes(4))


@pytest.mark.parametrize("bit", range(32))
def test_a_wrong_length_is_noticed_before_anything_is_waited_for(bit: int) -> None:
    data = bytearray(frame(Kind.EVENTS, bytes(1000)))
    data[bit // 8] ^= 1 << (bit % 8)
    with pytest.raises(DamagedError):
        FrameReader(2**32).feed(bytes(data[:12]))


def test_the_longest_frame_is_accepted() -> None:
    payload = bytes(HELLO_BYTES_MAX)
    assert read([frame(Kind.HELLO, payload)]) == ([(Kind.HELLO, payload)], False)


def test_no_more_is_kept_than_of_one_frame() -> None:
    reader = FrameReader(1000)
    whole = frame(Kind.EVENTS, bytes(900))
    for _ in range(50):
        reader.feed(whole[:500])
        reader.feed(whole[500:] + whole[:100])
        assert sum(map(len, reader._parts)) <= 1012
        reader.feed(whole[100:])
        assert not reader._parts


def test_a_frame_may_let_the_next_one_be_longer_though_they_come_together() -> None:
    reader = FrameReader(100)
    data = frame(Kind.WELCOME, b"come in") + frame(Kind.EVENTS, bytes(500)) + frame(Kind.ACK)
    ((kind, _payload),) = reader.feed(data)
    assert kind is Kind.WELCOME
    reader.limit = 1000
    assert [kind for kind, _payload in reader.feed()] == [Kind.EVENTS, Kind.ACK]


def test_without_leave_the_longer_one_is_an_error() -> None:
    reader = FrameReader(100)
    reader.feed(frame(Kind.WELCOME, b"come in") + frame(Kind.EVENTS, bytes(500)))
    with pytest.raises(WireError, match="a frame of 500 bytes: at most 100"):
        reader.feed()
