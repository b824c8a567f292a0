"""`penstock match`: which subscriptions match which events, over files."""

import argparse
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from penstock.cli.chunks import Chunk, ChunkError, Pace, Wanted, read_chunks
from penstock.cli.compile import check_output, is_compiled, language_of, load, subscription_files
from penstock.cli.events import EventOptions, families_given
from penstock.cli.files import can_be_replaced, is_same_file, whole_output
from penstock.cli.kernels import note_if_cold
from penstock.cli.lines import Lines
from penstock.cli.pool import cores, in_order
from penstock.cli.progress import progress
from penstock.cli.sources import one_kind, size_of_all, sources
from penstock.cli.subscriptions import Reading
from penstock.errors import InputError
from penstock.filters.asked import families_in
from penstock.filters.predicate import Predicate
from penstock.matching.batch import DOUBLE, FALSE, INTEGER, NAN, STRING, TIME, TRUE, Batch
from penstock.matching.computed import plain_names
from penstock.matching.matcher import Matcher
from penstock.matching.reading import families_asked
from penstock.matching.sampling import rows_of
from penstock.model.events import Event
from penstock.model.values import Family, family_of

_EVENTS_LOOKED_AT: Final = 10_000
"""Events in which the families of attributes are looked at; all of them would cost too much."""

_FAMILY_OF_STATE: Final = {
    NAN: Family.NUMBER,
    INTEGER: Family.NUMBER,
    DOUBLE: Family.NUMBER,
    FALSE: Family.BOOL,
    TRUE: Family.BOOL,
    TIME: Family.TIME,
    STRING: Family.STRING,
}


def run(options: argparse.Namespace) -> int:
    """Match the events of a file; write a JSON line for each that matched."""
    _check(options)
    compiled = is_compiled(options.subscriptions, options.subscriptions_format)
    rules = [] if compiled else subscription_files(options)
    events = sources(options.events, options.events_format, "--events-format")
    one_kind(events)
    check_output(options.output, [*rules, *events])
    families = families_given(options.family)
    reading = EventOptions(families=families, nulls=tuple(options.null), unsupported=options.unsupported)
    mismatches = Mismatches(families)
    if compiled:
        matcher = Matcher.load(options.subscriptions[0])
        mismatches.expect_names(plain_names(matcher.names))
        note_if_cold()
    else:
        matcher = load(rules, Reading(language_of(options)), mismatches.expect)
    answering = Answering(matcher, mismatches, skip=options.unsupported == "skip")
    pace = Pace()
    with (
        whole_output(options.output, line_buffered=options.line_buffered) as write,
        progress("events", size_of_all(events)) as advance,
    ):
        chunks = read_chunks(events, reading, advance, pace, at_once=options.line_buffered)
        try:
            # To answer at once is to finish with a chunk before waiting for the next.
            jobs = 1 if options.line_buffered else options.jobs or cores()
            for lines in in_order(answering.answer, chunks, jobs):
                pace.saw(len(lines))
                if len(lines):
                    write(lines)
        except ChunkError as error:
            if options.line_buffered and error.good is not None:
                write(answering.answer(error.good))
            raise
    if compiled:
        mismatches.settle(families_asked(matcher.tables()))
    for note in mismatches.notes():
        sys.stderr.write(f"penstock: note: {note}\n")
    return 0


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


class Answering:
    """Matches chunks, in any thread."""

    def __init__(self, matcher: Matcher, mismatches: "Mismatches", *, skip: bool) -> None:
        self._matcher = matcher
        self._mismatches = mismatches
        self._skip = skip
        self._wanted = Wanted(matcher.names)
        self._lines = Lines(matcher.match_batch([]).table, self._wanted.id)

    def answer(self, chunk: Chunk) -> memoryview:
        """A JSON line for each event that matched something."""
        batch, events = chunk.encode(self._wanted)
        self._mismatches.see(batch, events, self._wanted.numbers, chunk.row)
        matches = self._matcher.match_encoded(batch)
        hits = np.flatnonzero(np.diff(matches.offsets))
        if self._skip and events is None:
            # What has nothing that a filter names may have nothing at all.
            bare = hits[batch.count[hits] == 0].tolist()
            hits = np.setdiff1d(hits, chunk.void(bare)) if bare else hits
        return self._lines.write(batch, matches, hits, chunk.row).data


