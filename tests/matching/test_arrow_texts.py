"""Columns of texts become the values that the rows have: whatever the type, the lengths and the buffers."""

import random
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import EventError, LimitError, PenstockError, UnsupportedValueError
from penstock.matching.arrow_events import batch_of_arrow
from penstock.matching.arrow_texts import texts_of
from penstock.matching.batch import STRING, Batch
from penstock.matching.matcher import Matcher
from penstock.model.limits import STRING_LENGTH_MAX

Texts = list[str | None]

NAMES = {"x": 3, "y": 0, "n": 1}
KINDS: dict[str, Callable[[Texts], pa.Array]] = {
    "string": lambda texts: pa.array(texts, pa.string()),
    "large": lambda texts: pa.array(texts, pa.large_string()),
    "view": lambda texts: pa.array(texts, pa.string_view()),
    "dictionary": lambda texts: pa.array(texts, pa.string()).dictionary_encode(),
    "large dictionary": lambda texts: pa.array(texts, pa.large_string()).dictionary_encode(),
    # What repeats itself, and has a null.
    "odd dictionary": lambda texts: pa.DictionaryArray.from_arrays(
        pa.array(range(len(texts)), pa.int32()), pa.array(texts, pa.string())
    ),
}

# Lengths about those of the words that texts are read in; zeros at the end, which a word could hide.
TEXT = st.one_of(
    st.sampled_from(["", "\0", "a", "a\0", "a\0\0", "1234567", "12345678", "12345678\0", "ä" * 4, "𝄞" * 2]),
    st.text(max_size=3),
    st.builds(lambda many, last: "b" * many + last, st.integers(0, 40), st.sampled_from(["", "c", "é"])),
)
COLUMN = st.lists(st.one_of(st.none(), TEXT), max_size=40)


def rows_of(batch: Batch) -> list[dict[int, str]]:
    """The texts of each row by attribute."""
    rows: list[dict[int, str]] = []
    arena = batch.arena.tobytes()
    for start, count in zip(batch.start.tolist(), batch.count.tolist(), strict=True):
        row = {}
        for value in batch.entries[start : start + count].tolist():
            assert batch.value_state[value] == STRING
            begin = int(batch.value_bits[value])
            end = begin + int(batch.value_length[value])
            row[int(batch.value_attribute[value])] = arena[begin:end].decode()
        rows.append(row)
    return rows


def expected_of(columns: dict[str, Texts]) -> list[dict[int, str]]:
    rows = []
    for texts in zip(*columns.values(), strict=True):
        row = {NAMES[name]: text for name, text in zip(columns, texts, strict=True) if text is not None}
        rows.append(row)
    return rows


def encoded(columns: dict[str, pa.Array]) -> Batch:
    return batch_of_arrow(pa.RecordBatch.from_pydict(columns), NAMES, "skip")


@pytest.mark.property
@given(COLUMN, COLUMN, st.sampled_from(sorted(KINDS)), st.sampled_from(sorted(KINDS)), st.data())
def test_rows_have_their_texts(x: Texts, y: Texts, x_kind: str, y_kind: str, data: st.DataObject) -> None:
    rows = min(len(x), len(y))
    x, y = x[:rows], y[:rows]
    first = data.draw(st.integers(0, rows))
    last = data.draw(st.integers(first, rows))
    arrays = {"x": KINDS[x_kind](x)[first:last], "y": KINDS[y_kind](y)[first:last]}
    assert rows_of(encoded(arrays)) == expected_of({"x": x[first:last], "y": y[first:last]})


@pytest.mark.parametrize("kind", ["string", "large", "view"])
@pytest.mark.parametrize("length", [3, 7, 8, 9, 40])
def test_a_text_that_comes_again_is_one_value(kind: str, length: int) -> None:
    chance = random.Random(length)
    known = [f"{i:03}".rjust(length, "x") for i in range(200)]
    texts: Texts = [chance.choice(known) for _ in range(5_000)]
    batch = encoded({"x": KINDS[kind](texts), "y": KINDS[kind](texts[::-1])})
    assert rows_of(batch) == expected_of({"x": texts, "y": texts[::-1]})
    # A full bucket of the memo may make a value of a text twice, rarely.
    assert 400 <= len(batch.value_state) <= 410


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("length", [5, 30])
def test_more_different_texts_than_the_memo_holds(kind: str, length: int) -> None:
    texts: Texts = [f"{i:05}".rjust(length, "x") for i in range(30_000)]
    texts += texts[::2]
    assert rows_of(encoded({"x": KINDS[kind](texts)})) == expected_of({"x": texts})


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_columns_that_are_empty_or_null(kind: str) -> None:
    columns: list[Texts] = [[], [None], [None] * 20, [""], [""] * 20, ["", None, "é"], [None, "12345678"]]
    for texts in columns:
        assert rows_of(encoded({"x": KINDS[kind](texts)})) == expected_of({"x": texts})


