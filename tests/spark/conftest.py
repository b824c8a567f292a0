"""One session for all tests of a process: a JVM takes seconds to start."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from penstock.spark.session import builder
from spark_cases import QUICK_START


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two cores, two partitions, nothing outside of pytest's folder."""
    home = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.local.dir": str(home / "local"),
        "spark.driver.memory": "1g",
        "spark.sql.streaming.stopTimeout": "30s",
        "spark.driver.extraJavaOptions": f"{QUICK_START} -Dderby.system.home={home}",
    }
    session = builder("penstock-tests", "local[2]", settings).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
