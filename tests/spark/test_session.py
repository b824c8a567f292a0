from pyspark.sql import SparkSession


def test_a_session_of_ours_runs_python_of_this_interpreter(spark: SparkSession) -> None:
    found = spark.range(3).mapInArrow(lambda batches: batches, "id long").collect()
    assert [row.id for row in found] == [0, 1, 2]
