"""The covering job says what the poset of room `routing` says, however filters are split into blocks."""

from collections import defaultdict
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from clause_cases import independent
from penstock.errors import FilterError, InputError
from penstock.filters.parsing import parse
from penstock.filters.predicate import Predicate
from penstock.matching import cover_index
from penstock.matching.cover_index import CoverIndex
from penstock.routing import bag
from penstock.routing.poset import FiltersPoset
from penstock.routing.shape import may_cover, shape_of
from penstock.spark.analysis import cells
from penstock.spark.analysis.covering import blocks_for, covering
from penstock.spark.analysis.layers import poset_of, rows_of
from penstock.spark.analysis.predicates import decode, encode, parse_row, place_of
from penstock.workloads import range_filters
from routing_cases import ANY, COMPLETE, RANGES, covers


class Row(NamedTuple):
    """A row of the job's answer."""

    id: str
    parents: list[str]
    layer: int
    root: bool
    same_as: str | None


Rows = dict[str, Row]


def answer(items: dict[str, Predicate], blocks: list[list[str]]) -> Rows:
    """What the job says of these filters, laid out in these blocks: its parts, without Spark."""
    packed = [cells.pack((name, encode(items[name])) for name in block) for block in blocks if block]
    summaries = [cells.read_summary(summary) for _block, summary in packed]
    looked_at = cells.cells(summaries)
    links = []
    for special, (block, _summary) in enumerate(packed):
        column = cells.Column(block)
        for at, general in looked_at:
            if at == special != general:
                column.against(packed[general][0])
        links += column.links()
    names = cells.Links._fields
    arrays = [pa.array(column, pa.list_(pa.string())) for column in zip(*links, strict=True)]
    table = pa.table(arrays, names=names)
    return {row["id"]: Row(**row) for part in rows_of(table) for row in part.to_pylist()}


def split(items: dict[str, Predicate], choices: list[int]) -> list[list[str]]:
    """Blocks as the choices say, equal filters in the same one."""
    blocks: dict[int, list[str]] = defaultdict(list)
    chosen: dict[Predicate, int] = {}
    for at, (name, item) in enumerate(items.items()):
        blocks[chosen.setdefault(item, choices[at % len(choices)])].append(name)
    return list(blocks.values())


def by_poset(items: dict[str, Predicate]) -> Rows:
    """What the poset says of them, added in the order of their ids."""
    poset: FiltersPoset[Predicate, int] = FiltersPoset()
    stands: dict[Predicate, str] = {}
    for name in sorted(items):
        poset.add(items[name])
        stands.setdefault(poset.entry(items[name]).item, name)
    layers: dict[Predicate, int] = {}

    def layer(item: Predicate) -> int:
        if item not in layers:
            layers[item] = max((layer(p) + 1 for p in poset.immediate_predecessors(item)), default=0)
        return layers[item]

    rows: Rows = {}
    for name, own in items.items():
        item = poset.entry(own).item
        rows[name] = Row(
            name,
            sorted(stands[p] for p in poset.immediate_predecessors(item)),
            layer(item),
            item in poset.roots() and stands[item] == name,
            None if stands[item] == name else stands[item],
        )
    assert max(layers.values(), default=-1) + 1 == poset.depth()
    return rows


def named(predicates: list[Predicate]) -> dict[str, Predicate]:
    return {f"f{at * 7 % 31:02d}": item for at, item in enumerate(predicates)}


CHOICES = st.lists(st.integers(0, 4), min_size=1, max_size=12)


@pytest.mark.property
@pytest.mark.parametrize("predicates", [RANGES, COMPLETE], ids=["ranges", "all"])
@pytest.mark.parametrize(
    ("size", "few", "chain"),
    [(2, 512, 64), (bag.SMALL, 512, 64), (2, -1, 64), (bag.SMALL, -1, 64), (2, -1, 0), (bag.SMALL, -1, 1)],
)
def test_any_blocks_give_the_poset(
    predicates: st.SearchStrategy[Predicate], size: int, few: int, chain: int
) -> None:
    @given(st.lists(predicates, max_size=16), CHOICES)
    def check(drawn: list[Predicate], choices: list[int]) -> None:
        items = named(drawn)
        blocks = split(items, choices)
        if items:
            assert answer(items, blocks) == by_poset(items)

    with pytest.MonkeyPatch.context() as patch:
        # With 2, a few filters are compared as many are.
        patch.setattr(bag, "SMALL", size)
        # With -1, a few filters are indexed as many are.
        patch.setattr(cells, "_FEW", few)
        patch.setattr(cover_index, "_FEW", few)
        patch.setattr(cells, "_CHAIN", chain)
        check()


