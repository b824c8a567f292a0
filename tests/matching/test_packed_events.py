import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from matching_cases import EVENTS, SUBSCRIPTIONS, Attributes
from packed_cases import ANY_BYTES, ANY_NAMES, PAIRS, Pair, forms_of, forms_of_map, forms_of_text, packed
from penstock.errors import EventError, LimitError, PenstockError
from penstock.filters.expression import Expression, normalise
from penstock.matching.batch import DECIMAL, DOUBLE, FALSE, INTEGER, LIST, NAN, STRING, TIME, TRUE, Batch
from penstock.matching.decimals import RECORD_BYTES, decimal_at
from penstock.matching.elements import lists_of
from penstock.matching.json_events import WantedNames
from penstock.matching.kernels import packed_maps
from penstock.matching.kernels.jit import direct
from penstock.matching.matcher import Matcher
from penstock.matching.packed_events import check_packed, read_packed
from penstock.matching.reference import ReferenceMatcher
from penstock.model.events import Event
from penstock.model.limits import ATTRIBUTES_MAX, NAME_LENGTH_MAX, STRING_LENGTH_MAX
from penstock.model.names import Id
from penstock.model.packed import decode_event, encode_event
from penstock.model.values import Time, Value

Shown = dict[str, str]
"""The attributes of an event, with values written so that 1, 1.0 and True differ."""

Error = tuple[type, int | None, str]


def laid(events: Sequence[bytes]) -> tuple[bytes, NDArray[np.int64]]:
    """The events end to end, and their offsets."""
    return b"".join(events), np.cumsum([0, *map(len, events)], dtype=np.int64)


def events_of(batch: Batch, names: Sequence[str]) -> list[Shown]:
    """Read a batch back, checking its form."""
    assert batch.value_attribute.dtype == batch.value_length.dtype == batch.entries.dtype == np.int32
    assert batch.start.dtype == batch.value_bits.dtype == np.int64
    assert batch.count.dtype == np.int32
    assert batch.value_state.dtype == batch.arena.dtype == np.uint8
    assert all(array.flags.c_contiguous and array.flags.writeable for array in batch)
    assert len(batch.start) == len(batch.count)
    assert {array.size for array in batch[2:7]} == {batch.count.sum()}
    events: list[Shown] = []
    for start, count in zip(batch.start.tolist(), batch.count.tolist(), strict=True):
        attributes: Shown = {}
        for entry in batch.entries[start : start + count].tolist():
            name = names[batch.value_attribute[entry]]
            assert name not in attributes
            attributes[name] = repr(value_of(batch, entry))
        events.append(attributes)
    return events


def value_of(batch: Batch, entry: int) -> Value:
    state, bits = int(batch.value_state[entry]), int(batch.value_bits[entry])
    length = int(batch.value_length[entry])
    if state == STRING:
        return batch.arena[bits : bits + length].tobytes().decode()
    if state == DECIMAL:
        assert length == RECORD_BYTES
        return decimal_at(batch.arena, bits)
    assert length == 0
    if state in (INTEGER, TIME):
        return bits if state == INTEGER else Time(bits)
    if state == DOUBLE:
        return float(batch.value_bits.view(np.float64)[entry])
    assert bits == 0
    if state == LIST:
        return lists_of(batch)[entry]
    if state == NAN:
        return float("nan")
    assert state in (TRUE, FALSE)
    return state == TRUE


def restricted(event: Event, names: Sequence[str]) -> Shown:
    return {name: repr(value) for name, value in event.attributes.items() if name in names}


def expected(events: Sequence[bytes], names: Sequence[str]) -> list[Shown] | Error:
    """The answer by the model alone."""
    read: list[Shown] = []
    for row, data in enumerate(events):
        try:
            read.append(restricted(decode_event(data), names))
        except PenstockError as error:
            located = error.in_row(row)
            return type(located), located.row, str(located)
    return read


def answer(events: Sequence[bytes], names: Sequence[str]) -> list[Shown] | Error:
    """The answer by the kernel, checked to be no other where nothing is wanted."""
    data, offsets = laid(events)
    try:
        read = events_of(read_packed(data, offsets, WantedNames(names)), names)
    except PenstockError as error:
        with pytest.raises(type(error)):
            check_packed(data, offsets)
        return type(error), error.row, str(error)
    check_packed(data, offsets)
    return read


WANTED = st.lists(ANY_NAMES, unique=True, max_size=8)


@pytest.mark.property
@given(SUBSCRIPTIONS, EVENTS)
def test_bytes_match_what_the_reference_and_dicts_match(
    subscriptions: list[tuple[Id, Expression]], events: list[Attributes]
) -> None:
    predicates = [(key, normalise(expression)) for key, expression in subscriptions]
    engine, reference = Matcher(predicates), ReferenceMatcher(predicates)
    encoded = [encode_event(Event(event)) for event in events]
    found = list(engine.match_packed(*laid(encoded)))
    assert found == [reference.match(event) for event in events]
    assert found == list(engine.match_batch(events))
    assert found == [engine.match_packed(*laid([event]))[0] for event in encoded]


