"""Layouts: the grid is one, and the model's choice is what it should be wherever that can be said."""

from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InputError
from penstock.spark.layout import (
    CELLS_MAX,
    RATES,
    Facts,
    Layout,
    Rates,
    choose,
    costs,
    explain,
)

GB = 10**9
MANY = Facts(filters=100_000, table_bytes=30_000_000, rows=10_000_000, partitions=8, cores=4)
FEW = Facts(filters=100_000_000, table_bytes=10 * GB, rows=1_000, partitions=1, cores=16, workers=4)

small = st.integers(1, 40)
layouts = st.builds(Layout, small, small)


@st.composite
def facts(draw: st.DrawFn) -> Facts:
    filters = draw(st.integers(0, 10**8))
    return Facts(
        filters=filters,
        table_bytes=draw(st.integers(0, 10**11)),
        rows=draw(st.none() | st.integers(0, 10**10)),
        row_bytes=draw(st.none() | st.integers(0, 10**4)),
        partitions=draw(st.integers(1, 500)),
        cores=draw(st.integers(1, 200)),
        workers=draw(st.integers(1, 20)),
        memory=draw(st.none() | st.integers(0, 10**11)),
        mapped=draw(st.booleans()),
        blocks=draw(st.none() | st.integers(1, 50)),
        matches=draw(st.floats(0, 1000)),
        is_grouped=draw(st.booleans()),
    )


# The grid


@pytest.mark.property
@given(layouts)
def test_a_layout_is_read_as_it_is_printed(layout: Layout) -> None:
    assert Layout.parse(str(layout)) == layout


def test_a_layout_may_be_written_with_spaces_and_the_sign_for_times() -> None:
    assert str(Layout(3, 2)) == "3x2"
    assert Layout.parse(" 3 × 2 ") == Layout.parse("3X2") == Layout(3, 2)


@pytest.mark.parametrize("text", ["", "3", "x2", "3x", "3x2x1", "-1x2", "1.5x2", "٣x٢", "auto", "9999999x1"])
def test_a_text_that_is_no_layout_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InputError, match="as in 3x2"):
        Layout.parse(text)


def test_parts_are_at_least_one_and_cells_have_a_limit() -> None:
    for text in ("0x2", "2x0"):
        with pytest.raises(InputError, match=f"layout {text}: there is at least one part"):
            Layout.parse(text)
    with pytest.raises(InputError, match="CELLS_MAX"):
        Layout(CELLS_MAX, 2)


@pytest.mark.property
@given(layouts, st.integers(0, 200))
def test_every_event_meets_every_filter_in_exactly_one_cell(layout: Layout, filters: int) -> None:
    parts = layout.parts(filters)
    assert [number for part in parts for number in part] == list(range(filters))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    cells = [
        layout.cell(s, e) for s, e in product(range(layout.subscription_parts), range(layout.event_parts))
    ]
    assert cells == list(range(layout.tasks))


@pytest.mark.property
@given(layouts, st.integers(1, 200))
def test_the_largest_part_is_what_the_model_takes_it_for(layout: Layout, blocks: int) -> None:
    told = Facts(filters=1000, table_bytes=1000, blocks=blocks).largest_part(layout.subscription_parts)
    assert told == max(map(len, layout.parts(blocks))) / blocks


# Costs


def test_matching_in_place_moves_nothing_and_holds_one_mapped_table() -> None:
    found = costs(Layout(1, 8), MANY)
    assert found[:3] == (0, MANY.table_bytes, 8)


def test_a_shipped_table_goes_to_each_worker_and_is_there_for_each_task() -> None:
    shipped = replace(MANY, mapped=False, workers=2)
    found = costs(Layout(1, 8), shipped)
    assert found[:3] == (2 * MANY.table_bytes, 2 * MANY.table_bytes, 8)


def test_events_are_sent_once_to_spread_them_and_once_for_each_part_of_the_table() -> None:
    told = replace(MANY, row_bytes=50, is_grouped=False)
    sent = [costs(layout, told).bytes_shipped for layout in (Layout(1, 16), Layout(2, 8), Layout(5, 8))]
    assert sent == [times * 50 * 10_000_000 for times in (1, 2, 5)]


def test_answers_that_come_together_are_a_second_shuffle() -> None:
    apart, together = (
        costs(Layout(2, 4), replace(MANY, is_grouped=grouped, matches=3, row_bytes=50))
        for grouped in (False, True)
    )
    # Both cells of an event found something; three ids in all.
    assert together.bytes_shipped - apart.bytes_shipped == 10_000_000 * (2 * 50 + 3 * RATES.id_bytes)
    assert together.seconds > apart.seconds + RATES.stage_s


def test_a_table_has_no_more_parts_than_blocks() -> None:
    with pytest.raises(InputError, match="layout 5x1: a table of 4 blocks"):
        costs(Layout(5, 1), replace(MANY, blocks=4))


@pytest.mark.parametrize("wrong", [{"cores": 0}, {"rows": -1}, {"blocks": 0}, {"memory": -1}])
def test_facts_that_cannot_be_are_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"facts: {next(iter(wrong))} is"):
        replace(MANY, **wrong)


@pytest.mark.property
@given(layouts, facts(), st.integers(1, 10**6))
def test_more_to_do_is_never_cheaper(layout: Layout, told: Facts, more: int) -> None:
    told = replace(told, blocks=50, rows=told.rows_assumed, row_bytes=told.row_bytes or 0)
    before = costs(layout, told)
    for field in ("rows", "row_bytes", "table_bytes", "filters", "matches"):
        after = costs(layout, replace(told, **{field: getattr(told, field) + more}))
        assert after.seconds >= before.seconds
        assert after.bytes_shipped >= before.bytes_shipped
        assert after.bytes_held_per_worker >= before.bytes_held_per_worker


