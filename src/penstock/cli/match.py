"""`penstock match`: which subscriptions match which events, over files."""

import argparse
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from penstock.cli.chunks import ID, Chunk, ChunkError, Pace, Wanted, read_chunks
from penstock.cli.compile import check_output, is_compiled, language_of, load, subscription_files
from penstock.cli.events import EventOptions, families_given
from penstock.cli.files import can_be_replaced, is_same_file, whole_output
from penstock.cli.json_lines import json_line
from penstock.cli.kernels import wait_for_kernels
from penstock.cli.pool import cores, in_order
from penstock.cli.progress import progress
from penstock.cli.schema_files import Unmatchable, parquet_schema, read_schema
from penstock.cli.sources import Source, one_kind, size_of_all, sources
from penstock.cli.subscriptions import Reading
from penstock.errors import DisagreementError, InputError, printable
from penstock.filters.disagreements import Disagreement
from penstock.filters.schema_check import events_that_misfit
from penstock.matching.computed import plain_names
from penstock.matching.lines import Lines
from penstock.matching.matcher import Matcher
from penstock.matching.matches import Matches
from penstock.matching.summary import Summary, Tally
from penstock.model.events import Event
from penstock.model.fitting import Fitting
from penstock.model.places import is_inside
from penstock.model.schema import Schema
from penstock.model.values import Family

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.cli.parquet_output import ParquetRows


def run(options: argparse.Namespace) -> int:
    """Match the events of a file; write a JSON line for each that matched."""
    _check(options)
    compiled = is_compiled(options.subscriptions, options.subscriptions_format)
    rules = [] if compiled else subscription_files(options)
    events = sources(options.events, options.events_format, "--events-format")
    one_kind(events)
    check_output(options.output, [*rules, *events])
    families = families_given(options.family)
    schema = None if options.schema is None else read_schema(options.schema)
    unmatchable = _unmatchable(options, events)
    if compiled:
        wait_for_kernels()
        matcher = Matcher.load(options.subscriptions[0], schema=schema)
        unmatchable.refuse(plain_names(matcher.names))
    else:
        matcher = load(rules, Reading(language_of(options)), schema=schema, unmatchable=unmatchable)
    if not len(matcher):
        _nothing("rules", options.subscriptions, strict=options.strict)
    if families:
        # What somebody says of an attribute goes before what rules and schemas do.
        matcher.texts = matcher.texts._replace(never=matcher.texts.never.union(families))
    if options.strict and events[0].kind == "parquet":
        _check_columns(matcher, events)
    skip = options.unsupported == "skip"
    unsupported = matcher.observed.skipping if skip else options.unsupported
    reading = EventOptions(families=families, nulls=tuple(options.null), unsupported=unsupported)
    tally = None if options.summary is None else Tally()
    fitting = None if schema is None or not options.strict else Fitting(schema, families)
    answering = Answering(matcher, families, _output(options), tally, fitting)
    reporting = Reporting(answering, strict=options.strict, at_once=options.line_buffered)
    pace = Pace()
    with _writing(options, answering.nothing) as write, progress("events", size_of_all(events)) as advance:
        chunks = read_chunks(events, reading, advance, pace, at_once=options.line_buffered)
        try:
            # To answer at once is to finish with a chunk before waiting for the next.
            jobs = 1 if options.line_buffered else options.jobs or cores()
            for answer in in_order(answering.answer, chunks, jobs):
                pace.saw(answer.nbytes)
                if answer.nbytes:
                    write(answer)
                reporting.look()
        except KeyboardInterrupt:
            reporting.interrupt()
            raise
        except ChunkError as error:
            if options.line_buffered and error.good is not None:
                write(answering.answer(error.good))
            raise
        # Before the output takes its place: with --strict there is none.
        if not matcher.observed.events:
            _nothing("events", options.events, strict=options.strict)
        disagreements = reporting.end()
    if tally is not None:
        # As text they have been told on standard error.
        told = disagreements if options.summary == "json" else ()
        _print_summary(tally.summary(matcher.ids(), told), options.summary)
    return 0


Output = Literal["lines", "parquet", "nothing"]


def _output(options: argparse.Namespace) -> Output:
    """What is written for events that matched."""
    if options.output is None:
        return "lines" if options.summary is None else "nothing"
    return "parquet" if Path(options.output).suffix.lower() in (".parquet", ".pq") else "lines"


