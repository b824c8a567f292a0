"""Which Python Spark's workers run: it has to have Penstock; and `format("penstock")` in a session.

Unless told otherwise, PySpark has workers run whichever `python3` the PATH finds. Where a script runs in
a virtual environment that is not activated, that is another one. On one machine this is put right. On a
cluster only its owner can: then an error says so in a sentence, before a job starts.

Spark looks for data sources (`pyspark_penstock`) with the Python that Java's environment names, which for the
same reason may be another. A session that would not find `format("penstock")` is told of it, when a function
is first called with it, or when `penstock.spark` is imported.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from penstock.errors import InputError
from penstock.spark import kernels
from penstock.spark.placing import is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK: Final = "lambda _number: __import__('importlib.util').util.find_spec('penstock') is not None"
"""What a worker is asked. It knows nothing of this module then, so it is sent as it is."""

_LOOK_HERE: Final = "import sys; print('%d.%d' % sys.version_info[:2], flush=True); import penstock"
"""What a Python of this machine is asked."""

_PATIENCE_S: Final = 60.0

_CANNOT_RUN: Final = re.compile(r'Cannot run program "([^"]*)"')
_MISMATCH: Final = re.compile(r"PYTHON_VERSION_MISMATCH\]?\D*?different version: (\d+\.\d+)")
"""What Spark says of a Python that does not start, or is another version."""

_seen: dict[str, bool] = {}
"""By application: whether workers have Penstock."""

_told: "WeakSet[SparkSession]" = WeakSet()
"""Sessions that know `format("penstock")`."""


def use(session: "SparkSession") -> None:
    """Have a session ready for Penstock: its workers, and `format("penstock")`.

    Functions that are given a DataFrame do so by themselves. This is for sessions of Spark Connect.
    """
    ready(session)
    if session not in _told:
        _register(session)


def ready(session: "SparkSession") -> None:
    """Have the workers of a session run a Python that has Penstock. Raises InputError where it cannot be.

    Also has the session know `format("penstock")`.
    """
    try:
        context = session.sparkContext
    except Exception:
        # A session of Spark Connect does not say what its workers run.
        return
    if is_local(session):
        _choose(context)
        _check_here(context.pythonExec)
    else:
        known = _seen.get(context.applicationId)
        if known is None:
            known = _seen[context.applicationId] = _ask_a_worker(context)
        if not known:
            raise InputError(f"{_workers_run(context.pythonExec)}, which has no penstock: {_advice()}")
        kernels.send(context)
    introduce(session)


def introduce(session: "SparkSession") -> None:
    """Have a session with a context know `format("penstock")`, if it would not find it by itself."""
    if session in _told:
        return
    if is_local(session):
        _choose(session.sparkContext)
    if not _is_known(session):
        _register(session)
    _told.add(session)


def _choose(context: Any) -> None:
    """Have workers on this machine run this Python, unless another was chosen."""
    if "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable


def _is_known(session: "SparkSession") -> bool:
    """Whether Spark has found the format, or will."""
    jvm: Any = session.sparkContext._jvm
    environment = jvm.System.getenv
    looking = environment("PYSPARK_DRIVER_PYTHON") or environment("PYSPARK_PYTHON") or "python3"
    if _is_this_python(looking):
        # It looks when somebody asks, which takes a second: not now.
        return True
    return bool(session._jsparkSession.sessionState().dataSourceManager().dataSourceExists("penstock"))


def _register(session: "SparkSession") -> None:
    from penstock.spark.source.source import PenstockSource

    session.dataSource.register(PenstockSource)
    _told.add(session)


def on_import() -> None:
    """Have `format("penstock")` found in the session that there is, or in the one that is going to be.

    In a worker, have kernels that the driver has sent found.

    Java's environment is that of this process when the first session starts. PYSPARK_PYTHON is not set: on a
    cluster it would have all machines run the path of this one. What is set is the Python of the driver, by
    which Spark looks for data sources, and only where `python3` is another.
    """
    if _is_worker():
        kernels.expect()
        return
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    if getattr(context, "_gateway", None) is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        is_said = "PYSPARK_PYTHON" in os.environ or "PYSPARK_DRIVER_PYTHON" in os.environ
        if not is_said and sys.executable and not _is_this_python("python3"):
            os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        return
    try:
        from pyspark.sql import SparkSession

        session = SparkSession.getActiveSession()
        if session is not None:
            introduce(session)
    except Exception:
        # An import fails for no session: whoever reads is told what is missing.
        return


def _is_worker() -> bool:
    """Whether this process is a Python worker of Spark's."""
    files = getattr(sys.modules.get("pyspark"), "SparkFiles", None)
    return bool(getattr(files, "_is_running_on_worker", False))


def _is_this_python(executable: str) -> bool:
    """Whether a program is this Python, in this environment: it may have several names there."""
    found, own = shutil.which(executable), sys.executable
    if found is None or not own:
        return False
    return found == own or (Path(found).parent == Path(own).parent and Path(found).samefile(own))


def _workers_run(executable: str) -> str:
    return f"workers run {executable} (PYSPARK_PYTHON)"


def _advice() -> str:
    needed = f"a Python {_version()} that has penstock"
    return f"set it to {needed}, on all machines, before the session starts"


def _version() -> str:
    return ".".join(platform.python_version_tuple()[:2])


def _cannot_run(executable: str) -> InputError:
    return InputError(f"workers cannot run {executable} (PYSPARK_PYTHON): {_advice()}")


def _other_version(executable: str, version: str) -> InputError:
    both = f"which is Python {version}, and this program runs Python {_version()}"
    return InputError(f"{_workers_run(executable)}, {both}: {_advice()}")


def _check_here(executable: str) -> None:
    """Raise InputError unless a Python of this machine can be the workers'."""
    version, has_penstock = _look_here(executable)
    if version is None:
        raise _cannot_run(executable)
    if version != _version():
        raise _other_version(executable, version)
    if not has_penstock:
        advice = "unset it, or set it to this one"
        raise InputError(f"{_workers_run(executable)}, which has no penstock: {advice}")


@cache
def _look_here(executable: str) -> tuple[str | None, bool]:
    """The version of a Python of this machine, if it is one, and whether it has Penstock."""
    if _is_this_python(executable):
        return _version(), True
    try:
        looked = subprocess.run(  # noqa: S603 - it is what Spark would run
            [executable, "-c", _LOOK_HERE], capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
    except OSError:
        return None, False
    except subprocess.TimeoutExpired:
        # It may be slow for once: Spark is asked.
        return _version(), True
    return looked.stdout.strip() or None, looked.returncode == 0


def _ask_a_worker(context: Any) -> bool:
    """Whether workers have Penstock. Raises InputError where they run no Python, or another version."""
    look = eval(_LOOK, {"__name__": "__main__"})  # noqa: S307 - what is to be evaluated stands above
    try:
        return bool(context.parallelize([0], 1).map(look).first())
    except Exception as error:
        told = str(error)
        if cannot := _CANNOT_RUN.search(told):
            raise _cannot_run(cannot[1]) from None
        if other := _MISMATCH.search(told):
            raise _other_version(context.pythonExec, other[1]) from None
        raise
