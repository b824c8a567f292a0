from pyspark.sql import SparkSession

from penstock.spark import explain, profile, route


def test_events_get_the_sorted_ids_of_what_matches_them(spark: SparkSession) -> None:
    events = spark.createDataFrame(
        [(1, "JFK", 75), (2, "LGA", 5), (3, None, 30)], "n long, origin string, delay int"
    )
    rules = [("b", "delay > 60"), ("a", "origin = 'JFK'"), ("c", "origin = 'BOS'")]
    routed = route(events, spark.createDataFrame(rules, "id string, filter string"))
    assert [tuple(row) for row in routed.collect()] == [(1, "JFK", 75, ["a", "b"])]


def test_a_profile_tells_how_many_events_there_are(spark: SparkSession) -> None:
    events = spark.range(500).selectExpr("id % 10 as x")
    rules = spark.createDataFrame([("a", "x < 5"), ("b", "x < 1")], "id string, filter string")
    known = profile(events)
    assert "events: 500," in explain(events, rules, profile=known)
    assert route(events, rules, profile=known).count() == 250
