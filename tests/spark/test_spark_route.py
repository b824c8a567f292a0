from pyspark.sql import SparkSession

from penstock.spark import route


def test_events_get_the_sorted_ids_of_what_matches_them(spark: SparkSession) -> None:
    events = spark.createDataFrame(
        [(1, "JFK", 75), (2, "LGA", 5), (3, None, 30)], "n long, origin string, delay int"
    )
    rules = [("b", "delay > 60"), ("a", "origin = 'JFK'"), ("c", "origin = 'BOS'")]
    routed = route(events, spark.createDataFrame(rules, "id string, filter string"))
    assert [tuple(row) for row in routed.collect()] == [(1, "JFK", 75, ["a", "b"])]