@contextmanager
def _writing(options: argparse.Namespace, nothing: Matches) -> Iterator[Callable[[Any], object]]:
    """Give a function that writes what matched; it appears only if no error comes."""
    output = _output(options)
    if output == "nothing":
        yield lambda _answer: None
    elif output == "parquet":
        from penstock.cli.parquet_output import parquet_output

        with parquet_output(options.output, nothing) as file:
            yield file.write
    else:
        with whole_output(options.output, line_buffered=options.line_buffered) as write:
            yield write


def _print_summary(summary: Summary, form: str) -> None:
    if form == "json":
        sys.stdout.buffer.write(json_line(summary.to_dict()))
        return
    for line in str(summary).split("\n"):
        sys.stdout.write(printable(line) + "\n")


def _check(options: argparse.Namespace) -> None:
    if "-" in options.subscriptions and "-" in options.events:
        raise InputError("only one of --subscriptions and --events can be standard input")
    if options.language and is_compiled(options.subscriptions, options.subscriptions_format):
        raise InputError(
            f"--from {options.language}: {options.subscriptions[0]} is compiled, and has no language"
        )
    if any(is_same_file(options.output, given) for given in (*options.subscriptions, *options.events)):
        raise InputError(f"{options.output}: --output would replace what is read")
    if options.line_buffered and options.output is not None and can_be_replaced(options.output):
        raise InputError(
            "--line-buffered is for standard output; a file given with --output is written whole"
        )
    if options.summary is not None and (options.line_buffered or options.output in ("-", "/dev/stdout")):
        raise InputError(
            "--summary is written to standard output in place of lines; give --output FILE for these"
        )
    if options.output is not None and Path(options.output).suffix.lower() == ".gz":
        raise InputError(f"{options.output}: output is not compressed: penstock match … | gzip > FILE")
    if options.output is not None and Path(options.output).suffix.lower() in (".csv", ".tsv"):
        raise InputError(f"{options.output}: CSV is not written: end the name in .jsonl or .parquet")
    if _output(options) == "parquet" and not can_be_replaced(options.output):
        raise InputError(f"{options.output}: Parquet is written into files only")


def _unmatchable(options: argparse.Namespace, events: Sequence[Source]) -> Unmatchable:
    """The columns that rules may not name: known before anything else is read."""
    paths = [source.path for source in events if source.kind == "parquet"]
    found = Unmatchable(paths if options.unsupported == "refuse" else ())
    # The attribute that names events in the output.
    found.refuse([ID])
    return found


def _check_columns(matcher: Matcher, events: Sequence[Source]) -> None:
    """Report what rules ask of columns in vain as soon as that is known."""
    schemas = [parquet_schema(source.path) for source in events if source.path != "-"]
    if schemas:
        schema = reduce(Schema.united, schemas).reading_times(matcher.read_as_times)
        found = matcher.check(schema, basis="columns")
        # A rule that asks for absence alone may mean a column that is not there.
        _report([one for one in found if one.asked or one.problem != "unknown"], (), strict=True)


class Answering:
    """Matches chunks, in any thread."""

    def __init__(
        self,
        matcher: Matcher,
        families: Iterable[str] = (),
        output: Output = "lines",
        tally: Tally | None = None,
        fitting: Fitting | None = None,
    ) -> None:
        """`fitting`: what all events are held against."""
        self._matcher = matcher
        self._fitting = fitting
        self._lock = threading.Lock()
        self._output = output
        self._tally = tally
        self._families = _Families(families)
        self._wanted = Wanted(matcher.names)
        self.nothing = matcher.match_batch([])
        """The matches of no event."""
        self._lines = Lines(self.nothing.table, self._wanted.id)
        self._rows: ParquetRows | None = None
        if output == "parquet":
            from penstock.cli import parquet_output

            self._rows = parquet_output.ParquetRows(self._lines)

    @property
    def unseen(self) -> set[str]:
        """The attributes given a family that no event had."""
        return self._families.unseen

    def disagreements(self) -> list[Disagreement]:
        """What rules, events and their schema disagree about so far, in the order of attributes."""
        found = self._matcher.disagreements()
        if self._fitting is None:
            return found
        with self._lock:
            concerned = {one.attribute: one for one in found if one.problem in ("misfit", "value")}
            misfits = events_that_misfit(self._fitting, self._matcher.observed.events, concerned)
        others = (one for one in found if one.problem not in ("misfit", "unlisted", "value"))
        return sorted([*others, *misfits], key=lambda one: one.attribute)

    def answer(self, chunk: Chunk) -> "memoryview | pa.Table":
        """A JSON line, or a row, for each event that matched something."""
        batch, events = chunk.encode(self._wanted)
        self._families.see(events)
        chunk.look(self._matcher.observed)
        if self._fitting is not None:
            found = self._fitting.another()
            chunk.fit(found)
            with self._lock:
                self._fitting.take(found)
        matches = self._matcher.match_encoded(batch)
        hits = np.flatnonzero(np.diff(matches.offsets))
        if self._tally is not None:
            self._tally.see(matches, int(np.count_nonzero(batch.count >= 0)))
        if self._output == "nothing":
            return memoryview(b"")
        if self._rows is not None:
            return self._rows.make(batch, matches, hits, chunk.row)
        return self._lines.write(batch, matches, hits, chunk.row).data


