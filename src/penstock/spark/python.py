"""Which Python Spark's workers run: it has to be one that has Penstock.

Unless told otherwise, PySpark has workers run whichever `python3` the PATH finds. Where a script runs in
a virtual environment that is not activated, that is another one. On one machine this is put right. On a
cluster only its owner can: then an error says so in a sentence, before a job starts.
"""

import os
import shutil
import subprocess
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import InputError
from penstock.spark.placing import is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK: Final = "lambda _number: __import__('importlib.util').util.find_spec('penstock') is not None"
"""What a worker is asked. It knows nothing of this module then, so it is sent as it is."""

_PATIENCE_S: Final = 60.0

_seen: dict[str, bool] = {}
"""By application: whether workers have Penstock."""


def use(session: "SparkSession") -> None:
    """Have a session ready for Penstock: its workers, and `format("penstock")`.

    Only sessions that were made without `builder`, in an environment that is not activated, need this for
    `format("penstock")`; other functions do what they need of it themselves.
    """
    from penstock.spark.source.source import PenstockSource

    ready(session)
    session.dataSource.register(PenstockSource)


def ready(session: "SparkSession") -> None:
    """Have the workers of a session run a Python that has Penstock. Raises InputError where it cannot be."""
    try:
        context = session.sparkContext
    except Exception:
        # A session of Spark Connect does not say what its workers run.
        return
    if is_local(session):
        if "PYSPARK_PYTHON" not in os.environ:
            context.pythonExec = sys.executable
        elif not _has_penstock(context.pythonExec):
            raise InputError(_wrong(context.pythonExec, "unset it, or set it to this one"))
        return
    known = _seen.get(context.applicationId)
    if known is None:
        known = _seen[context.applicationId] = _ask_a_worker(context)
    if not known:
        advice = "set it to one that has, on all machines, before the session starts"
        raise InputError(_wrong(context.pythonExec, advice))


def _wrong(executable: str, advice: str) -> str:
    return f"workers run {executable} (PYSPARK_PYTHON), which has no penstock: {advice}"


@cache
def _has_penstock(executable: str) -> bool:
    """Whether a Python of this machine has Penstock."""
    if shutil.which(executable) == sys.executable:
        return True
    try:
        looked = subprocess.run(  # noqa: S603 - it is what Spark would run
            [executable, "-c", "import penstock"], capture_output=True, timeout=_PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        # Spark says better what is wrong with it.
        return True
    return looked.returncode == 0


def _ask_a_worker(context: Any) -> bool:
    look = eval(_LOOK, {"__name__": "__main__"})  # noqa: S307 - what is to be evaluated stands above
    return bool(context.parallelize([0], 1).map(look).first())
