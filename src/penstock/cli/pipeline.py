"""`penstock pipeline`: routing on Spark as a file says, with progress, figures, and a clean end."""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.cli.arguments import EXIT_FAILED, EXIT_INTERRUPTED
from penstock.cli.files import why
from penstock.cli.progress import telling
from penstock.cli.signals import left_to_a_loop
from penstock.errors import InputError, PenstockError
from penstock.spark.pipeline import config
from penstock.spark.pipeline.progress import Summary
from penstock.spark.pipeline.run import Run, Stop, check_places, explained
from penstock.spark.pipeline.sessions import in_keys, new_log, quiet_session
from penstock.spark.session import told_by_signals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EVERY_S: Final = 10.0
"""Seconds between lines of progress where there is no terminal."""


def run(options: argparse.Namespace) -> int:
    """Run a pipeline and print the figures."""
    pipeline, name = _loaded(options)
    check_places(pipeline)
    stop = Stop()
    with _telling(name, quiet=options.quiet) as tell:
        tell("starting Spark")
        with _session(options, pipeline, name) as session:
            # Asked once, and again; nothing is interrupted in the middle.
            with told_by_signals(stop.ask):
                summary = Run(session, pipeline, name, stop, tell).wait()
            if summary.ended == "failed":
                options.keep_log = True
    return _told(summary, options)


def explain(options: argparse.Namespace) -> int:
    """Print what a pipeline would do."""
    pipeline, name = _loaded(options)
    with telling(name) as tell, _session(options, pipeline, name) as session:
        tell("looking at the source and the subscriptions")
        try:
            text = explained(session, pipeline)
        except PenstockError as error:
            raise InputError(in_keys(str(error))) from None
    sys.stdout.write(f"{text}\n")
    return 0


def example(_options: argparse.Namespace) -> int:
    """Print a file with all settings."""
    sys.stdout.write(config.example())
    return 0


def _loaded(options: argparse.Namespace) -> tuple[config.Pipeline, str]:
    given = {key: getattr(options, key) for key in ("master", "checkpoint", "trigger")}
    pipeline = config.load(options.file, {key: text for key, text in given.items() if text is not None})
    return pipeline, pipeline.name or Path(options.file).stem


def _told(summary: Summary, options: argparse.Namespace) -> int:
    if options.json:
        sys.stdout.buffer.write(msgspec.json.encode(summary) + b"\n")
    else:
        sys.stdout.write("".join(f"{line}\n" for line in summary.lines()))
    sys.stdout.flush()
    if summary.ended == "failed":
        sys.stderr.write(f"penstock: {summary.error}; Spark's log is {options.log}\n")
        return EXIT_FAILED
    if summary.ended == "interrupted":
        sys.stderr.write("penstock: interrupted\n")
        return EXIT_INTERRUPTED
    return 0


@contextmanager
def _session(options: argparse.Namespace, pipeline: config.Pipeline, name: str) -> "Iterator[SparkSession]":
    """A session whose log is removed if all went well, and it was not asked for."""
    is_asked_for = options.log is not None
    log = Path(options.log) if is_asked_for else new_log()
    options.log, options.keep_log = log, is_asked_for
    try:
        log.open("ab").close()
    except OSError as error:
        raise InputError(f"{log}: cannot be written: {why(error)}") from None
    try:
        # Spark sets a handler of its own; what was there is put back in the end.
        with left_to_a_loop(), quiet_session(name, pipeline.master, pipeline.settings, log) as session:
            yield session
    except InputError as error:
        options.keep_log |= str(log) in str(error)
        raise
    finally:
        if not options.keep_log:
            log.unlink(missing_ok=True)


@contextmanager
def _telling(name: str, *, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Give a function to call with how far it is: a live line, or without a terminal one now and then."""
    if quiet:
        yield lambda _text: None
        return
    if sys.stderr.isatty():
        with telling(name) as tell:
            yield tell
        return
    last, said = time.monotonic(), ""

    def now_and_then(text: str) -> None:
        nonlocal last, said
        if text != said and time.monotonic() - last >= _EVERY_S:
            sys.stderr.write(f"{name}: {text}\n")
            last, said = time.monotonic(), text

    yield now_and_then
