"""`penstock bench spark`: a session for it, a folder for it, and both away at the end."""

import argparse
import logging
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, Final

from penstock.bench.spark import covering, plain, report
from penstock.bench.spark.bare import engine
from penstock.bench.spark.report import Report
from penstock.bench.spark.trial import Choices, Say, Trial
from penstock.bench.spark.workload import FILES, check_space
from penstock.errors import InputError
from penstock.spark.placing import cores_of
from penstock.spark.session import builder, signals_held_back

if TYPE_CHECKING:
    from types import FrameType

    from pyspark.sql import SparkSession

Handler = Callable[[int, Any], Any] | int | None

EVENTS: Final = 10_000_000
FILTERS: Final = (100_000, 1_000_000)

_LOGGING: Final = """\
rootLogger.level = off
rootLogger.appenderRef.stderr.ref = stderr
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = off
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n
"""
"""Nothing, from the first line on: what fails is raised here, and jobs that are cancelled are no failures.

The second logger is that whose level Spark tells when it starts.
"""


def run(options: argparse.Namespace, say: Say) -> int:
    """Measure, and print tables or JSON; fail where not all found the same matches."""
    if options.covering:
        return run_covering(options, say)
    choices = chosen(options)
    made = Report(choices=choices)
    try:
        with _folder(options.folder) as folder:
            check_space(folder, choices.events, list(choices.filters))
            measure(choices, folder, made, say)
    finally:
        # Also when it is interrupted: what has been measured shall not be lost.
        if made.sizes or made.joins:
            (report.write_json if options.json else report.show)(made)
    return int(not report.agrees(made))


def run_covering(options: argparse.Namespace, say: Say) -> int:
    """Measure posets of rules in place of routing."""
    count = max(1, round(max(options.filters or FILTERS) * options.scale))
    found: list[covering.Covered] = []
    try:
        with _folder(options.folder) as folder, _session(options.master, folder) as session:
            # Workers have to be started, and to import what they need.
            covering.measure(session, folder, "alerts", covering.FEW, options.seed, say)
            for rules in covering.RULES:
                found.append(covering.measure(session, folder, rules, count, options.seed, say))  # noqa: PERF401 - keeps what came before an error
    finally:
        if found:
            (report.write_covering_json if options.json else report.show_covering)(found)
    return 0


def chosen(options: argparse.Namespace) -> Choices:
    """What the options ask for."""
    if not options.master.startswith("local"):
        raise InputError(
            f"--master {options.master}: the engine runs beside it, so only local[N] is measured"
        )
    filters = tuple(max(1, round(count * options.scale)) for count in options.filters or FILTERS)
    return Choices(
        # As many in each file, so that half of the files are half of the events.
        events=max(FILES, round(options.events * options.scale) // FILES * FILES),
        filters=tuple(sorted(set(filters))),
        repeats=options.repeats,
        budget=options.budget,
        master=options.master,
        seed=options.seed,
    )


def measure(choices: Choices, folder: Path, made: Report, say: Say) -> None:
    """Measure all sizes, then the joins with the fewest filters."""
    say("starting Spark")
    started = time.perf_counter()
    with _session(choices.master, folder) as session, engine(cores_of(session)) as bare:
        made.version = session.version
        trial = Trial(session, folder, bare, choices, say)
        made.start = trial.start(time.perf_counter() - started)
        for filters in choices.filters:
            made.sizes.append(trial.size(filters))
        for name in plain.JOINS:
            made.joins.append(trial.join(name, choices.filters[0]))


@contextmanager
def _folder(given: str | None) -> Iterator[Path]:
    """A folder below the one that was given, which stays; or one that goes."""
    if given is not None:
        folder = Path(given).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    folder = Path(mkdtemp(prefix="penstock-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _session(master: str, folder: Path) -> "Iterator[SparkSession]":
    logging = folder / "log4j2.properties"
    logging.write_text(_LOGGING)
    java = f"-Dlog4j2.configurationFile={logging.as_uri()} -Dderby.system.home={folder}"
    settings = {
        "spark.driver.memory": f"{driver_megabytes()}m",
        "spark.driver.maxResultSize": "0",
        "spark.driver.extraJavaOptions": java,
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        # Some tasks for each core, so that the last one does not run alone for long.
        "spark.sql.files.maxPartitionBytes": "32m",
    }
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    session: SparkSession | None = None
    try:
        with signals_held_back():
            session = builder("penstock-bench", master, settings).getOrCreate()
        with _ending_jobs(session, before):
            yield session
    finally:
        if session is not None:
            session.stop()
        shutil.rmtree(folder / "local", ignore_errors=True)


@contextmanager
def _ending_jobs(session: "SparkSession", before: Mapping[signal.Signals, Handler]) -> Iterator[None]:
    """Have signals end Spark's jobs, then do what they did `before` Spark took Ctrl-C for itself.

    What waits for a job hears of its end in many ways, and some are told at length; it was interrupted.
    """
    interrupted = False

    def end(number: int, frame: "FrameType | None") -> None:
        nonlocal interrupted
        if interrupted:
            return
        interrupted = True
        logging.disable(logging.CRITICAL)
        with suppress(Exception):
            session.sparkContext.cancelAllJobs()
        handler = before[signal.Signals(number)]
        if callable(handler):
            handler(number, frame)

    for number, handler in before.items():
        if callable(handler):
            signal.signal(number, end)
    try:
        yield
    except Exception:
        if interrupted:
            raise KeyboardInterrupt from None
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def driver_megabytes() -> int:
    """Memory for Spark itself: a quarter of this machine's, from one to four gigabytes."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1024, min(4096, total // 4 // 2**20))