@pytest.mark.property
@given(st.lists(ANY, min_size=1, max_size=12), CHOICES, st.sampled_from([512, -1]), st.sampled_from([0, 64]))
def test_with_patterns_no_link_is_wrong_and_roots_cover_all(
    drawn: list[Predicate], choices: list[int], few: int, chain: int
) -> None:
    items = named(drawn)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells, "_CHAIN", chain)
        patch.setattr(cells, "_FEW", few)
        patch.setattr(cover_index, "_FEW", few)
        rows = answer(items, split(items, choices))
    assert rows.keys() == items.keys()
    together = defaultdict(list)
    for name, row in rows.items():
        together[row.same_as or name].append(items[name])
    for name, row in rows.items():
        own = together[row.same_as or name]
        assert row.root is (row.layer == 0 and row.same_as is None)
        assert row.layer == max((rows[parent].layer + 1 for parent in row.parents), default=0)
        for parent in row.parents:
            assert any(covers(f, g) for f in together[parent] for g in own)
        if not row.parents and len(own) == 1:
            assert not any(covers(f, own[0]) for f in items.values() if f != own[0])


def interval_texts() -> st.SearchStrategy[str]:
    """Thresholds and intervals of one attribute, many of which hold one another, and others beside them."""
    ends, signs = st.integers(0, 9), st.sampled_from(("<", "<=", ">", ">=", "="))
    one = st.one_of(
        st.builds("{} {} {}".format, st.sampled_from("xs"), signs, ends),
        st.builds("x between {} and {}".format, ends, st.integers(9, 12)),
    )
    more = st.sampled_from(
        ["", " and y = 1", " and y = 'longer than a shape'", " and s like '%b'", " or x = 4", " and x != 5"]
    )
    texts = st.builds(str.__add__, one, more)
    return st.one_of(
        texts, texts, st.sampled_from(["true", "x > 5 and x < 4", "s like '%b'", "s > 'a'", "s < 'b'"])
    )


@pytest.mark.property
@given(st.lists(interval_texts(), min_size=1, max_size=24), CHOICES)
def test_chains_of_intervals_are_linked_as_all_pairs_say(texts: list[str], choices: list[int]) -> None:
    items = named([parse(text) for text in texts])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells, "_FEW", -1)
        patch.setattr(cells, "_CHAIN", 0)
        assert answer(items, split(items, choices)) == by_poset(items)


def test_a_chain_is_linked_without_looking_at_its_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = []
    monkeypatch.setattr(CoverIndex, "candidates", lambda _self, some: looked_at.extend(some))
    items = {f"r{number:04d}": parse(f"x > {number}") for number in range(2_000)}
    rows = answer(items, [list(items)])
    assert not looked_at
    assert [rows[name].parents for name in items] == [[], *([name] for name in list(items)[:-1])]


@pytest.mark.property
@given(st.lists(ANY, min_size=1, max_size=5), st.lists(ANY, min_size=1, max_size=5), st.sampled_from([1, 16]))
def test_a_cell_is_left_out_only_where_it_holds_no_cover(
    general: list[Predicate], special: list[Predicate], keys: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells, "_KEYS_MAX", keys)
        above, below = cells.summarise(map(shape_of, general)), cells.summarise(map(shape_of, special))
    may = any(may_cover(shape_of(f), shape_of(g)) for f in general for g in special)
    assert above.may_cover(below) or not may


@pytest.mark.property
@given(ANY, ANY)
def test_bytes_are_equal_exactly_where_predicates_are(f: Predicate, g: Predicate) -> None:
    assert decode(encode(f)) == f
    assert (encode(f) == encode(g)) is (f == g)
    if f == g:
        assert place_of(shape_of(f), encode(f)) == place_of(shape_of(g), encode(g))


