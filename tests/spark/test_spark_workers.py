"""What workers do equals the matcher and brute force, however a table is cut and whatever is asked for."""

import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brute import holds
from clause_cases import clauses_of, keeping
from matching_cases import NAMES, PREDICATE
from penstock.filters.expression import Expression, normalise
from penstock.matching.matcher import Matcher
from penstock.spark import workers
from penstock.spark.encoding import cut, encoded, joined, pack, unpack, write_block
from penstock.spark.workers import Block, Found, gathered, give_ids, give_lists, give_rows, in_pieces, match
from spark_cases import Rows, expected, lists_of, rows
from strategies import all_constraints

pytestmark = pytest.mark.usefixtures("_no_sync")

Subscriptions = list[tuple[str, Expression]]

IDS = st.one_of(
    st.sampled_from(("alice", "bob", "ça", "d", "1", "\U0010ffff")), st.sampled_from((-1, 1, 9, 10))
)
CLAUSES = clauses_of(all_constraints(NAMES))
SUBSCRIPTIONS = st.lists(st.tuples(IDS.map(str), PREDICATE), max_size=12)


def subscriber_of(key: str) -> str | None:
    """Some have one, and some share one."""
    return None if key in ("bob", "9") else f"of {key[:1]}"


def blocks_of(subscriptions: Subscriptions, blocks: int, pieces: int, folder: Path | None) -> list[Block]:
    """The blocks of a table, made as workers and driver do it together; on disk if there is a folder."""
    table = [(key, normalise(expression).to_sql(), subscriber_of(key)) for key, expression in subscriptions]
    made = [encoded(table[at::pieces], "sql", subscribers=True) for at in range(pieces)]
    assert not any(piece.rejected for piece in made)
    parts = cut(joined([unpack(pack(piece)) for piece in made]), blocks)
    if folder is not None:
        for at, part in enumerate(parts):
            facts = write_block(part, folder / f"block-{at}")
            assert (facts.ids, facts.filters) == (len(part.ids), len(part.columns.ids))
        return [Block.load(folder / f"block-{at}") for at in range(blocks)]
    loaded = []
    for part in parts:
        matcher = Matcher()
        matcher.add_columns(part.columns, part.ids)
        loaded.append(Block(matcher, part.subscribers))
    return loaded


def check(subscriptions: Subscriptions, given: Rows, blocks: list[Block]) -> None:
    found = match(given.batch, blocks)
    wanted = expected(subscriptions, given, holds)
    assert lists_of(found) == wanted
    assert found.subscribers is not None
    assert found.subscribers.to_pylist() == [subscriber_of(key) for key in found.ids.to_pylist()]
    matcher = Matcher([(key, normalise(expression)) for key, expression in subscriptions])
    assert list(matcher.match_batch(given.batch, unsupported="skip")) == wanted


@pytest.mark.property
@given(SUBSCRIPTIONS, rows(), st.integers(1, 4), st.integers(1, 3))
def test_blocks_find_what_brute_force_finds(
    subscriptions: Subscriptions, given_rows: Rows, blocks: int, pieces: int
) -> None:
    check(subscriptions, given_rows, blocks_of(subscriptions, blocks, pieces, None))