def test_many_columns_of_different_texts() -> None:
    """More values than there is room for at first."""
    columns: dict[str, Texts] = {
        name: [f"{name} {row}" for row in range(50)] for name in ("a", "b", "c", "d", "e", "f")
    }
    names = {name: number for number, name in enumerate(columns)}
    batch = batch_of_arrow(pa.RecordBatch.from_pydict(columns), names)
    assert rows_of(batch) == [
        {number: f"{name} {row}" for name, number in names.items()} for row in range(50)
    ]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_very_long_texts(kind: str) -> None:
    longest = "x" * STRING_LENGTH_MAX
    texts: Texts = [longest, "x", longest[:-1] + "y", None, longest, "é" * STRING_LENGTH_MAX]
    # What has more bytes than there may be characters is looked at one by one.
    for chosen in (texts[:-1], texts):
        assert rows_of(encoded({"x": KINDS[kind](chosen)})) == expected_of({"x": chosen})
    with pytest.raises(LimitError, match="row 1"):
        encoded({"x": KINDS[kind](["x", longest + "x"])})


def from_buffers(
    offsets: list[int], data: bytes, valid: int | None = None, *, first: int = 0, large: bool = False
) -> pa.Array:
    """A column of these buffers, which may be all wrong."""
    kind, size = (pa.large_string(), np.int64) if large else (pa.string(), np.int32)
    numbers = np.array(offsets, size)
    # Arrow looks at the ends of the offsets when it makes an array: they are written when it has.
    written = bytearray(numbers.nbytes)
    bits = None if valid is None else pa.py_buffer(bytes([valid]))
    buffers = [bits, pa.py_buffer(written), pa.py_buffer(data)]
    made = pa.Array.from_buffers(kind, len(offsets) - 1 - first, buffers, offset=first)
    written[:] = numbers.tobytes()
    return made


@pytest.mark.parametrize("large", [False, True])
def test_bytes_that_no_row_has(large: bool) -> None:
    """They may be anything, those of a null too."""
    array = from_buffers([1, 3, 4, 5, 5], b"?ab\xffc?", 0b1101, large=large)
    assert rows_of(encoded({"x": array})) == [{3: "ab"}, {}, {3: "c"}, {3: ""}]
    assert rows_of(encoded({"x": array.slice(1, 2)})) == [{}, {3: "c"}]
    array = from_buffers([0, 9, 11, 12], b"\xff12345678\xc3\xa9bc", 0b0110, first=1, large=large)
    assert rows_of(encoded({"x": array})) == [{3: "é"}, {3: "b"}]


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize(
    ("offsets", "valid"),
    [
        ([0, 3, 9_999], None),
        ([0, 9_999, 3], None),
        ([-5, 3, 4], None),
        ([0, 20, 3, 4], None),
        ([0, 20, 0, 20], 0b101),
    ],
)
def test_offsets_that_lead_astray(offsets: list[int], valid: int | None, large: bool) -> None:
    array = from_buffers(offsets, b"0123456789" * 2, valid, large=large)
    with pytest.raises(EventError, match="outside its bytes"):
        texts_of([array], [3])


@pytest.mark.parametrize("data", [b"ab\xc3\xa9", b"ab\xff\xfe", b"a\xc3\xa9b"])
def test_texts_are_utf8_each_for_itself(data: bytes) -> None:
    """Halves of a character, even where the other half follows in the next row."""
    array = from_buffers([0, 2, 3, 4], data)
    with pytest.raises(PenstockError) as caught:
        batch_of_arrow(pa.RecordBatch.from_pydict({"x": array}), NAMES)
    assert isinstance(caught.value, UnsupportedValueError)
    rows = rows_of(encoded({"x": array}))
    assert rows == [{3: text.decode()} if text.isascii() else {} for text in (data[:2], data[2:3], data[3:])]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_matches_are_those_of_the_rows_one_by_one(kind: str) -> None:
    chance = random.Random(7)
    known: Texts = ["", None, *(f"code {i}" for i in range(40)), *(f"{i}" for i in range(40))]
    columns = {name: [chance.choice(known) for _ in range(3_000)] for name in ("x", "y")}
    numbers = [chance.choice([None, 1, 2]) for _ in range(3_000)]
    matcher = Matcher(
        {
            "in": "x in ('code 1', '2', '')",
            "not in": "y not in ('code 3', '4') and x = 'code 5'",
            "like": "x like 'code 1%' and n = 1",
            "null": "x is null and y > 'code'",
        }.items()
    )
    table = pa.table({**{name: KINDS[kind](texts) for name, texts in columns.items()}, "n": numbers})
    events = [
        {name: value for name, value in zip("xyn", row, strict=True) if value is not None}
        for row in zip(columns["x"], columns["y"], numbers, strict=True)
    ]
    assert list(matcher.match_batch(table, unsupported="skip")) == list(matcher.match_batch(events))


def test_offsets_that_leave_the_bytes_and_come_back_are_refused() -> None:
    offsets = np.array([0, 5_000, 16], np.int32)
    column = pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(offsets), pa.py_buffer(b"x" * 16)])
    with pytest.raises(EventError):
        Matcher([("a", "s = 'abc'")]).match_batch(pa.table({"s": column}))
