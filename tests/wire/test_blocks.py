"""Blocks of events as bytes."""

from itertools import accumulate, pairwise

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import WireError
from penstock.model.events import Event
from penstock.wire.blocks import EVENTS_MAX, Block, Header
from penstock.wire.messages import Publish

HEADERS = st.builds(
    Header,
    tree=st.text(max_size=20),
    origin=st.text(max_size=20),
    hops=st.integers(0, 255),
    rescued=st.integers(0, 2**62),
    trace=st.text(max_size=20),
)


@st.composite
def blocks(draw: st.DrawFn) -> Block:
    events = draw(st.lists(st.binary(min_size=1, max_size=30), min_size=1, max_size=8))
    first = draw(st.integers(1, 2**62 - 1))
    steps = draw(st.lists(st.integers(1, 2**20), min_size=len(events) - 1, max_size=len(events) - 1))
    block = Block.of(draw(HEADERS), list(accumulate(steps, initial=first)), events)
    if draw(st.booleans()):
        of_each = draw(
            st.lists(
                st.lists(st.integers(0, 2**32 - 1), max_size=3), min_size=len(events), max_size=len(events)
            )
        )
        keys = np.array([key for own in of_each for key in own], np.int64)
        block = block.with_keys(keys, np.cumsum([0, *map(len, of_each)], dtype=np.int64))
    return block


@st.composite
def singles(draw: st.DrawFn) -> tuple[Block, Block]:
    """A block of one event twice: as it is, and as arrays."""
    keys = draw(st.none() | st.lists(st.integers(0, 2**32 - 1), max_size=4))
    header, number = draw(HEADERS), draw(st.integers(1, 2**62 - 1))
    data = draw(st.binary(min_size=1, max_size=30))
    arrays = Block(header, np.array([number]), np.array([0, len(data)]), data)
    if keys is not None:
        arrays = arrays.with_keys(np.array(keys, np.int64), np.array([0, len(keys)]))
    return Block.one(header, number, data, keys), arrays


@pytest.mark.property
@given(singles(), HEADERS, st.integers(1, 3))
def test_a_block_of_one_event_is_the_same_as_one_of_arrays(
    both: tuple[Block, Block], header: Header, keys_max: int
) -> None:
    one, arrays = both
    assert one.number is not None
    assert arrays.number is None
    assert said(one) == said(arrays)
    assert (len(one), one.name, one.size(), one.brief(None)) == (
        1,
        arrays.name,
        arrays.size(),
        arrays.brief(None),
    )
    assert one.encode() == arrays.encode()
    for made in (one, arrays):
        assert said(made.with_header(header)) == (header, *said(one)[1:])
        assert said(made.take(np.array([0]), header)) == (header, *said(one)[1:3], None)
        assert [said(part) for part in made.parts_of(keys_max)] == [said(one)]
        assert [part and said(part) for part in made.split(np.array([True]))] == [said(one), None]
        assert [part and said(part) for part in made.split(np.array([False]))] == [None, said(one)]
        assert keys_of(made.with_all_keys([5, 7])) == [[5, 7]]


@pytest.mark.property
@given(singles())
def test_a_block_of_one_event_is_decoded_as_such(both: tuple[Block, Block]) -> None:
    decoded = Block.decode(memoryview(both[1].encode()))
    assert decoded.number == both[0].number
    assert said(decoded) == said(both[0])


def keys_of(block: Block) -> list[list[int]] | None:
    if block.keys is None or block.key_offsets is None:
        return None
    keys = block.keys.tolist()
    return [keys[at:end] for at, end in pairwise(block.key_offsets.tolist())]


def said(block: Block) -> tuple[object, ...]:
    return (block.header, block.numbers.tolist(), list(map(bytes, block.events())), keys_of(block))


def check_consistent(block: Block) -> None:
    """Whatever was decoded can be used without looking again."""
    count = len(block)
    assert 0 < count <= EVENTS_MAX
    assert len(block.offsets) == count + 1
    assert block.offsets[0] == 0
    assert block.offsets[-1] == len(block.data)
    assert (np.diff(block.offsets) >= 0).all()
    assert (block.numbers > 0).all()
    assert (np.diff(block.numbers) > 0).all()
    if block.keys is not None:
        assert block.key_offsets is not None
        assert len(block.key_offsets) == count + 1
        assert block.key_offsets[-1] == len(block.keys)
        assert ((block.keys >= 0) & (block.keys < 2**32)).all()
    assert 0 <= block.header.hops <= 255