class _Families:
    """The attributes that --family names: of each, whether any event has it."""

    def __init__(self, names: Iterable[str]) -> None:
        self.unseen = set(names)

    def see(self, events: Sequence[Event] | None) -> None:
        """Take note of events."""
        for event in events or ():
            if not self.unseen:
                return
            self.unseen -= event.attributes.keys()


class Reporting:
    """Reports each disagreement once: all of them at the end, or now and then where there is none."""

    def __init__(
        self,
        answering: Answering,
        *,
        strict: bool,
        at_once: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`at_once`: whether lines are written while events come, and disagreements too."""
        self._answering = answering
        self._at_once = at_once
        self._strict = strict
        self._clock = clock
        self._told: set[tuple[str, str]] = set()
        self._next = clock() + _LOOK_S

    def look(self) -> None:
        """Report what is new, if some time has passed since the last look."""
        if self._at_once and self._clock() >= self._next:
            self._next = self._clock() + _LOOK_S
            found = [one for one in self._answering.disagreements() if _is_sure(one)]
            _report(self._new(found), (), strict=self._strict, written=True)

    def interrupt(self) -> None:
        """Report what is new when somebody ends an endless stream."""
        if self._at_once:
            _report(self._new(self._answering.disagreements()), self._answering.unseen, strict=False)

    def end(self) -> list[Disagreement]:
        """Report what is new at the end of all events; returns all that there is."""
        found = self._answering.disagreements()
        _report(self._new(found), self._answering.unseen, strict=self._strict, written=self._at_once)
        return found

    def _new(self, found: Sequence[Disagreement]) -> list[Disagreement]:
        new = [one for one in found if (one.attribute, one.problem) not in self._told]
        self._told.update((one.attribute, one.problem) for one in new)
        return new


def _is_sure(found: Disagreement) -> bool:
    """Whether enough events of an endless stream have come to say so. Values of another family have come."""
    return found.problem not in ("unknown", "null") or (found.events or 0) >= _PATIENCE


def _report(
    found: Sequence[Disagreement], unseen: Iterable[str], *, strict: bool, written: bool = False
) -> None:
    """A line for each disagreement of rules and events; with `strict`, an error after them.

    `written`: whether lines may have been written before.
    """
    notes = [f"--family {name}=…: no event has the attribute {name!r}" for name in sorted(unseen)]
    notes += [f"{one}{_hint(one)}" for one in found]
    for note in notes:
        sys.stderr.write(f"penstock: warning: {printable(note)}\n")
    if strict and notes:
        ways = f"{len(notes):,} way{'' if len(notes) == 1 else 's'}"
        end = "" if written else "; nothing is written"
        raise DisagreementError(f"--strict: rules and events disagree in {ways}{end}")


def _nothing(what: str, paths: Sequence[str], *, strict: bool) -> None:
    """Say that files have no rules, or no events, at all: with `strict`, as an error."""
    text = f"no {what} in {', '.join('standard input' if path == '-' else path for path in paths)}"
    if strict:
        raise DisagreementError(f"--strict: {text}; nothing is written")
    sys.stderr.write(f"penstock: warning: {printable(text)}\n")


_LOOK_S: Final = 10.0
"""Seconds between looks at an endless stream."""

_PATIENCE: Final = 1_000
"""Events of an endless stream before it is said that none has an attribute."""


def _hint(found: Disagreement) -> str:
    """The options that help. They read single values: neither lists nor what is in them."""
    lists = Family.LIST.label in (*found.asked, *found.seen) or is_inside(found.attribute)
    return " (see --family and --null)" if found.problem == "family" and not lists else ""
