"""The commands on filters given as arguments: parse, covers, overlaps, identical, merge, schema."""

import argparse
import sys

from penstock.errors import FilterSyntaxError, InputError
from penstock.filters import parsing, relations
from penstock.filters.merging import merge as merge_predicates
from penstock.filters.predicate import Predicate

_RELATIONS = {
    "covers": relations.covers,
    "overlaps": relations.overlaps,
    "identical": relations.identical,
}


def parse(options: argparse.Namespace) -> int:
    """Print a filter's canonical form."""
    text = options.text
    if text == "-":
        try:
            text = sys.stdin.buffer.read().decode().strip()
        except UnicodeDecodeError as error:
            raise InputError(f"standard input is not UTF-8: {error}") from None
    predicate = parsing.parse(text, options.language)
    _print(parsing.write(predicate, options.to))
    return 0


def relate(options: argparse.Namespace) -> int:
    """Print whether a relation holds between two filters."""
    f = _read("F", options.f, options.language)
    g = _read("G", options.g, options.language)
    _print("true" if _RELATIONS[options.relation](f, g) else "false")
    return 0


def merge(options: argparse.Namespace) -> int:
    """Print the merger of filters; how imperfect it is goes to standard error."""
    filters = options.filters
    given = [_read(f"filter {at + 1}", text, options.language) for at, text in enumerate(filters)]
    merged = merge_predicates(given, budget=options.budget)
    if options.json:
        import msgspec

        plain = {
            "predicate": parsing.write(merged.predicate, options.to),
            "perfect": merged.perfect,
            "excess": merged.excess,
        }
        _print(msgspec.json.encode(plain).decode())
        return 0
    _print(parsing.write(merged.predicate, options.to))
    if not merged.perfect:
        share = f"{merged.excess:.1%}".replace("%", " %")
        sys.stderr.write(f"imperfect: about {share} of what it matches is beyond the union\n")
    return 0


def schema(_options: argparse.Namespace) -> int:
    """Print the JSON Schema of the JSON form."""
    from penstock.filters.languages import json

    _print(json.schema().rstrip())
    return 0


def _read(what: str, text: str, language: parsing.Language) -> Predicate:
    """Parse an argument; a mistake says which argument it is in."""
    try:
        return parsing.parse(text, language)
    except FilterSyntaxError as error:
        raise InputError(f"{what}: {error}") from None


def _print(text: str) -> None:
    # UTF-8 whatever the terminal's locale: what is printed can be read back.
    sys.stdout.buffer.write(text.encode() + b"\n")
