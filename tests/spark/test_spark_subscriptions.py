"""Subscriptions from DataFrames: saved by driver or executors, refused or put aside."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from penstock.errors import FilterError, InputError
from penstock.spark import Table, check_subscriptions, route, save_table
from penstock.spark.tables import REJECTED

RULES = "id string, filter string, subscriber string"
BAD = [("x", "n = ", "p"), (None, "n = 1", "p"), ("y", None, "p"), ("", "n = 1", None)]
GOOD = [(f"{at:02}", f"n >= {at} and n < {at + 3} or n = 99", f"of {at % 3}") for at in range(20)]


def routed(spark: SparkSession, table: Table) -> list[tuple[Any, ...]]:
    rows = route(spark.range(30).toDF("n"), table, output="rows").collect()
    return sorted(tuple(row) for row in rows)


def test_driver_and_executors_make_tables_with_the_same_answers(spark: SparkSession, tmp_path: Path) -> None:
    rules = spark.createDataFrame(GOOD + GOOD[:5], RULES).repartition(3)
    first = save_table(rules, tmp_path / "t")
    on_driver = save_table(rules, tmp_path / "t", compile_on="driver", blocks=3)
    on_executors = save_table(rules, tmp_path / "t", compile_on="executors", blocks=3)
    assert Table.versions(tmp_path / "t") == [1, 2, 3]
    assert [len(table.blocks) for table in (first, on_driver, on_executors)] == [1, 3, 3]
    assert {table.names for table in (first, on_driver, on_executors)} == {("n",)}
    assert {table.ids for table in (first, on_driver, on_executors)} == {20}
    answers = routed(spark, first)
    assert len(answers) == 60
    assert routed(spark, on_driver) == answers == routed(spark, on_executors)
    assert sorted(f.name for f in (tmp_path / "t").iterdir()) == ["v000001", "v000002", "v000003"]


@pytest.mark.parametrize("where", ["driver", "executors"])
def test_rows_that_are_no_subscriptions(spark: SparkSession, tmp_path: Path, where: Any) -> None:
    rules = spark.createDataFrame(BAD + GOOD, RULES)
    with pytest.raises(
        FilterError, match=r"^(subscription|a row without an id).*\(and 3 more of 24\); check_subs"
    ):
        save_table(rules, tmp_path / "t", compile_on=where, blocks=2)
    assert list((tmp_path / "t").iterdir()) == []
    table = save_table(rules, tmp_path / "t", compile_on=where, blocks=2, invalid="quarantine")
    assert (table.ids, table.rejected) == (20, 4)
    lines = (Path(table.path) / REJECTED).read_bytes().splitlines()
    told = sorted((str(row["id"]), row["error"]) for row in map(msgspec.json.decode, lines))
    assert [key for key, _ in told] == ["", "None", "x", "y"]
    assert told[1][1] == "there is no id"
    assert told[2][1].startswith("column 5: expected a value")


def test_the_quarantine(spark: SparkSession, tmp_path: Path) -> None:
    rules = spark.createDataFrame(BAD + GOOD, RULES)
    found = check_subscriptions(rules)
    assert found.columns == ["id", "filter", "error"]
    assert sorted((str(row.id), row.filter) for row in found.collect()) == [
        ("", "n = 1"),
        ("None", "n = 1"),
        ("x", "n = "),
        ("y", None),
    ]
    # Spark makes texts of any bytes.
    [row] = check_subscriptions(spark.sql("select 1 id, cast(x'ff' as string) filter")).collect()
    assert (row.id, row.filter) == ("1", "?")
    all_bad = spark.createDataFrame(BAD, RULES)
    for where in ("driver", "executors"):
        table = save_table(all_bad, tmp_path / where, compile_on=where, invalid="quarantine")
        assert (table.ids, table.rejected) == (0, 4)
        kept = route(spark.range(2).toDF("n"), table, output="rows", unmatched="keep")
        assert [tuple(row) for row in kept.collect()] == [(0, None, None), (1, None, None)]


def test_columns_that_are_not_those_of_subscriptions(spark: SparkSession, tmp_path: Path) -> None:
    wrong = {
        "'a' id, 'x = 1' rule": "subscriptions have a column 'filter', which is missing; there are: id, rule",
        "1.5 id, 'x = 1' filter": r"the column 'id' of subscriptions is of type decimal\(2,1\); it has to be",
        "'a' id, 1 filter": "the column 'filter' of subscriptions is of type int",
        "'a' id, 'x = 1' filter, 1 subscriber": "the column 'subscriber' of subscriptions is of type int",
        "'a' id, 'b' ID, 'x = 1' filter": "subscriptions have the column 'id' twice",
        "'a' id, 'x = 1' filter, 'x = 2' filter": "subscriptions have the column 'filter' twice",
    }
    for columns, why in wrong.items():
        given = spark.sql(f"select {columns}")
        for call in (lambda rows: save_table(rows, tmp_path / "t"), check_subscriptions):
            with pytest.raises(InputError, match=why):
                call(given)
        with pytest.raises(InputError, match=why):
            route(spark.range(1), given)


def test_other_mistakes(spark: SparkSession, tmp_path: Path) -> None:
    good = spark.createDataFrame(GOOD, RULES)
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    with pytest.raises(InputError, match="use route_stream"):
        save_table(stream, tmp_path / "t")
    with pytest.raises(InputError, match="not list"):
        save_table(GOOD, tmp_path / "t")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="all workers have mounted"):
        save_table(good, "s3://bucket/rules")
    with pytest.raises(InputError, match="at least one block, not 0"):
        save_table(good, tmp_path / "t", blocks=0)
    with pytest.raises(InputError, match="language is one of"):
        save_table(good, tmp_path / "t", language="xpath")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="language is one of"):
        check_subscriptions(good, language="xpath")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="compile_on is one of"):
        save_table(good, tmp_path / "t", compile_on="here")  # type: ignore[arg-type]
    two = spark.createDataFrame([("a", "n = 1", "p"), ("a", "n = 2", "q")], RULES)
    for where in ("driver", "executors"):
        with pytest.raises(InputError, match="the id 'a' has two subscribers"):
            save_table(two, tmp_path / "t", compile_on=where)
    assert Table.versions(tmp_path / "t") == []
