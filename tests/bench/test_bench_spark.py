"""What `penstock bench spark` routes, how it finds sizes, and what it says; without Spark.

Nothing here depends on how long anything takes.
"""

import argparse
import json
import math
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.bench.spark import command, report, workload
from penstock.bench.spark.bare import match_files
from penstock.bench.spark.memory import Weight, mapped_below, own_weight
from penstock.bench.spark.plain import FIRST, largest
from penstock.bench.spark.report import Report
from penstock.bench.spark.trial import Choices, Join, Size, Start
from penstock.errors import InputError
from penstock.filters.parsing import parse
from penstock.matching.matcher import Matcher
from penstock.workloads import rules

SIZE = Size(
    filters=100_000,
    events=1_000_000,
    values=548,
    matches=1_100_000,
    table_bytes=5_000_000,
    save_seconds=3.0,
    first_seconds=1.0,
    again_seconds=0.5,
    nothing_seconds=0.5,
    bare_seconds=0.5,
    route_seconds=1.25,
    half_events_seconds=0.5,
    half_filters_seconds=1.25,
    half_filters=50_000,
    workers=[],
    agrees=True,
)
JOIN = Join(
    name="expressions",
    filters=100_000,
    events=2_000,
    join_seconds=50.0,
    route_seconds=0.25,
    matches=2_000,
    agrees=True,
)
START = Start(
    session_seconds=4.0,
    first_python_seconds=2.0,
    workers=[Weight(pid=1, resident=100, proportional=60, private=40, table=0, peak=100)],
)


def made(**changes: object) -> Report:
    given = {"start": START, "sizes": [SIZE], "joins": [JOIN], **changes}
    return Report(choices=Choices(events=1_000_000, filters=(100_000,)), version="4", **given)  # type: ignore[arg-type]


# The workload.


def test_the_text_of_a_filter_is_the_filter() -> None:
    drawn = rules.filters(300, seed=3, values=workload.values_for(300))
    table = workload.as_texts(drawn)
    assert table["id"].to_pylist() == [f"s{i}" for i in range(300)]
    for i, text in enumerate(table["filter"].to_pylist()):
        assert list(parse(text).filters) == [rules.as_filter(drawn, i)]


@pytest.mark.parametrize("filters", [1, 10, 1_000, 30_000])
def test_there_are_as_many_codes_as_make_one_match_an_event(filters: int) -> None:
    values = workload.values_for(filters)
    assert len(rules.filters(filters, 1, values).equal) == filters
    if filters >= 1_000:
        drawn, events = rules.filters(filters, 1, values), rules.events(400, 1, values)
        matcher = Matcher()
        matcher.add_constraints(rules.constraints_table(drawn, workload.ids(filters)))
        matches = len(matcher.match_batch(rules.as_record_batch(events)).numbers)
        assert 0.7 < matches / 400 < 1.3


def test_a_disk_that_is_too_small_is_told(tmp_path: Path) -> None:
    workload.check_space(tmp_path, 1_000, [10])
    with pytest.raises(InputError, match="GB are needed"):
        workload.check_space(tmp_path, 10**15, [10])


def test_the_bare_engine_matches_all_rows_of_its_files(tmp_path: Path) -> None:
    drawn, events = rules.filters(200, 1, 10), rules.events(500, 1, 10)
    matcher = Matcher()
    matcher.add_constraints(rules.constraints_table(drawn, workload.ids(200)))
    matcher.save(tmp_path / "table")
    rows = rules.as_record_batch(events)
    files = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for file, part in zip(files, (rows[:300], rows[300:]), strict=True):
        pq.write_table(pa.Table.from_batches([part]), file)
    found = match_files([tmp_path / "table"], files)
    assert found.matches == len(matcher.match_batch(rows).numbers) > 0


# Finding the largest size.


