"""Subscriptions in pieces: packed, put together, cut and refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matching_cases import PREDICATE
from penstock.errors import InputError
from penstock.filters.expression import Expression, normalise
from penstock.spark import encoding
from penstock.spark.encoding import Piece, cut, encoded, joined, pack, pieces, refusal, unpack, write_block
from penstock.spark.tables import read_subscribers

IDS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.text("ab1é\0", min_size=1, max_size=3))


def as_plain(piece: Piece) -> list[Any]:
    """What a piece holds, to be compared."""
    arrays = [part.tolist() if isinstance(part, np.ndarray) else list(part) for part in piece.columns]
    return [piece.ids, piece.subscribers, arrays, piece.rejected]


@pytest.mark.property
@given(st.lists(st.tuples(IDS, PREDICATE, st.none() | st.text(max_size=3)), max_size=6), st.booleans())
def test_pieces_travel_unchanged(rows: list[tuple[Any, Expression, str | None]], subscribers: bool) -> None:
    given_rows = [(key, normalise(one).to_sql(), owner) for key, one, owner in rows]
    piece = encoded([*given_rows, (None, "x =", None)], "sql", subscribers=subscribers)
    assert as_plain(unpack(pack(piece))) == as_plain(piece)
    assert piece.ids == [str(key) for key, _, _ in rows]
    assert piece.subscribers == ([owner for *_, owner in rows] if subscribers else None)


def test_patterns_travel() -> None:
    """Their wildcards are surrogates in the algebra, which no UTF-8 has."""
    piece = encoded([("a", "x like '%b_c' and not y like '%\U0010ffff%'")], "sql", subscribers=False)
    assert list(unpack(pack(piece)).columns.patterns) == list(piece.columns.patterns) != []


@pytest.mark.property
@given(st.lists(st.tuples(IDS, st.integers(1, 3)), max_size=20), st.integers(1, 6), st.integers(1, 3))
def test_parts_have_all_ids_in_order_and_each_in_one(
    rows: list[tuple[Any, int]], blocks: int, many: int
) -> None:
    filters = [(key, " or ".join(f"x = {n}" if n else "y = 0" for n in range(count))) for key, count in rows]
    whole = joined([encoded(filters[at::many], "sql", subscribers=False) for at in range(many)])
    assert whole.ids.to_pylist() == sorted({str(key) for key, _ in rows})
    parts = cut(whole, blocks)
    assert len(parts) == blocks
    assert [key for part in parts for key in part.ids.to_pylist()] == whole.ids.to_pylist()
    assert sum(len(part.columns.ids) for part in parts) == len(whole.columns.ids)
    for part in parts:
        assert set(part.columns.ids.tolist()) == set(range(len(part.ids)))


REFUSED = [
    ((None, "x = 1"), "there is no id"),
    (("", "x = 1"), "an id is empty"),
    (("é" * 513, "x = 1"), "ID_LENGTH_MAX"),
    ((True, "x = 1"), "an id is text or an integer, not bool"),
    (("a", None), "there is no filter"),
    (("a", 5), "a filter is text"),
    (("a", "x >"), "column 4: expected"),
    (("a", "x = 'unclosed"), "column 5"),
    (("a", ""), "column 1"),
    (("a\udcff", "x = 1"), "not Unicode"),
    (("a", "x = '\udcff'"), "surrogate"),
]


@pytest.mark.parametrize(("row", "why"), REFUSED)
def test_what_is_no_subscription_is_put_aside_with_its_reason(row: tuple[Any, Any], why: str) -> None:
    piece = encoded([("good", "x = 1"), row, ("also", "y = 1")], "sql", subscribers=False)
    assert piece.ids == ["good", "also"]
    [rejected] = unpack(pack(piece)).rejected
    assert why in rejected.error
    assert "\n" not in rejected.error


def test_the_error_names_the_first_and_counts_the_others() -> None:
    piece = encoded([("a", "x >"), (None, "x = 1")], "sql", subscribers=False)
    told = str(refusal(piece.rejected, 7))
    assert told.startswith("subscription 'a': column 4: expected")
    assert "(and 1 more of 7)" in told
    assert str(refusal(piece.rejected[1:], 7)).startswith("a row without an id: there is no id;")
    assert "(and 4,999 more of 9,000)" in str(refusal(piece.rejected, 9_000, 5_000))


def test_texts_that_are_no_unicode_are_put_aside() -> None:
    """Spark makes strings of any bytes."""
    texts = pa.array([b"x = 1", b"x = '\xff'", None], pa.binary()).cast(pa.large_binary())
    ids = pa.array([b"a", b"b", b"\xfe"], pa.binary())
    bad = [
        pa.Array.from_buffers(pa.string(), 3, ids.buffers()),
        pa.Array.from_buffers(pa.large_string(), 3, texts.buffers()),
    ]
    [piece] = pieces([pa.RecordBatch.from_arrays(bad, ["id", "filter"])], "sql", subscribers=False)
    assert piece.ids == ["a"]
    assert [row.id for row in unpack(pack(piece)).rejected] == ["b", "?"]


def test_pieces_are_not_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "PIECE", 3)
    batch = pa.RecordBatch.from_pydict({"id": list(range(8)), "filter": ["x = 1"] * 8})
    assert [len(piece.ids) for piece in pieces([batch], "sql", subscribers=False)] == [3, 3, 2]


def test_an_id_has_one_subscriber() -> None:
    rows = [("a", "x = 1", None), ("a", "x = 2", "p"), ("a", "x = 3", "p"), ("b", "x = 1", None)]
    assert joined([encoded(rows, "sql", subscribers=True)]).subscribers.to_pylist() == ["p", None]  # type: ignore[union-attr]
    other = encoded([("a", "x = 4", "q")], "sql", subscribers=True)
    with pytest.raises(InputError, match="the id 'a' has two subscribers, 'p' and 'q'"):
        joined([encoded(rows, "sql", subscribers=True), other])


def test_a_table_of_nothing_can_be_written(tmp_path: Path) -> None:
    nothing = joined([encoded((), "sql", subscribers=True)])
    facts = [write_block(part, tmp_path / str(at)) for at, part in enumerate(cut(nothing, 2))]
    assert [(fact.ids, fact.filters) for fact in facts] == [(0, 0), (0, 0)]
    assert read_subscribers(tmp_path / "1") is not None


def test_ids_whose_filters_match_nothing_keep_their_place(tmp_path: Path) -> None:
    rows = [("b", "x = 1 and x = 2", "of b"), ("a", "x = 1", "of a"), ("c", "x = 2", "of c")]
    facts = write_block(joined([encoded(rows, "sql", subscribers=True)]), tmp_path / "t")
    assert facts.ids == 3
