"""Sessions that were made without `builder`, in a virtual environment that is not activated."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from patience import HANGS
from penstock.errors import InputError
from penstock.spark import python
from penstock.spark.java import find_java

SCRIPT = """
from pyspark.sql import SparkSession

settings = {"spark.ui.enabled": "false"}
settings |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
events = spark.sql("select * from values (1, 'JFK', 75), (2, 'EWR', 3) as t(n, origin, dep_delay)")
late, ewr = "('late', 'dep_delay > 60')", "('ewr', 'n = 2')"
rules = spark.sql(f"select * from values {late}, {ewr} as t(id, filter)")

from penstock.spark import route, use

print(sorted((row.n, list(row.ids)) for row in route(events, rules).collect()))
use(spark)
try:
    spark.read.format("penstock").option("nonsense", "1").load()
except Exception as error:
    print("nonsense" in str(error), "penstock.errors" in str(error))
"""


def run(script: Path, **more: str) -> subprocess.CompletedProcess[str]:
    other = script.parent / "python3"
    other.write_text("#!/bin/sh\necho 'the wrong python' >&2\nexit 1\n")
    other.chmod(0o755)
    dropped = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    path = f"{script.parent}{os.pathsep}{os.environ['PATH']}"
    environment = kept | {"PATH": path, "JAVA_HOME": str(find_java().home), **more}
    return subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=4 * HANGS
    )


def test_a_plain_session_on_this_machine_runs_this_python(tmp_path: Path) -> None:
    script = tmp_path / "own.py"
    script.write_text(SCRIPT)
    done = run(script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[(1, ['late']), (2, ['ewr'])]", "True True"]


class Context:
    """A context of a cluster, or of this machine."""

    def __init__(self, master: str, executable: str, has_penstock: bool = False) -> None:
        self.master, self.pythonExec, self.applicationId = master, executable, f"app-{id(self)}"
        self.asked = 0
        self._has = has_penstock

    def parallelize(self, _numbers: list[int], _parts: int) -> "Context":
        return self

    def map(self, function: object) -> "Context":
        assert callable(function)
        assert function(0) is True
        # Whoever is sent it has no module of that name.
        assert function.__module__ == "__main__"
        return self

    def first(self) -> bool:
        self.asked += 1
        return self._has


class Session:
    """Has a context."""

    def __init__(self, context: Context) -> None:
        self.sparkContext = context


def test_where_workers_of_a_cluster_have_no_penstock_a_sentence_says_what_to_set() -> None:
    context = Context("spark://m:7077", "python3")
    for _ in range(2):
        with pytest.raises(InputError) as raised:
            python.ready(Session(context))  # type: ignore[arg-type]
    assert str(raised.value) == (
        "workers run python3 (PYSPARK_PYTHON), which has no penstock: set it to one that has, "
        "on all machines, before the session starts"
    )
    # They are asked once.
    assert (context.asked, context.pythonExec) == (1, "python3")


def test_workers_of_a_cluster_that_have_penstock_are_left_as_they_are() -> None:
    context = Context("yarn", "python3", has_penstock=True)
    for _ in range(2):
        python.ready(Session(context))  # type: ignore[arg-type]
    assert (context.asked, context.pythonExec) == (1, "python3")


def test_a_python_that_was_chosen_stays_if_it_has_penstock(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wrong = tmp_path / "python3"
    wrong.write_text("#!/bin/sh\nexit 1\n")
    wrong.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(wrong))
    with pytest.raises(InputError, match="has no penstock: unset it, or set it to this one"):
        python.ready(Session(Context("local[2]", str(wrong))))  # type: ignore[arg-type]
    chosen = Context("local[2]", sys.executable)
    python.ready(Session(chosen))  # type: ignore[arg-type]
    assert chosen.pythonExec == sys.executable


def test_a_session_that_has_no_context_is_left_as_it_is() -> None:
    class Remote:
        @property
        def sparkContext(self) -> Context:  # noqa: N802 - as Spark calls it
            raise RuntimeError("not supported in Spark Connect")

    python.ready(Remote())  # type: ignore[arg-type]
