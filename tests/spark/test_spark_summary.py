"""Hits by subscription, from what was routed."""

import pytest
from pyspark.sql import SparkSession

from penstock.errors import InputError
from penstock.spark import summary

pytestmark = pytest.mark.usefixtures("spark")


def test_hits_are_counted_for_lists_and_for_rows(spark: SparkSession) -> None:
    rules = spark.createDataFrame([("a",), ("b",), ("b",), ("none",)], "id string")
    lists = spark.createDataFrame([(["a"],), (["a", "b"],), (["b"],), (None,)], "ids array<string>")
    rows = spark.createDataFrame([("a",), ("a",), ("b",), ("b",), (None,)], "id string")
    for routed in (lists, rows):
        assert [tuple(row) for row in summary(routed).collect()] == [("a", 2), ("b", 2)]
        found = summary(routed, rules)
        assert [tuple(row) for row in found.collect()] == [("a", 2), ("b", 2), ("none", 0)]
        assert found.schema.simpleString() == "struct<id:string,hits:bigint>"


def test_the_column_of_ids_may_have_another_name(spark: SparkSession) -> None:
    routed = spark.createDataFrame([(["7"],)], "`my ``ids` array<string>")
    rules = spark.createDataFrame([(7,), (8,)], "id int")
    assert [tuple(row) for row in summary(routed, rules, column="my `ids").collect()] == [("7", 1), ("8", 0)]


def test_what_has_no_ids_is_refused(spark: SparkSession) -> None:
    routed = spark.createDataFrame([(1,)], "x int")
    with pytest.raises(InputError, match="there is no column 'id' of ids; there are: x"):
        summary(routed)
    with pytest.raises(InputError, match="subscriptions have a column id"):
        summary(spark.createDataFrame([("a",)], "id string"), routed)
