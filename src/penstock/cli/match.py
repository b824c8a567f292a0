"""`penstock match`: which subscriptions match which events, over files."""

import argparse
import sys
from collections.abc import Iterator
from typing import Final

import msgspec

from penstock.cli.events import EventOptions, read_events
from penstock.cli.files import can_be_replaced, format_of, is_same_file, size_of, whole_output
from penstock.cli.progress import progress
from penstock.cli.subscriptions import read_subscriptions
from penstock.errors import InputError, PenstockError
from penstock.filters.predicate import Predicate
from penstock.matching.reference import ReferenceMatcher
from penstock.model.events import Event
from penstock.model.names import Id
from penstock.model.values import Family, Time, family_of

_EVENTS_LOOKED_AT: Final = 10_000
"""Events in which the families of attributes are looked at; all of them would cost too much."""


def run(options: argparse.Namespace) -> int:
    """Match the events of a file; write a JSON line for each that matched."""
    if options.subscriptions == options.events == "-":
        raise InputError("only one of --subscriptions and --events can be standard input")
    for source in (options.subscriptions, options.events):
        if is_same_file(options.output, source):
            raise InputError(f"{options.output}: --output would replace what is read")
    if options.line_buffered and options.output is not None and can_be_replaced(options.output):
        raise InputError(
            "--line-buffered is for standard output; a file given with --output is written whole"
        )
    subscriptions_format = format_of(
        options.subscriptions, options.subscriptions_format, "--subscriptions-format"
    )
    events_format = format_of(options.events, options.events_format, "--events-format")
    families = _families(options.family)
    reading = EventOptions(families=families, nulls=tuple(options.null), unsupported=options.unsupported)
    matcher: ReferenceMatcher[Id] = ReferenceMatcher()
    mismatches = Mismatches(families)
    with progress("subscriptions", size_of(options.subscriptions)) as advance:
        for found in read_subscriptions(
            options.subscriptions, subscriptions_format, options.language, advance
        ):
            matcher.add(found.id, found.predicate)
            mismatches.expect(found.predicate)
    encode = msgspec.json.Encoder().encode
    with (
        whole_output(options.output, line_buffered=options.line_buffered) as write,
        progress("events", size_of(options.events)) as advance,
    ):
        for row, event in enumerate(read_events(options.events, events_format, reading, advance)):
            if event is None:
                continue
            mismatches.see(event)
            ids = matcher.match(event)
            if ids:
                name = event.attributes.get("id", row)
                shown = str(name) if isinstance(name, Time) else name
                write(encode({"event": shown, "ids": ids}) + b"\n")
    for note in mismatches.notes():
        sys.stderr.write(f"penstock: note: {note}\n")
    return 0


class Mismatches:
    """Notices filters that compare an attribute with a family that it never has in the events.

    Such filters match nothing, and nothing else would tell: `delay > 60` where a stray word made a CSV
    column text, or a time where JSON has text.
    """

    def __init__(self, families: dict[str, Family]) -> None:
        self._wanted: dict[str, set[Family]] = {name: set() for name in families}
        self._seen: dict[str, set[Family]] = {}
        self._left = _EVENTS_LOOKED_AT

    def expect(self, predicate: Predicate) -> None:
        """Take note of what a filter asks for."""
        for f in predicate.filters:
            for name, states in f.conditions.items():
                if isinstance(states.kind, Family):
                    self._wanted.setdefault(name, set()).add(states.kind)

    def see(self, event: Event) -> None:
        """Take note of what an event has; after the first thousands, the picture is taken as clear."""
        if self._left:
            self._left -= 1
            for name, value in event.attributes.items():
                if name in self._wanted:
                    self._seen.setdefault(name, set()).add(family_of(value))

    def notes(self) -> Iterator[str]:
        """A line for each attribute whose families never met."""
        for name, wanted in sorted(self._wanted.items()):
            seen = self._seen.get(name)
            if not wanted and not seen:
                yield f"--family {name}=…: no event seen has the attribute {name!r}"
            elif wanted and seen and not wanted & seen:
                yield (
                    f"filters compare {name!r} with a {_labels(wanted)}, but in the events it is a "
                    f"{_labels(seen)}: they cannot match (see --family and --null)"
                )


def _labels(families: set[Family]) -> str:
    return " or a ".join(family.label for family in sorted(families))


def _families(given: list[str]) -> dict[str, Family]:
    families: dict[str, Family] = {}
    for pair in given:
        name, equals, label = pair.rpartition("=")
        if not equals or not name:
            raise InputError(f"--family {pair!r}: write NAME=FAMILY, such as at=time")
        try:
            families[name] = Family.named(label)
        except PenstockError as error:
            raise InputError(f"--family {pair!r}: {error}") from None
    return families