@pytest.mark.property
@given(blocks())
def test_what_is_encoded_is_decoded_to_the_same(block: Block) -> None:
    decoded = Block.decode(memoryview(block.encode()))
    assert said(decoded) == said(block)
    check_consistent(decoded)
    assert decoded.encode() == block.encode()


@pytest.mark.property
@given(blocks())
def test_the_size_is_that_of_the_bytes(block: Block) -> None:
    assert block.size() == len(block.encode())


@pytest.mark.property
@given(
    HEADERS,
    st.integers(1, 2**40),
    st.one_of(st.none(), st.lists(st.integers(0, 2**32 - 1), max_size=3)),
    st.dictionaries(st.sampled_from(["x", "zoë"]), st.integers(0, 9) | st.just("žluť"), min_size=1),
)
def test_one_event_has_the_size_that_it_has_in_a_block(
    header: Header, number: int, keys: list[int] | None, attributes: dict[str, int | str]
) -> None:
    one = Publish(Event(attributes), header, number, None, None if keys is None else tuple(keys))
    assert one.size() == len(one.as_block().encode())


@pytest.mark.property
@given(blocks(), st.data())
def test_bytes_that_were_changed_are_a_consistent_block_or_a_wire_error(
    block: Block, data: st.DataObject
) -> None:
    encoded = block.encode()
    for _ in range(data.draw(st.integers(1, 3))):
        # Most of what can go wrong is at the beginning.
        begin = data.draw(st.one_of(st.integers(0, min(40, len(encoded))), st.integers(0, len(encoded))))
        stop = data.draw(st.integers(begin, min(begin + 8, len(encoded))))
        encoded = encoded[:begin] + data.draw(st.binary(max_size=9)) + encoded[stop:]
    try:
        decoded = Block.decode(memoryview(encoded))
    except WireError:
        return
    check_consistent(decoded)
    assert said(Block.decode(memoryview(decoded.encode()))) == said(decoded)


@pytest.mark.property
@given(blocks(), st.data())
def test_some_events_of_a_block_are_taken_as_they_are(block: Block, data: st.DataObject) -> None:
    flags = data.draw(st.lists(st.booleans(), min_size=len(block), max_size=len(block)).filter(any))
    which = np.flatnonzero(flags)
    header = data.draw(st.one_of(st.none(), HEADERS))
    taken = block.take(which, header)
    assert taken.header == (header or block.header)
    assert taken.numbers.tolist() == block.numbers[which].tolist()
    assert list(map(bytes, taken.events())) == [bytes(block.events()[at]) for at in which]
    assert taken.keys is None
    # Also from bytes that came, and again.
    came = Block.decode(memoryview(block.encode())).take(which)
    assert said(came.take(np.arange(len(came)))) == said(block.take(which))


def raw(header: object, sizes: object, *tables: list[int], data: bytes = b"") -> memoryview:
    head = msgspec.msgpack.encode((header, sizes))
    rows = b"".join(np.array(table, "<u4").tobytes() for table in tables)
    return memoryview(len(head).to_bytes(4, "big") + head + rows + data)


GOOD = ["1", "", 0, 0, ""]


def test_the_plain_case_is_accepted() -> None:
    block = Block.decode(raw(GOOD, [2, 5, None], [0, 3], [1, 2], data=b"abc"))
    assert said(block) == (Header("1", ""), [5, 8], [b"a", b"bc"], None)


