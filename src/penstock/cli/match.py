"""`penstock match`: which subscriptions match which events, over files."""

import argparse
from collections.abc import Iterable

import msgspec

from penstock.cli.events import EventOptions, read_events
from penstock.cli.files import format_of, size_of, whole_output
from penstock.cli.progress import progress
from penstock.cli.subscriptions import Subscription, read_subscriptions
from penstock.errors import InputError
from penstock.matching.reference import ReferenceMatcher
from penstock.model.names import Id
from penstock.model.values import Family, Time


def run(options: argparse.Namespace) -> int:
    """Match the events of a file; write a JSON line for each that matched."""
    if options.subscriptions == options.events == "-":
        raise InputError("only one of --subscriptions and --events can be standard input")
    subscriptions_format = format_of(
        options.subscriptions, options.subscriptions_format, "--subscriptions-format"
    )
    events_format = format_of(options.events, options.events_format, "--events-format")
    reading = EventOptions(
        families=_families(options.family), nulls=tuple(options.null), unsupported=options.unsupported
    )
    with progress("subscriptions", size_of(options.subscriptions)) as advance:
        matcher = _matcher(
            read_subscriptions(options.subscriptions, subscriptions_format, options.language, advance)
        )
    encode = msgspec.json.Encoder().encode
    with (
        whole_output(options.output, line_buffered=options.line_buffered) as write,
        progress("events", size_of(options.events)) as advance,
    ):
        for row, event in enumerate(read_events(options.events, events_format, reading, advance)):
            if event is None:
                continue
            ids = matcher.match(event)
            if ids:
                name = event.attributes.get("id", row)
                shown = str(name) if isinstance(name, Time) else name
                write(encode({"event": shown, "ids": ids}) + b"\n")
    return 0


def _matcher(subscriptions: Iterable[Subscription]) -> ReferenceMatcher[Id]:
    return ReferenceMatcher((found.id, found.predicate) for found in subscriptions)


def _families(given: list[str]) -> dict[str, Family]:
    families: dict[str, Family] = {}
    for pair in given:
        name, equals, label = pair.rpartition("=")
        family = next((family for family in Family if family.label == label.lower()), None)
        if not equals or not name or family is None:
            labels = ", ".join(family.label for family in Family)
            raise InputError(f"--family {pair!r}: write NAME=FAMILY, with FAMILY one of {labels}")
        families[name] = family
    return families
