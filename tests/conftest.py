"""Hypothesis profiles, quick for `make test`, thorough for `make nightly`; warm kernels; a Spark session."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from spark_sessions import QUICK_START, session_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Also for the Java that commands under test start.
os.environ.setdefault("JDK_JAVA_OPTIONS", QUICK_START)

# Tests are about kernels, but for those that say otherwise.
os.environ.setdefault("PENSTOCK_KERNELS", "wait")

_SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]

settings.register_profile(
    "quick", max_examples=150, deadline=None, derandomize=True, suppress_health_check=_SLOW_IS_FINE
)
settings.register_profile("nightly", max_examples=20_000, deadline=None, suppress_health_check=_SLOW_IS_FINE)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


@pytest.fixture(scope="session")
def warm_kernels() -> None:
    """Kernels on disk: brokers listen within seconds, and commands say nothing of having to compile them."""
    from penstock.cli.main import main

    assert main(["warm"]) == 0


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """One session for all tests of a process: a JVM takes seconds to start."""
    from penstock.spark.session import builder

    settings = session_settings(tmp_path_factory.mktemp("spark"))
    session = builder("penstock-tests", "local[2]", settings).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def _no_sync() -> Iterator[None]:
    """Folders are not written through to the disk: what tests write need not outlive a power cut."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda _: None)
        yield