class Mismatches:
    """Notices filters that compare an attribute with a family that it never has in the events.

    Such filters match nothing, and nothing else would tell: `delay > 60` where a stray word made a CSV
    column text, or a time where JSON has text.
    """

    def __init__(self, families: dict[str, Family]) -> None:
        self._given = set(families)
        self._wanted: dict[str, set[Family]] = {name: set() for name in families}
        self._seen: dict[str, set[Family]] = {}
        self._lock = threading.Lock()

    def expect(self, predicate: Predicate) -> None:
        """Take note of what a filter asks for."""
        for f in predicate.filters:
            for name, family in families_in(f):
                self._wanted.setdefault(name, set()).add(family)

    def expect_names(self, names: Iterable[str]) -> None:
        """Take note of the attributes that compiled filters name; `settle` tells later how."""
        for name in names:
            self._wanted.setdefault(name, set())

    def settle(self, asked: Iterable[set[tuple[str, Family]]]) -> None:
        """Take note of what compiled filters ask for, as far as that is needed to know what to note."""
        asked = iter(asked)
        # Where attributes are what filters ask for, the first few tell, however many there are.
        while any(not wanted & self._seen.get(name, set()) for name, wanted in self._open()):
            some = next(asked, None)
            if some is None:
                break
            for name, family in some:
                self._wanted[name].add(family)

    def _open(self) -> Iterator[tuple[str, set[Family]]]:
        """The attributes of which there may be something to note."""
        return ((n, wanted) for n, wanted in self._wanted.items() if n in self._seen or n in self._given)

    def see(
        self, batch: Batch, events: Sequence[Event | None] | None, numbers: Mapping[str, int], row: int
    ) -> None:
        """Take note of what a chunk's events have; after the first thousands, the picture is clear.

        Without the events themselves, the batch has all that can be asked for.
        """
        left = _EVENTS_LOOKED_AT - row
        if left <= 0:
            return
        seen = _seen(batch, numbers, left) if events is None else _seen_in(events[:left])
        with self._lock:
            for name, family in seen:
                if name in self._wanted:
                    self._seen.setdefault(name, set()).add(family)

    def notes(self) -> Iterator[str]:
        """A line for each attribute whose families never met."""
        for name, wanted in sorted(self._wanted.items()):
            seen = self._seen.get(name)
            if name in self._given and not wanted and not seen:
                yield f"--family {name}=…: no event seen has the attribute {name!r}"
            elif wanted and seen and not wanted & seen:
                yield (
                    f"filters compare {name!r} with a {_labels(wanted)}, but in the events it is a "
                    f"{_labels(seen)}: they cannot match (see --family and --null)"
                )


def _seen(batch: Batch, numbers: Mapping[str, int], events: int) -> set[tuple[str, Family]]:
    """Which attributes the first events of a batch have, and of which families."""
    first = rows_of(batch, np.arange(min(events, len(batch.start))))
    names = {number: name for name, number in numbers.items()}
    pairs = {*zip(first.value_attribute.tolist(), first.value_state.tolist(), strict=True)}
    return {(names[number], _FAMILY_OF_STATE[state]) for number, state in pairs}


def _seen_in(events: Sequence[Event | None]) -> set[tuple[str, Family]]:
    return {(n, family_of(v)) for event in events if event is not None for n, v in event.attributes.items()}


def _labels(families: set[Family]) -> str:
    return " or a ".join(family.label for family in sorted(families))