@given(
    st.integers(1, 100_000), st.floats(1e-6, 10), st.floats(0, 2), st.floats(0.1, 100), st.integers(1, 100)
)
def test_the_largest_size_finishes_in_time_and_is_never_more_than_there_is(
    most: int, per_event: float, fixed: float, budget: float, tries: int
) -> None:
    tried: list[int] = []

    def measure(events: int) -> float | None:
        tried.append(events)
        seconds = fixed + events * per_event
        return seconds if seconds <= budget else None

    found = largest(measure, most, budget)
    assert len(tried) <= 2 + 2 * math.log2(most + 2)
    assert all(1 <= events <= most for events in tried)
    if found is None:
        assert fixed + per_event > budget
    else:
        assert found.seconds <= budget
        assert found.events == max(n for n in tried if fixed + n * per_event <= budget)
        if most > FIRST and found.events > FIRST and fixed == 0:
            # Nearly all that the budget has room for.
            assert found.events == most or found.seconds > 0.5 * budget


# Memory.


def test_a_process_tells_what_it_holds(tmp_path: Path) -> None:
    if not Path("/proc/self/smaps_rollup").exists():
        assert own_weight() is None
        return
    size = 1 << 22
    (tmp_path / "a").write_bytes(bytes(size))
    mapped = np.memmap(tmp_path / "a", np.uint8, "r")
    assert int(mapped.sum()) == 0
    weight = own_weight(str(tmp_path))
    assert weight is not None
    assert weight.pid == os.getpid()
    assert weight.table == size
    assert size <= weight.resident <= weight.peak
    assert 0 < weight.private <= weight.resident


def test_only_files_below_the_folder_are_counted() -> None:
    head = "7f00-7f01 r--s 00000000 fe:00 12 "
    lines = [
        f"{head}      /t/table/v000001/a b.npy",
        "Size: 16 kB",
        "Rss:  12 kB",
        "Pss:   6 kB",
        f"{head}      /t/table-2/a.npy",
        "Rss: 100 kB",
        head,
        "Rss: 100 kB",
        f"{head} /t/table/v000001/b.npy",
        "Rss:   4 kB",
    ]
    assert mapped_below("\n".join(lines), "/t/table") == 16 * 1024


# The report.


def test_goals_are_met_or_missed_by_the_figures() -> None:
    goals = report.goals(made())
    assert [goal.met for goal in goals] == [True, True, False, True, True]
    assert "800,000" in goals[0].figure
    slow = Join(**{**{name: getattr(JOIN, name) for name in JOIN.__struct_fields__}, "join_seconds": 20.0})
    assert not report.goals(made(joins=[slow]))[-1].met


def test_tables_and_json_have_all_figures(capsys: pytest.CaptureFixture[str]) -> None:
    none = Join(
        name="by hand", filters=9, events=0, join_seconds=None, route_seconds=1, matches=0, agrees=True
    )
    given = made(joins=[JOIN, none])
    report.show(given)
    shown = capsys.readouterr().out
    for text in ("800,000", "1.25 ×", "2.50 ×", "200 ×", "none in time", "not told", "missed", "met"):
        assert text in shown
    assert "mean nothing" not in shown
    report.write_json(given)
    plain = json.loads(capsys.readouterr().out)
    assert plain["sizes"][0]["overhead"] == 1.25
    assert plain["joins"][0]["ratio"] == 200
    assert plain["joins"][1]["ratio"] is None
    assert plain["start"]["session_seconds"] == 4


def test_matches_that_differ_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = Join(**{**{name: getattr(JOIN, name) for name in JOIN.__struct_fields__}, "agrees": False})
    given = made(joins=[wrong])
    assert not report.agrees(given)
    report.show(given)
    assert "mean nothing" in capsys.readouterr().out


# The command.


def options(**changes: object) -> argparse.Namespace:
    given = {"events": 10_000_000, "filters": None, "scale": 1.0, "repeats": 3, "budget": 60.0}
    return argparse.Namespace(**{**given, "master": "local[2]", "seed": 1, **changes})


def test_scale_takes_a_share_of_events_and_of_filters() -> None:
    assert command.chosen(options()).filters == (100_000, 1_000_000)
    few = command.chosen(options(scale=0.001))
    assert few.filters == (100, 1_000)
    assert few.events == 10_000
    one = command.chosen(options(scale=1e-9, filters=[5, 7, 5]))
    assert one.filters == (1,)
    assert one.events == workload.FILES


def test_a_cluster_is_not_measured() -> None:
    with pytest.raises(InputError, match="local"):
        command.chosen(options(master="spark://host:7077"))
