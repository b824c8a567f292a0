"""`penstock lint`: what is wrong with files of rules, all of it at once, before any event comes."""

import argparse
import gc
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from penstock.cli.compile import check_output, language_of
from penstock.cli.files import whole_output
from penstock.cli.findings import WRITERS, Found, Report
from penstock.cli.progress import progress, telling
from penstock.cli.schema_files import read_schema
from penstock.cli.sources import Source, size_of_all, sources
from penstock.cli.subscriptions import Fault, Place, Reading, read_subscriptions
from penstock.errors import printable
from penstock.matching.linting import CHECKS, LEVELS, Rules, lint
from penstock.model.schema import Schema

EXIT_FOUND: Final = 1


def run(options: argparse.Namespace) -> int:
    """Look at the rules of files; write what was found. The status says whether any of it is grave."""
    files = sources(options.files, options.subscriptions_format, "--subscriptions-format")
    check_output(options.output, files)
    schema = None if options.schema is None else read_schema(options.schema)
    with _collecting_nothing():
        report = _look(files, Reading(language_of(options)), schema)
    if not report.rules:
        paths = ", ".join("standard input" if source.path == "-" else source.path for source in files)
        sys.stderr.write(f"penstock: warning: no rules in {printable(paths)}\n")
    with whole_output(options.output) as write:
        for part in WRITERS[options.format](report):
            write(part.encode())
    if options.output is not None or options.format != "text":
        sys.stderr.write(f"{report.summary()}\n")
    grave = LEVELS[: LEVELS.index(options.fail_on) + 1] if options.fail_on != "never" else ()
    counts = Counter(found.level for found in report.found)
    return EXIT_FOUND if any(counts[level] for level in grave) else 0


def _look(files: list[Source], reading: Reading, schema: Schema | None) -> Report:
    rules, places, faults = Rules(), list[Place](), list[Fault]()
    reading = Reading(reading.language, faults.append, alternatives=True)
    with progress("rules", size_of_all(files)) as advance:
        for one in read_subscriptions(files, reading, advance):
            rules.add(one.id, one.predicate, one.never)
            places.append(one.place)
    with telling("looking for") as tell:
        findings = lint(rules, schema, tell)
    found = [Found("invalid", "error", fault.message, fault.place, fault.id) for fault in faults]
    for check, rule, message, other in findings:
        beside = None if other is None else places[other]
        found.append(Found(check, CHECKS[check].level, message, places[rule], rules.ids[rule], beside))
    order = {source.path: at for at, source in enumerate(files)}
    found.sort(key=lambda one: (order[one.place.file], one.place.line or one.place.row or 0))
    return Report(len(rules) + len(faults), found)


@contextmanager
def _collecting_nothing() -> Iterator[None]:
    """Millions of rules are kept until the end: looking again and again for those let go finds none."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
