"""A session that keeps to itself: what Spark and its workers print goes into a log, not onto the terminal.

The level of Spark's logging would not do for that: the Java machine prints warnings of its own, and threads
that are stopped print what they were doing, page after page.
"""

import logging
import os
import re
import subprocess
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkstemp
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import InputError
from penstock.spark.failures import own_error
from penstock.spark.session import LOCAL_SETTINGS, SETTINGS, builder, signals_held_back

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_END_S: Final = 20
"""Seconds that the Java machine is given to end."""

_PYTHON: Final = re.compile(r"^(?P<kind>(?:\w+\.)*\w+(?:Error|Exception)): (?P<said>[^\n]+)$", re.MULTILINE)
_CLASS: Final = re.compile(r"^(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error): ")
_NAME: Final = re.compile(r"^\[(?P<name>[A-Z][A-Z0-9_.]+)\] ")
_STATE: Final = re.compile(r"\.? SQLSTATE: \w{5}.*$")
_CALL: Final = re.compile(r"An error occurred while calling \S+$")
_QUERY: Final = re.compile(r"Query \[id = [^]]*\] terminated with exception: ")
_CAUSE: Final = "Caused by: "
_SAID_MAX: Final = 500


def new_log() -> Path:
    """A file that Spark's output can go to."""
    handle, name = mkstemp(prefix="penstock-spark-", suffix=".log")
    os.close(handle)
    return Path(name)


@contextmanager
def quiet_session(
    name: str, master: str | None, settings: Mapping[str, str], log: Path
) -> "Iterator[SparkSession]":
    """A new session, and its Java machine; both end with the block."""
    made = builder(name, master, settings)
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    _hush_python()
    master = master or os.environ.get("MASTER") or "local[*]"
    own = {
        # A batch that does not let itself be stopped is left to the end of the session.
        "spark.sql.streaming.stopTimeout": "20s",
        # Python's part of a failure says enough.
        "spark.sql.pyspark.jvmStacktrace.enabled": "false",
    }
    local = LOCAL_SETTINGS if master.startswith("local") else {}
    conf = SparkConf().setMaster(master).setAppName(name)
    for key, value in {**SETTINGS, **local, **own, **settings}.items():
        conf.set(key, value)
    gateway: Any = None
    context: SparkContext | None = None
    try:
        try:
            with log.open("ab") as out, signals_held_back():
                # In a group of its own: what is sent to ours, Ctrl-C or SIGTERM, must not end it before us.
                how = {"stderr": out, "stdout": out, "process_group": 0}
                gateway = launch_gateway(conf, how)  # type: ignore[no-untyped-call]
            context = SparkContext(conf=conf, gateway=gateway)
        except Exception as error:
            raise InputError(f"Spark does not start: {said_by_spark(error)}; its log is {log}") from None
        yield made.getOrCreate()
    finally:
        if context is not None:
            with suppress(Exception), warnings.catch_warnings():
                # Whoever ended us may have ended Java before; pyspark warns of that.
                warnings.simplefilter("ignore")
                context.stop()
        if gateway is not None:
            _end(gateway)


def _hush_python() -> None:
    """Have pyspark not print every error that it raises, too, with Java's stack."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)
    # A call to Java that a signal interrupts is told with a traceback, by the root logger itself.
    logging.getLogger().setLevel(logging.CRITICAL + 1)
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)


def _end(gateway: Any) -> None:
    """Have the Java machine end, and wait for it: it must not outlive the program."""
    with suppress(Exception):
        gateway.shutdown()
    process = gateway.proc
    if process is None:
        return
    with suppress(Exception):
        process.stdin.close()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def said_by_spark(error: object) -> str:
    """What went wrong, in one sentence out of what Spark says.

    That is the cause in Python, where there is one: Spark tells of the task, the stage, the job and the query
    that failed because of it, each with a stack trace.
    """
    if isinstance(error, BaseException) and (own := own_error(error)) is not None:
        return str(own)[:_SAID_MAX]
    text = str(error)
    lines = [line.strip() for line in text.strip().splitlines()]
    python = _PYTHON.search(text) if "Traceback (most recent call last)" in text else None
    if python:
        return f"{python['kind'].rpartition('.')[2]}: {python['said'].strip()}"[:_SAID_MAX]
    lines = [_QUERY.sub("", line) for line in lines if line and not _CALL.match(line)]
    said = _plain(lines[0]) if lines else type(error).__name__
    # Of causes the last is the first in time: what it says, nothing else does.
    causes = [line for line in lines if line.startswith(_CAUSE)]
    because = _plain(causes[-1].removeprefix(_CAUSE)) if causes else ""
    return said if because in said else f"{said}: {because}"[:_SAID_MAX]


def _plain(line: str) -> str:
    """A message of Java's without the names of classes, conditions and states."""
    return _STATE.sub("", _NAME.sub("", _CLASS.sub("", line.removeprefix(": "))))[:_SAID_MAX].rstrip(".;: ")


_KEYS: Final = {
    "; check_subscriptions lists all that are wrong, and invalid='quarantine' goes on": (
        '; subscriptions.invalid = "quarantine" goes on'
    ),
    "invalid='quarantine'": 'subscriptions.invalid = "quarantine"',
    "CSV header does not conform to the schema": (
        "the names in its first line are not those of source.schema, in their order; "
        "options = { header = false } is for files without names"
    ),
    "unsupported='skip'": 'route.unsupported = "skip"',
    "output='rows'": 'route.output = "rows"',
    "give column= another name": "give route.column another name",
}


def in_keys(message: str) -> str:
    """What the library says of its arguments, said of the file's keys."""
    for argument, key in _KEYS.items():
        message = message.replace(argument, key)
    return message


@contextmanager
def placed(key: str) -> Iterator[None]:
    """What Spark refuses inside is told as a mistake of a setting."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise InputError(f"{key}: {said_by_spark(error)}") from None