@pytest.mark.parametrize("distribution", range_filters.DISTRIBUTIONS)
def test_many_range_filters_in_sorted_blocks(distribution: range_filters.Distribution) -> None:
    made = range_filters.as_predicates(range_filters.filters(400, 3, distribution))
    items = {f"{at:03d}": item for at, item in enumerate(made)}
    ordered = sorted(items, key=lambda name: place_of(shape_of(items[name]), encode(items[name])))
    blocks = [ordered[a:b] for a, b in pairwise((0, 90, 200, 290, 400))]
    together = split(items, [next(i for i, b in enumerate(blocks) if name in b) for name in items])
    assert answer(items, together) == by_poset(items)
    summaries = [
        cells.read_summary(cells.pack((n, encode(items[n])) for n in block)[1]) for block in together
    ]
    # Of one set of attributes the blocks are sorted by the low end: most cover none before them.
    assert len(cells.cells(summaries)) < len(blocks) ** 2


def test_what_is_on_a_circle_is_identical() -> None:
    # As between patterns: 1 covers 0, 2 covers 1, 0 covers 2, and no two are known to be identical.
    links = np.array([0, 1, 2, 3, 2, 4]), np.array([1, 2, 0, 1, 5, 4])
    found = poset_of(6, links, (np.array([], int), np.array([], int)))
    assert found.label.tolist() == [0, 0, 0, 3, 4, 5]
    assert list(zip(found.child, found.parent, strict=True)) == [(0, 5), (3, 0)]
    assert found.layer[[0, 3, 4, 5]].tolist() == [1, 2, 0, 0]


def test_filters_with_clauses_keep_them_as_bytes() -> None:
    some, more = parse(independent(40)), parse(independent(41))
    assert decode(encode(some)) == some
    assert encode(some) == encode(parse(some.to_sql())) != encode(more)


def test_a_long_chain_has_as_many_layers() -> None:
    count = 5_000
    links = np.arange(1, count), np.arange(count - 1)
    found = poset_of(count, links, (np.array([], int), np.array([], int)))
    assert found.layer.tolist() == list(range(count))


def test_the_rows_of_one_id_are_a_disjunction() -> None:
    row = parse_row("a", ["x = 1", "x = 2"], 2, "sql")
    assert decode(row[1]).to_sql() == "x in (1, 2)"  # type: ignore[arg-type]


def test_blocks_by_number() -> None:
    assert [blocks_for(n) for n in (0, 1, 16384, 16385, 10**5, 10**6, 10**7)] == [1, 1, 1, 2, 7, 8, 77]


SUBSCRIPTIONS = [
    ("wide", "x between 0 and 100"),
    ("mid", "x between 10 and 50"),
    ("low", "x between 20 and 30 and y = 1"),
    ("again", "x >= 10 and x <= 50"),
    ("two", "x = 20 and y = 1"),
    ("two", "x = 30 and y = 1"),
    ("other", "s like '%z'"),
    ("never", "x < 1 and x > 1"),
]


def test_the_job(spark: SparkSession) -> None:
    found = covering(spark.createDataFrame(SUBSCRIPTIONS, "id string, filter string"), blocks=3)
    assert sorted(map(tuple, found.collect())) == [
        ("again", ["wide"], 1, False, None),
        ("low", ["again"], 2, False, None),
        ("mid", ["wide"], 1, False, "again"),
        ("never", ["other", "two"], 4, False, None),
        ("other", [], 0, True, None),
        ("two", ["low"], 3, False, None),
        ("wide", [], 0, True, None),
    ]


def test_a_bad_filter_is_one_error_with_its_id(spark: SparkSession) -> None:
    rows = [("a", "x = 1"), ("b", "x ="), ("c", None)]
    with pytest.raises(FilterError, match=r"the filter of 'b' cannot be used: .*; 1 more"):
        covering(spark.createDataFrame(rows, "id string, filter string"))


def test_what_is_no_table_of_subscriptions_is_refused(spark: SparkSession) -> None:
    with pytest.raises(InputError, match="a column 'filter', which is missing"):
        covering(spark.range(1))
    with pytest.raises(InputError, match="'filter' of subscriptions is of type bigint"):
        covering(spark.range(1).selectExpr("id", "id as filter"))
    with pytest.raises(InputError, match="language is one of"):
        covering(spark.range(1), language="xml")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="one block at least"):
        covering(spark.range(1), blocks=0)