@pytest.mark.property
@given(SUBSCRIPTIONS, rows(), st.integers(1, 4))
def test_blocks_on_disk_find_what_brute_force_finds(
    subscriptions: Subscriptions, given_rows: Rows, blocks: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check(subscriptions, given_rows, blocks_of(subscriptions, blocks, 2, Path(folder)))


@pytest.mark.property
@given(
    st.lists(st.tuples(IDS.map(str), st.one_of(CLAUSES, PREDICATE)), max_size=6),
    rows(),
    st.integers(1, 3),
    st.booleans(),
)
def test_blocks_find_what_filters_with_clauses_say(
    subscriptions: Subscriptions, given_rows: Rows, blocks: int, on_disk: bool
) -> None:
    with keeping(), tempfile.TemporaryDirectory() as folder:
        made = blocks_of(subscriptions, blocks, 2, Path(folder) if on_disk else None)
        check(subscriptions, given_rows, made)


FOUND = st.lists(st.lists(st.sampled_from(("a", "b", "é", "")), max_size=5), max_size=12)


def found_of(lists: list[list[str]], subscribers: bool) -> tuple[pa.RecordBatch, Found]:
    """Rows that say which they are, and what they found."""
    numbers = pa.array(range(len(lists)), pa.int64())
    batch = pa.RecordBatch.from_arrays([numbers, pa.StructArray.from_arrays([numbers], ["n"])], ["n", "s"])
    ids = [key for found in lists for key in found]
    offsets = np.cumsum([0, *map(len, lists)], dtype=np.int64)
    owners = pa.array([subscriber_of(key) for key in ids], pa.string()) if subscribers else None
    return batch, Found(offsets, pa.array(ids, pa.string()), owners)


def answers(given: list[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    """The rows of batches; the struct is looked at and left out."""
    made = [row for batch in given for row in zip(*(c.to_pylist() for c in batch.columns), strict=True)]
    assert all(row[1] == {"n": row[0]} for row in made)
    return [(row[0], *row[2:]) for row in made]


@pytest.mark.property
@given(FOUND, st.booleans(), st.booleans(), st.integers(1, 7))
def test_answers_are_given_whole_in_pieces(
    lists: list[list[str]], keep: bool, subscribers: bool, piece: int
) -> None:
    batch, found = found_of(lists, subscribers)
    kept = [(n, ids) for n, ids in enumerate(lists) if ids or keep]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "_PIECE", piece)
        as_ids = list(in_pieces(batch, found, give_ids, keep=keep))
        as_lists = list(in_pieces(batch, found, give_lists, keep=keep))
        as_rows = list(in_pieces(batch, found, give_rows, keep=keep))
    owners = [[subscriber_of(key) for key in ids] for _, ids in kept]
    assert answers(as_ids) == kept
    assert answers(as_lists) == [
        (n, ids, *([own] if subscribers else [])) for (n, ids), own in zip(kept, owners, strict=True)
    ]
    nobody: list[str | None] = [None]
    assert answers(as_rows) == [
        (n, key, *([own] if subscribers else []))
        for (n, ids), owned in zip(kept, owners, strict=True)
        for key, own in zip(ids or nobody, owned or nobody, strict=True)
    ]
    assert all(batch.column(2).null_count == 0 for batch in as_ids)
    # No piece is larger than it has to be.
    most = max([piece, *map(len, lists)])
    assert all(len(batch.column(2).flatten()) <= most for batch in as_lists)


@pytest.mark.property
@given(st.lists(st.integers(0, 9), max_size=12), st.integers(1, 12))
def test_gathered_batches_have_the_same_rows_in_order(sizes: list[int], most: int) -> None:
    numbers = pa.array(range(sum(sizes)), pa.int64())
    whole = pa.RecordBatch.from_arrays([numbers, pa.array(map(str, range(sum(sizes))))], ["n", "text"])
    ends = np.cumsum([0, *sizes]).tolist()
    batches = [whole.slice(start, size) for start, size in zip(ends, sizes, strict=False)]
    made = list(gathered(iter(batches), most))
    assert pa.Table.from_batches(made, whole.schema).equals(pa.Table.from_batches([whole]))
    assert all(0 < batch.num_rows <= max(most, *sizes) for batch in made)
    # Two in a row would not have fitted into one.
    for one, other in pairwise(made):
        assert one.num_rows + other.num_rows > most


def test_rows_that_match_more_than_can_be_held_are_matched_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids of all rows together may have more than the 2 GB that an array of text can hold."""
    monkeypatch.setattr(workers, "BYTES", 4_000)
    monkeypatch.setattr(workers, "_FEW", 10)
    blocks = [Block(Matcher({f"{name}{n:02}" * 5: f"x >= {n}" for n in range(20)})) for name in ("a", "b")]
    rows = pa.RecordBatch.from_pydict({"x": list(range(64))})
    found = list(workers.matched(rows, lambda some: some, blocks, "refuse"))
    assert len(found) > 4
    assert [x for some, _ in found for x in some["x"].to_pylist()] == list(range(64))
    counts = [n for _, one in found for n in np.diff(one.offsets).tolist()]
    assert counts == [2 * min(20, x + 1) for x in range(64)]