@pytest.mark.property
@given(st.lists(PAIRS, max_size=6), WANTED, st.data())
def test_every_form_of_a_value_is_read_and_of_a_name_the_last_counts(
    events: list[list[Pair]], names: list[str], data: st.DataObject
) -> None:
    read = answer([data.draw(packed(pairs)) for pairs in events], names)
    assert read == [restricted(Event(dict(pairs)), names) for pairs in events]


@pytest.mark.property
@given(st.lists(ANY_BYTES, min_size=1, max_size=4), WANTED)
@example([b"\x81\xa1a\x01", b"\x81\xa1"], ["a"])
@example([b"\x81\xa1a\x01", b""], ["a"])
@example([b"\x82\xa1a\xc0\xa1a\x01"], ["a"])
@example([b"\x82\xa1a\xd7\x02aaaaaaaa\xa1a\x01"], [])
def test_the_kernel_accepts_what_the_decoder_accepts(events: list[bytes], names: list[str]) -> None:
    assert answer(events, names) == expected(events, names)


@pytest.mark.property
@given(st.lists(PAIRS.flatmap(packed), min_size=1, max_size=4), WANTED, st.data())
def test_no_event_is_completed_by_what_follows_it(
    events: list[bytes], names: list[str], data: st.DataObject
) -> None:
    text = b"".join(events * 2)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
    at = data.draw(st.sampled_from(np.cumsum([0, *map(len, events)]).tolist()))
    bounds = sorted([at, at + len(events[0]), *cuts]) if data.draw(st.booleans()) else [0, *cuts, len(text)]
    bounds = [min(bound, len(text)) for bound in bounds]
    pieces = [text[begin:stop] for begin, stop in itertools.pairwise(bounds)]
    try:
        read: list[Shown] | Error = events_of(read_packed(text, bounds, WantedNames(names)), names)
    except PenstockError as error:
        read = type(error), error.row, str(error)
    assert read == expected(pieces, names)


def test_utf8_is_what_python_says_it_is() -> None:
    seconds = (0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xFF)
    others = (0x7F, 0x80, 0xBF, 0xC0)
    for code in itertools.product(range(0x7F, 0x100), seconds, others, others):
        text = bytes(code)
        try:
            text.decode()
            is_utf8 = True
        except UnicodeDecodeError:
            is_utf8 = False
        for data in (b"\x81\xa1a\xa4" + text, b"\x81\xa4" + text + b"\x01"):
            try:
                check_packed(data, [0, len(data)])
                assert is_utf8, text
            except EventError:
                assert not is_utf8, text


@pytest.mark.property
@given(st.text(max_size=100), st.integers(0, 100), st.binary(max_size=4))
def test_long_texts_are_checked_throughout(text: str, at: int, other: bytes) -> None:
    encoded = text.encode()
    encoded = encoded[:at] + other + encoded[at + len(other) :]
    for form in forms_of_text(encoded):
        for event in (b"\x81\xa1a" + form, b"\x81" + form + b"\x01"):
            assert answer([event], ["a"]) == expected([event], ["a"])


def of_name_length(letter: str) -> Callable[[int], bytes]:
    return lambda length: b"\x81" + forms_of(letter * length)[0] + b"\x01"


def of_string_length(letter: str) -> Callable[[int], bytes]:
    return lambda length: b"\x81\xa1a" + forms_of(letter * length)[0]


def of_size(count: int) -> bytes:
    return forms_of_map(count)[0] + b"".join(forms_of(f"{n}")[0] + b"\x01" for n in range(count))


def of_one_name(count: int) -> bytes:
    return forms_of_map(count)[0] + b"\xa1a\x01" * count


@pytest.mark.parametrize(
    ("made", "limit", "name"),
    [
        *((of_name_length(letter), NAME_LENGTH_MAX, "NAME_LENGTH_MAX") for letter in ("a", "é", "😀")),
        *((of_string_length(letter), STRING_LENGTH_MAX, "STRING_LENGTH_MAX") for letter in ("a", "é", "😀")),
        (of_size, ATTRIBUTES_MAX, "ATTRIBUTES_MAX"),
        (of_one_name, ATTRIBUTES_MAX, "ATTRIBUTES_MAX"),
    ],
)
def test_limits_are_reached_and_not_exceeded(made: Callable[[int], bytes], limit: int, name: str) -> None:
    for names in (["a"], ["1", "4095"], []):
        assert answer([made(limit)], names) == expected([made(limit)], names)
        with pytest.raises(LimitError, match=r"^row 1: ") as raised:
            read_packed(*laid([b"\x81\xa1a\x01", made(limit + 1)]), WantedNames(names))
        assert (raised.value.limit_name, raised.value.row) == (name, 1)


def test_more_attributes_than_are_guessed_are_read() -> None:
    names = [f"attribute {n}" for n in range(2_000)]
    events = [Event({name: n + row for n, name in enumerate(names)}) for row in range(3)]
    read = answer([encode_event(event) for event in events], names)
    assert read == [restricted(event, names) for event in events]


