"""`penstock why`: why a rule matches an event, or does not."""

import argparse
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from penstock.cli.compile import is_compiled, language_of, subscription_files
from penstock.cli.events import EventOptions, families_given, json_event
from penstock.cli.files import placed
from penstock.cli.json_lines import json_line
from penstock.cli.progress import progress
from penstock.cli.schema_files import read_schema
from penstock.cli.sources import Source, size_of_all
from penstock.cli.subscriptions import Place as RulePlace
from penstock.cli.subscriptions import Reading, Subscription, read_subscriptions
from penstock.errors import InputError, printable
from penstock.filters.asked import families_at, times_in
from penstock.filters.filter import NEVER, Filter
from penstock.filters.reasons import EXCLUDED, Alternative, Reasons, reasons, rule_shown, texts_like_times
from penstock.matching.times import TimeTexts
from penstock.model.events import Event, with_times
from penstock.model.names import Id
from penstock.model.places import Place
from penstock.model.values import Family


class _Rule(NamedTuple):
    """Filters of an id, one of which has to match, and where they stand in a file."""

    id: Id
    filters: tuple[Filter, ...]
    place: RulePlace | None


def run(options: argparse.Namespace) -> int:
    """Print for each condition of a rule whether it holds."""
    if options.event == "-" and "-" in options.subscriptions:
        raise InputError("only one of EVENT and --subscriptions can be standard input")
    event = _event(options)
    schema = None if options.schema is None else read_schema(options.schema)
    texts = TimeTexts() if schema is None else TimeTexts.of_schema(schema)
    texts = texts._replace(never=texts.never.union(families_given(options.family)))
    if is_compiled(options.subscriptions, options.subscriptions_format):
        rules, times, keepers = _compiled_rules(options, texts, event, is_given=schema is not None)
    else:
        rules, times, keepers = _rules(options, texts, event)
    if not rules:
        raise InputError(f"no rule has the id {options.id!r:.80}")
    event = Event.from_flat(dict(with_times(event.attributes, times)))
    told = [(rule, reasons(rule.filters or (NEVER,), event, text_rules=keepers)) for rule in rules]
    if options.json:
        sys.stdout.buffer.write(json_line(_plain(options.id, told)))
        return 0
    for line in _lines(options.id, told):
        sys.stdout.buffer.write(printable(line).encode() + b"\n")
    return 0


def _event(options: argparse.Namespace) -> Event:
    text = sys.stdin.buffer.read() if options.event == "-" else options.event.encode(errors="surrogateescape")
    reading = EventOptions(families=families_given(options.family), unsupported=options.unsupported)
    with placed("standard input" if options.event == "-" else "EVENT"):
        # An event that has nothing left is one without attributes.
        return json_event(text.strip(), reading) or Event.from_flat({})


def _compiled_rules(
    options: argparse.Namespace, texts: TimeTexts, event: Event, *, is_given: bool
) -> tuple[list[_Rule], frozenset[Place], dict[Place, str]]:
    """The rules of the id in a compiled folder, the places whose texts are read as times there, and by place
    the rules that keep texts from it."""
    from penstock.matching.matcher import Matcher

    matcher = Matcher.load(options.subscriptions[0], learn=False)
    matcher.texts = texts if is_given else matcher.texts._replace(never=matcher.texts.never | texts.never)
    keys = [key for key in _ids(options.id) if key in matcher]
    rules = [_Rule(key, tuple(matcher.filters(key)), None) for key in keys]
    times = matcher.read_as_times
    kept = set(texts_like_times((f for rule in rules for f in rule.filters), event.attributes)) - times
    return rules, times, matcher.text_rules(kept)


def _rules(
    options: argparse.Namespace, texts: TimeTexts, event: Event
) -> tuple[list[_Rule], frozenset[Place], dict[Place, str]]:
    """The rules of the id, the places whose texts are read as times, and by place the rules that keep texts
    from it; there may be a rule whose id is text and one whose id is an integer."""
    files = subscription_files(options)
    only = Reading(language_of(options), only=options.id)
    every = Reading(language_of(options))
    # Standard input is read once.
    is_whole = "-" in options.subscriptions
    found = list(_read(files, every if is_whole else only))
    mine = [one for one in found if only.wants(one.id)]
    asked = times_in(f for one in mine for f in one.predicate.filters)
    keepers: dict[Place, str] = {}
    kept = texts_like_times((f for one in mine for f in one.predicate.filters), event.attributes)
    if kept:
        # Whether these texts are times, the other rules decide as well.
        others = found if is_whole else _read(files, every)
        for one in others:
            families = families_at(one.predicate.filters)
            for place in [place for place in kept if Family.STRING in families.get(place, ())]:
                asked.discard(place)
                if place not in texts.never and place not in texts.always:
                    keepers.setdefault(place, rule_shown(one.id, place, one.predicate.filters))
    return [_Rule(one.id, one.predicate.filters, one.place) for one in mine], texts.names(asked), keepers


def _read(files: list[Source], reading: Reading) -> Iterator[Subscription]:
    with progress("subscriptions", size_of_all(files)) as advance:
        yield from read_subscriptions(files, reading, advance)


def _ids(text: str) -> Iterator[Id]:
    yield text
    try:
        number = int(text)
    except ValueError:
        return
    if str(number) == text:
        yield number


def _lines(key: str, told: list[tuple[_Rule, Reasons]]) -> Iterator[str]:
    ids = dict.fromkeys(rule.id for rule, _found in told)
    if len(ids) > 1:
        # One is text and one an integer: they are two rules, of which quotes tell which is which.
        for one in ids:
            yield from _lines_of(repr(one), [(rule, found) for rule, found in told if rule.id == one])
        return
    yield from _lines_of(key, told)


def _lines_of(name: str, told: list[tuple[_Rule, Reasons]]) -> Iterator[str]:
    matches = any(found.matches for _rule, found in told)
    yield f"{name} {'matches' if matches else 'does not match'}"
    is_first = True
    for rule, found in told:
        for alternative in found:
            where = "" if rule.place is None else f"{rule.place}: "
            yield f"{'' if is_first else 'or '}{where}{_shown(alternative.filter)}"
            is_first = False
            yield from _condition_lines(alternative)


def _condition_lines(alternative: Alternative) -> Iterator[str]:
    if not alternative.filter.satisfiable:
        yield f"  no   {EXCLUDED}"
        return
    width = max((len(_shown(one.text)) for one in alternative.conditions), default=0)
    for one in alternative.conditions:
        yield f"  {'yes' if one.holds else 'no '}  {_shown(one.text).ljust(width)}  {one.found}"


def _shown(given: object) -> str:
    text = " ".join(str(given).split("\n"))
    return text if len(text) <= 200 else f"{text[:200]}…"


def _plain(key: str, told: list[tuple[_Rule, Reasons]]) -> dict[str, Any]:
    are_several = len({rule.id for rule, _found in told}) > 1
    return {
        "id": key if are_several else told[0][0].id,
        "matches": any(found.matches for _rule, found in told),
        "alternatives": [
            {
                **({"id": rule.id} if are_several else {}),
                **({} if rule.place is None else rule.place.plain()),
                "filter": str(alternative.filter),
                "matches": alternative.matches,
                "conditions": [
                    {"condition": one.text, "holds": one.holds, "found": one.found}
                    for one in alternative.conditions
                ],
            }
            for rule, found in told
            for alternative in found
        ],
    }