@pytest.mark.parametrize(
    ("header", "sizes", "tables"),
    [
        (GOOD, [0, 1, None], []),
        (GOOD, [-1, 1, None], []),
        (GOOD, [-(2**63), 1, None], []),
        (GOOD, [EVENTS_MAX + 1, 1, None], []),
        (GOOD, [2**63, 1, None], []),
        (GOOD, [1, 0, None], [[0], [3]]),
        (GOOD, [1, -5, None], [[0], [3]]),
        (GOOD, [1, 2**62, None], [[0], [3]]),
        (GOOD, [1, 1, -1], [[0], [3], [0]]),
        (GOOD, [1, 1, 2**32], [[0], [3], [0]]),
        (GOOD, [1, 1, 2**32 - 1], [[0], [3], [2**32 - 1]]),
        (GOOD, [1, 1, None], [[0], [2]]),
        (GOOD, [1, 1, None], [[0], [2**32 - 1]]),
        (GOOD, [2, 1, None], [[0, 0], [1, 2]]),
        (GOOD, [2, 1, None], [[5, 4], [1, 2]]),
        (GOOD, [1, 1, 1], [[0], [3], [2], [7]]),
        (["1", "", -1, 0, ""], [1, 1, None], [[0], [3]]),
        (["1", "", 256, 0, ""], [1, 1, None], [[0], [3]]),
        (["1" * 1025, "", 0, 0, ""], [1, 1, None], [[0], [3]]),
        (["1", "o" * 1025, 0, 0, ""], [1, 1, None], [[0], [3]]),
        (["1", "", 0, 0, "t" * 1025], [1, 1, None], [[0], [3]]),
        ([1, "", 0, 0, ""], [1, 1, None], [[0], [3]]),
        ({}, [1, 1, None], [[0], [3]]),
    ],
)
def test_sizes_that_cannot_be_are_refused(header: object, sizes: object, tables: list[list[int]]) -> None:
    with pytest.raises(WireError):
        Block.decode(raw(header, sizes, *tables, data=b"abc"))


@pytest.mark.parametrize("length", [4, 2**14 + 1, 2**31, 2**32 - 1])
def test_a_header_is_no_longer_than_its_block_nor_than_headers_are(length: int) -> None:
    with pytest.raises(WireError):
        Block.decode(memoryview(length.to_bytes(4, "big") + b"abc"))
    with pytest.raises(WireError):
        Block.decode(memoryview(b"\0\0"))


def test_a_header_that_is_nested_deeply_is_refused() -> None:
    head = b"\x91" * 10_000
    with pytest.raises(WireError):
        Block.decode(memoryview(len(head).to_bytes(4, "big") + head))


@given(
    st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=4, unique=True), min_size=1, max_size=8),
    st.sets(st.tuples(st.integers(1, 6), st.integers(0, 7))),
)
def test_without_refused_subscriptions_a_block_has_the_events_that_are_for_others(
    of_each: list[list[int]], refused: set[tuple[int, int]]
) -> None:
    count = len(of_each)
    block = Block.of(Header("t", "o"), range(1, count + 1), [bytes([n]) for n in range(count)])
    keys = np.array([key for some in of_each for key in some], np.int64)
    block = block.with_keys(keys, np.cumsum([0, *map(len, of_each)], dtype=np.int64))
    left = block.without_keys(
        {key: np.array([(key, n) in refused for n in range(count)]) for key, _n in refused}
    )
    due = {n: [key for key in some if (key, n) not in refused] for n, some in enumerate(of_each)}
    found: dict[int, list[int]] = {}
    if left is not None:
        assert left.keys is not None
        assert left.key_offsets is not None
        ends = left.key_offsets.tolist()
        for event, number, (at, end) in zip(
            left.events(), left.numbers.tolist(), pairwise(ends), strict=True
        ):
            assert event[0] + 1 == number
            found[event[0]] = left.keys[at:end].tolist()
    assert found == {n: some for n, some in due.items() if some}


@pytest.mark.parametrize("events", [[b"one"], [b"one", b"another"]])
def test_a_block_that_is_kept_does_not_keep_all_that_came_with_it(events: list[bytes]) -> None:
    block = Block.of(Header("t", "o"), range(1, len(events) + 1), events)
    encoded = block.encode()
    alone = Block.decode(memoryview(encoded))
    assert alone.unpinned() is alone
    among = Block.decode(memoryview(bytes(100_000) + encoded)[100_000:])
    kept = among.unpinned()
    assert isinstance(kept.data, bytes)
    assert (kept.header, kept.events(), kept.numbers.tolist()) == (
        among.header,
        events,
        block.numbers.tolist(),
    )