def test_names_and_their_beginnings_are_told_apart() -> None:
    names = ["a", "a.b", "a.b.c", ".", "a.", "ab", "a" * 32, "a" * 33, "a" * 32 + ".b"]
    events = [Event({name: n for n, name in enumerate(names)})]
    events += [Event({name: 1}) for name in (*names, "a.b.", "..", "a" * 31, "a" * 34, "b", "a" * 32 + ".")]
    for wanted in (names, names[:2], ["a.b.c"]):
        assert answer([encode_event(event) for event in events], wanted) == [
            restricted(event, wanted) for event in events
        ]


def test_a_bad_event_is_refused_and_the_error_names_its_row() -> None:
    m = Matcher({"one": "x = 1"})
    good = encode_event(Event({"x": 1}))
    for attempt in (m.match_packed, check_packed):
        with pytest.raises(EventError, match=r"^row 1: 'y': a value that is null has no family") as raised:
            attempt(*laid([good, b"\x82\xa1x\x01\xa1y\xc0", good, b""]))
        assert raised.value.row == 1
        with pytest.raises(EventError, match=r"^row 2: .*no byte at all"):
            attempt(*laid([good, good, b""]))
    assert list(m.match_packed(*laid([good]))) == [["one"]]


@pytest.mark.parametrize("offsets", [[0, 9], [-4, 4], [4, 0], [0, 4, 0, 4], [5, 5], [0, 2**62]])
def test_offsets_that_lead_astray_are_refused(offsets: list[int]) -> None:
    with pytest.raises(EventError, match=r"^row \d: it goes from byte"):
        check_packed(b"\x81\xa1a\x01", offsets)


def test_a_block_may_be_any_bytes_in_one_piece_and_any_part_of_it_is_matched() -> None:
    m = Matcher({"one": "x = 1", "two": "x = 2"})
    data, offsets = laid([encode_event(Event({"x": x})) for x in (1, 2, 3)])
    frozen = np.frombuffer(offsets.tobytes(), np.int64)
    compiled = len(packed_maps.read_events.signatures)  # type: ignore[attr-defined]
    for block in (data, bytearray(data), memoryview(data), np.frombuffer(data, np.uint8)):
        for bounds in (offsets, frozen, offsets.tolist()):
            assert list(m.match_packed(block, bounds)) == [["one"], ["two"], []]
    assert list(m.match_packed(data, offsets[1:])) == [["two"], []]
    assert list(m.match_packed(data, offsets[:1])) == []
    assert list(m.match_packed(b"", [])) == []
    # None of these had the kernel compiled anew.
    assert max(compiled, 1) == len(packed_maps.read_events.signatures)  # type: ignore[attr-defined]
    with pytest.raises(EventError, match="bytes in one piece, not from memoryview"):
        m.match_packed(memoryview(data)[::2], offsets)
    with pytest.raises(EventError, match="bytes in one piece, not from str"):
        m.match_packed("x", offsets)  # type: ignore[arg-type]


def test_names_that_come_later_are_read_too() -> None:
    m = Matcher({"one": "x = 1"})
    block = laid([encode_event(Event({"x": 1, "y": 2}))])
    assert list(m.match_packed(*block)) == [["one"]]
    m.add("two", "y = 2")
    assert list(m.match_packed(*block)) == [["one", "two"]]
    m.remove("one")
    m.compact()
    assert list(m.match_packed(*block)) == [["two"]]


def test_a_matcher_without_filters_still_checks() -> None:
    assert list(Matcher().match_packed(*laid([encode_event(Event({"x": 1}))]))) == [[]]
    with pytest.raises(EventError, match="row 0"):
        Matcher().match_packed(b"\x81", [0, 1])


@pytest.mark.property
@settings(max_examples=50)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), unique=True, min_size=1, max_size=12))
def test_few_ids_are_looked_up_as_many_are(ids: list[int]) -> None:
    m = Matcher((one, "a = 1") for one in ids)
    found = m.match_packed(*laid([encode_event(Event({"a": 1}))]))
    assert sorted(found.ids().tolist()) == sorted(ids)
    numbers = found.numbers
    one_by_one = [found.table.integers_of(numbers[at : at + 1]).tolist() for at in range(len(numbers))]
    assert [one for row in one_by_one for one in row] == found.table.integers_of(numbers).tolist()


def test_a_kernel_without_its_dispatcher_is_the_same_kernel() -> None:
    @numba.njit
    def total(numbers: Any) -> Any:
        return numbers.sum()

    whole, parts = np.arange(5), np.arange(5.0)
    assert direct(total) is total  # it is not compiled
    assert total(whole) == 10
    assert direct(total) is not total
    assert direct(total)(whole) == direct(total)(whole) == 10
    assert total(parts) == 10.0
    assert direct(total) is total  # it is for several types


def test_plain_functions_are_called_as_they_are() -> None:
    assert direct(abs) is abs
