"""What `penstock lint` found, as text, as JSON and as SARIF."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import msgspec

from penstock import __version__
from penstock.cli.subscriptions import Place
from penstock.errors import printable
from penstock.matching.linting import CHECKS, LEVELS, Check, Level
from penstock.model.names import Id

_SARIF_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


class Found(NamedTuple):
    """A finding, and where it is."""

    check: Check
    level: Level
    message: str
    place: Place
    id: Id | None = None
    other: Place | None = None


class Report(NamedTuple):
    """All that was found."""

    rules: int
    found: list[Found]

    def summary(self) -> str:
        """How much was found, in a line."""
        counts = Counter(one.level for one in self.found)
        told = ", ".join(_counted(counts[level], level) for level in LEVELS if counts[level])
        return f"{_counted(self.rules, 'rule')}: {told or 'nothing found'}"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _text(report: Report) -> Iterator[str]:
    """A line for each finding, in the form that editors and CI know from compilers."""
    for one in report.found:
        who = "" if one.id is None else f"{one.id}: "
        where = "" if one.other is None else f" ({one.other})"
        line = f"{one.place}: {one.level}: {who}{one.message}{where} [{one.check}]"
        yield printable(" ".join(line.split("\n"))) + "\n"
    yield f"{report.summary()}\n"


def _json(report: Report) -> Iterator[str]:
    counts = Counter(one.level for one in report.found)
    plain = {
        "rules": report.rules,
        "counts": {level: counts[level] for level in LEVELS},
        "findings": [
            {
                "check": one.check,
                "level": one.level,
                **one.place.plain(),
                "id": one.id,
                "message": one.message,
                **({} if one.other is None else {"other": one.other.plain()}),
            }
            for one in report.found
        ],
    }
    yield msgspec.json.encode(plain).decode() + "\n"


def _sarif(report: Report) -> Iterator[str]:
    """The format of OASIS that code hosts and IDEs read, version 2.1.0."""
    checks = list(CHECKS)
    rules = [
        {
            "id": name,
            "shortDescription": {"text": about.summary},
            "defaultConfiguration": {"level": about.level},
        }
        for name, about in CHECKS.items()
    ]
    driver = {"name": "penstock", "version": __version__, "rules": rules}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(one, checks.index(one.check)) for one in report.found],
    }
    yield (msgspec.json.encode({"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}).decode() + "\n")


def _result(one: Found, rule: int) -> dict[str, Any]:
    who = "" if one.id is None else f"{one.id}: "
    row = "" if one.place.row is None else f" (row {one.place.row})"
    made: dict[str, Any] = {
        "ruleId": one.check,
        "ruleIndex": rule,
        "level": one.level,
        "message": {"text": f"{who}{one.message}{row}"},
        "locations": [_location(one.place)],
    }
    if one.other is not None:
        made["relatedLocations"] = [{**_location(one.other), "message": {"text": "the other rule"}}]
    return made


def _location(place: Place) -> dict[str, Any]:
    # Of Parquet there are no lines, and a region is one of a text.
    region = {} if place.line is None else {"region": {"startLine": place.line}}
    return {"physicalLocation": {"artifactLocation": {"uri": _uri(place.file)}, **region}}


def _uri(path: str) -> str:
    if path == "-":
        return "stdin"
    given = Path(path)
    return given.as_uri() if given.is_absolute() else quote(given.as_posix())


WRITERS: Final[dict[str, Callable[[Report], Iterator[str]]]] = {"text": _text, "json": _json, "sarif": _sarif}
"""Each yields the text part by part."""