@pytest.mark.property
@given(layouts, facts(), st.integers(1, 100))
def test_more_cores_are_never_slower(layout: Layout, told: Facts, more: int) -> None:
    told = replace(told, blocks=50)
    quicker = costs(layout, replace(told, cores=told.cores + more))
    assert quicker.seconds <= costs(layout, told).seconds * 1.000001


@pytest.mark.property
@given(st.integers(1, 40), facts())
def test_more_parts_of_the_table_hold_less_and_send_more_events(event_parts: int, told: Facts) -> None:
    told = replace(told, blocks=50)
    found = [costs(Layout(parts, event_parts), told) for parts in range(1, 51)]
    for fewer, more in pairwise(found):
        assert more.bytes_held_per_worker <= fewer.bytes_held_per_worker
        if told.mapped:
            assert more.bytes_shipped >= fewer.bytes_shipped or fewer is found[0]


@pytest.mark.property
@given(st.floats(1, 1e9), st.floats(1, 1e9))
def test_matching_costs_more_with_more_filters_but_less_than_in_proportion(few: float, many: float) -> None:
    few, many = sorted((few, many))
    assert RATES.match_s(few) <= RATES.match_s(many) <= RATES.match_s(few) * many / few * 1.000001


# The choice


@pytest.mark.property
@given(facts())
def test_the_choice_fits_wherever_any_layout_does(told: Facts) -> None:
    told = replace(told, filters=min(told.filters, 60))
    chosen = choose(told)
    assert chosen.costs == costs(chosen.layout, told)
    assert (chosen.layout, chosen.costs) in chosen.considered
    if told.memory is None:
        return
    event_parts = {1, 2, 3, 5, 8, 20, told.partitions, told.cores}
    some_fits = any(
        costs(Layout(parts, count), told).bytes_held_per_worker <= told.memory
        for parts in range(1, told.parts_max + 1)
        for count in event_parts
    )
    assert (chosen.costs.bytes_held_per_worker <= told.memory) == some_fits
    assert ("no layout fits" in chosen.reason) == (not some_fits)


@pytest.mark.property
@given(facts())
def test_the_choice_is_nearly_the_quickest_of_what_fits(told: Facts) -> None:
    chosen = choose(told)
    fitting = [
        cost.seconds
        for _layout, cost in chosen.considered
        if told.memory is None or cost.bytes_held_per_worker <= told.memory
    ]
    if fitting and told.rows is not None:
        assert chosen.costs.seconds <= min(fitting) * 1.25


@pytest.mark.property
@given(facts())
def test_a_table_that_fits_is_not_cut_where_there_are_enough_events(told: Facts) -> None:
    copies = 1 if told.mapped else told.tasks_per_worker
    read_s = told.table_bytes / (RATES.mapped_bytes_per_s if told.mapped else RATES.shipped_bytes_per_s)
    # Enough: rows that, sent once more, cost more than reading the table does, and more than one for a core.
    rows = int(read_s * told.cores / RATES.row_s) + 100 * told.cores
    enough = replace(told, memory=told.table_bytes * copies, rows=rows)
    assert not choose(enough).layout.is_replicating


@pytest.mark.property
@given(facts())
def test_events_of_unknown_number_stay_where_they_are_if_the_table_fits(told: Facts) -> None:
    stream = replace(told, rows=None, memory=None)
    assert choose(stream).layout == Layout(1, told.partitions)


def test_events_in_one_partition_are_spread_before_the_table_is_cut() -> None:
    assert choose(replace(MANY, partitions=1)).layout == Layout(1, 4)


def test_few_events_and_many_filters_cut_the_table() -> None:
    chosen = choose(FEW)
    assert chosen.layout == Layout(16, 1)
    assert "few" in chosen.reason


def test_a_table_too_large_for_a_worker_is_cut() -> None:
    chosen = choose(replace(FEW, rows=None, partitions=8, memory=3 * GB))
    assert chosen.layout.subscription_parts >= 14
    assert "a worker cannot hold the table of 10.0 GB: it has 3.0 GB for it" in chosen.reason


def test_constants_can_be_given() -> None:
    # Where reading a table costs nothing, few events are no reason to cut it.
    assert not choose(FEW, Rates(mapped_bytes_per_s=1e15)).layout.is_replicating


# What is said of it


@pytest.mark.property
@given(facts())
def test_the_explanation_names_the_choice_the_plain_layout_and_why(told: Facts) -> None:
    chosen = choose(told)
    text = explain(chosen)
    first, *lines = text.splitlines()
    assert first == f"layout {chosen.layout} (subscription parts x event parts): {chosen.reason}"
    marked = [line.split()[0] for line in lines if "<- this one" in line]
    assert marked == [str(chosen.layout)]
    assert any(line.split()[0] == f"1x{told.partitions}" for line in lines)


def test_an_explanation_ranks_what_was_considered_and_marks_what_does_not_fit() -> None:
    told = Facts(1_000_000, 3 * GB, 2_000_000, partitions=2, cores=4, memory=2 * GB, blocks=8)
    why, what, *rows = explain(choose(told)).splitlines()
    assert why.endswith("a worker cannot hold the table of 3.0 GB: it has 2.0 GB for it")
    assert "filters: 1,000,000, 3.0 GB mapped from a shared folder" in what
    assert rows[0].split() == ["layout", "seconds", "shipped", "held/worker", "tasks"]
    assert rows[1].split() == ["8x1", "22.03", "1.8", "GB", "1.5", "GB", "8", "<-", "this", "one"]
    assert [row.split()[0] for row in rows if row.endswith("does not fit")][:2] == ["1x4", "1x8"]
