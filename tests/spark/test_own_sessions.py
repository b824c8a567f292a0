"""Sessions that were made without `builder`, in a virtual environment that is not activated."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from patience import HANGS
from penstock.errors import InputError
from penstock.spark import kernels, python
from penstock.spark.java import find_java

THIS = ".".join(map(str, sys.version_info[:2]))

SESSION = """
from pyspark.sql import SparkSession

settings = {"spark.ui.enabled": "false"}
settings |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()


def load():
    # That it refuses an option, in words, shows that it is there, and that Python can make it.
    try:
        spark.read.format("penstock").option("nonsense", "1").load()
    except Exception as error:
        told = str(error)
        print("nonsense" in told and "penstock.errors" in told, told.splitlines()[1][:500])
"""

ROUTE = """
from penstock.spark import route

events = spark.sql("select * from values (1, 'JFK', 75), (2, 'EWR', 3) as t(n, origin, dep_delay)")
late, ewr = "('late', 'dep_delay > 60')", "('ewr', 'n = 2')"
rules = spark.sql(f"select * from values {late}, {ewr} as t(id, filter)")
print(sorted((row.n, list(row.ids)) for row in route(events, rules).collect()))
"""

ANSWER = "[(1, ['late']), (2, ['ewr'])]"


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


def test_a_plain_session_on_this_machine_runs_this_python_and_knows_the_format_after_an_import(
    tmp_path: Path,
) -> None:
    script = tmp_path / "own.py"
    script.write_text(f"{SESSION}\nload()\nimport penstock.spark\nload()\n{ROUTE}\nload()\n")
    done = run(script)
    assert done.returncode == 0, done.stderr
    unknown, imported, routed, again = done.stdout.splitlines()
    assert unknown.startswith("False")
    # docs/PIPELINE.md says what the first line that fails looks like, and what is to be added.
    page = (Path(__file__).parents[2] / "docs" / "PIPELINE.md").read_text()
    assert unknown.removeprefix("False ").removeprefix(": ") in page
    assert (imported.partition(" ")[0], again.partition(" ")[0]) == ("True", "True")
    assert routed == ANSWER


def test_a_session_that_is_made_after_the_import_knows_the_format(tmp_path: Path) -> None:
    script = tmp_path / "own.py"
    script.write_text(f"import penstock.spark\n{SESSION}\nload()\n{ROUTE}\nload()\n")
    done = run(script)
    assert done.returncode == 0, done.stderr
    first, routed, again = done.stdout.splitlines()
    assert (first.partition(" ")[0], routed, again.partition(" ")[0]) == ("True", ANSWER, "True")
    # Nothing is registered over what Spark has found.
    assert "replaced a" not in done.stderr


class Java:
    """Java's environment, in which Spark finds the format with this Python."""

    class System:
        """What `getenv` is asked of."""

        @staticmethod
        def getenv(_name: str) -> str:
            return sys.executable


class Context:
    """A context of a cluster, or of this machine."""

    def __init__(
        self, master: str, executable: str, has_penstock: bool = False, error: str | None = None
    ) -> None:
        self.master, self.pythonExec, self.applicationId = master, executable, f"app-{id(self)}"
        self.asked = 0
        self._has = has_penstock
        self._error = error
        self._jvm = Java()

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
        if self._error is not None:
            raise RuntimeError(self._error)
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
        "workers run python3 (PYSPARK_PYTHON), which has no penstock: set it to a Python "
        f"{THIS} that has penstock, on all machines, before the session starts"
    )
    # They are asked once.
    assert (context.asked, context.pythonExec) == (1, "python3")


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        (
            'Job aborted: java.io.IOException: Cannot run program "/opt/py": error=2, No such file\n\tat a.b',
            "workers cannot run /opt/py (PYSPARK_PYTHON): set it to a Python {this} that has penstock, "
            "on all machines, before the session starts",
        ),
        (
            "PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.1 than "
            "that in driver: 3.11, PySpark cannot run with different minor versions.\nPlease check",
            "workers run python3 (PYSPARK_PYTHON), which is Python 3.1, and this program runs Python {this}: "
            "set it to a Python {this} that has penstock, on all machines, before the session starts",
        ),
    ],
)
def test_where_workers_of_a_cluster_run_no_python_or_another_a_sentence_says_so(
    error: str, wanted: str
) -> None:
    with pytest.raises(InputError) as raised:
        python.ready(Session(Context("spark://m:7077", "python3", error=error)))  # type: ignore[arg-type]
    assert str(raised.value) == wanted.format(this=THIS)
    with pytest.raises(RuntimeError, match="the network is down"):
        python.ready(Session(Context("spark://m", "python3", error="the network is down")))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "is_running", "wanted"),
    [
        ({}, False, sys.executable),
        ({"PYSPARK_PYTHON": "p"}, False, None),
        ({"PYSPARK_DRIVER_PYTHON": "d"}, False, "d"),
        ({"PYSPARK_GATEWAY_PORT": "1"}, False, None),
        ({}, True, None),
    ],
)
def test_importing_says_which_python_looks_for_formats_before_java_starts(
    given: dict[str, str],
    is_running: bool,
    wanted: str | None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYSPARK_GATEWAY_PORT"):
        # Set first, so that it is as it was in the end.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(pyspark.SparkContext, "_gateway", object() if is_running else None)
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    python.on_import()
    assert os.environ.get("PYSPARK_DRIVER_PYTHON") == wanted
    # Which workers of a cluster run is not for an import to say.
    assert os.environ.get("PYSPARK_PYTHON") == given.get("PYSPARK_PYTHON")
    monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    python.on_import()
    assert os.environ.get("PYSPARK_DRIVER_PYTHON") is None


def test_workers_of_a_cluster_that_have_penstock_are_left_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    context, sent = Context("yarn", "python3", has_penstock=True), list[object]()
    monkeypatch.setattr(kernels, "send", sent.append)
    for _ in range(2):
        python.ready(Session(context))  # type: ignore[arg-type]
    assert (context.asked, context.pythonExec) == (1, "python3")
    assert sent == [context, context]


def test_a_python_that_was_chosen_stays_if_it_has_penstock(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wrong = tmp_path / "python3"
    wrong.write_text("#!/bin/sh\nexit 1\n")
    wrong.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(wrong))
    with pytest.raises(InputError) as raised:
        python.ready(Session(Context("local[2]", str(wrong))))  # type: ignore[arg-type]
    assert str(raised.value) == (
        f"workers cannot run {wrong} (PYSPARK_PYTHON): set it to a Python {THIS} that has penstock, "
        "on all machines, before the session starts"
    )
    for version, told in (
        (THIS, "has no penstock: unset it, or set it to this one"),
        ("2.7", "Python 2.7, and"),
    ):
        other = tmp_path / f"python{version}"
        other.write_text(f"#!/bin/sh\necho {version}\nexit 1\n")
        other.chmod(0o755)
        with pytest.raises(InputError, match=told):
            python.ready(Session(Context("local[2]", str(other))))  # type: ignore[arg-type]
    chosen = Context("local[2]", sys.executable)
    python.ready(Session(chosen))  # type: ignore[arg-type]
    assert chosen.pythonExec == sys.executable


def test_a_session_that_has_no_context_is_left_as_it_is() -> None:
    class Remote:
        @property
        def sparkContext(self) -> Context:  # noqa: N802 - as Spark calls it
            raise RuntimeError("not supported in Spark Connect")

    python.ready(Remote())  # type: ignore[arg-type]
