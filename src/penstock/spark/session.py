"""Sessions with settings that suit Penstock. Only programs make sessions: commands, benchmarks, tests.

Library code takes a DataFrame and uses its session, whatever it is. What is set here may be set for any other
session too; docs/PIPELINE.md says why.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from penstock.errors import MissingExtraError
from penstock.spark.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_SETTINGS: Final[Mapping[str, str]] = {
    # Nobody else's business: everything stays on this machine.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
}
SETTINGS: Final[Mapping[str, str]] = {
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # A worker that crashes says where.
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
    # A call into the engine has a price of its own: larger batches, fewer calls.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # Where both sides send at once, buffers of loopback connections can fill up until nothing moves for
    # minutes: seen with Linux 6 and tens of megabytes under way. Files of the file system cannot.
    "spark.python.unix.domain.socket.enabled": "true",
    # Tasks are what is parallel; threads below them would only get in each other's way.
    "spark.executorEnv.NUMBA_NUM_THREADS": "1",
    "spark.sql.python.filterPushdown.enabled": "true",
}


def builder(
    name: str = "penstock", master: str | None = None, settings: Mapping[str, str] | None = None
) -> "SparkSession.Builder":
    """A builder of sessions, for programs that have none yet: `builder().getOrCreate()`.

    Finds Java (JAVA_HOME is set to it), and has workers on this machine run this very Python. `settings` go
    before those made here.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingExtraError("this needs Spark: pip install 'penstock[spark]'") from None
    os.environ["JAVA_HOME"] = str(find_java().home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    master = master or os.environ.get("MASTER") or "local[*]"
    local = LOCAL_SETTINGS if master.startswith("local") else {}
    made = SparkSession.builder.appName(name).master(master)
    for key, value in {**SETTINGS, **local, **(settings or {})}.items():
        made = made.config(key, value)
    return made


@contextmanager
def signals_held_back() -> Iterator[None]:
    """While Java starts, have Ctrl-C and SIGTERM wait; then raise KeyboardInterrupt, if there was any.

    pyspark removes the folder in which Java tells its port if it is interrupted there. Java then waits for
    ever, for nobody, and nothing is left here to end it by.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    told = threading.Event()
    try:
        with told_by_signals(told.set):
            yield
    finally:
        if told.is_set():
            # Whatever became of the start: Java may have been told to end, too.
            raise KeyboardInterrupt


@contextmanager
def told_by_signals(tell: Callable[[], object]) -> Iterator[None]:
    """Have Ctrl-C and SIGTERM call this, and interrupt nothing; what they did before is put back."""

    def called(_signal: int, _frame: object) -> None:
        tell()

    before = {number: signal.signal(number, called) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
