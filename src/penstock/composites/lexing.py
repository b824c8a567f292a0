"""The tokens of the text form, and durations."""

import re
from typing import Final, NamedTuple

from penstock.errors import FilterSyntaxError

_WORD: Final = r"[^\W\d]\w*+"
_TOKEN: Final = re.compile(
    rf"""\s*+(?:
      (?P<word>{_WORD})
    | (?P<variable>\$(?:{_WORD}))
    | (?P<number>[0-9]++(?:\.[0-9]++)?)
    | (?P<name>"(?:[^"]++|"")++")
    | (?P<mark>[(),.*])
    | (?P<open>\[)
    | (?P<end>\Z)
    | (?P<bad>.)
    )""",
    re.VERBOSE | re.DOTALL,
)
_INSIDE: Final = re.compile(r"""[^\[\]'"`]++|'(?:[^']++|'')*+'|"(?:[^"]++|"")*+"|`(?:[^`]++|``)*+`""")

UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "min": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
}
"""The units of durations as they are printed, in nanoseconds."""

LONG_UNITS: Final = {
    "nanosecond": "ns",
    "microsecond": "us",
    "millisecond": "ms",
    "second": "s",
    "sec": "s",
    "minute": "min",
    "hour": "h",
    "day": "d",
}
"""The same written out; with an s for several."""


class Token(NamedTuple):
    """A piece of the text. `kind`: word, variable, number, name, atom, end, or the mark itself."""

    kind: str
    text: str
    at: int


def tokens_of(text: str, at: int = 0) -> list[Token]:
    """Cut a text into tokens, from a place on; what stands in brackets is one. Raises FilterSyntaxError."""
    found: list[Token] = []
    while True:
        match = _TOKEN.match(text, at)
        assert match is not None  # noqa: S101 - `bad` takes any character, and `end` none
        kind, start = match.lastgroup or "", match.start(match.lastgroup or 0)
        content, at = match[kind], match.end()
        if kind == "bad":
            raise FilterSyntaxError("[filter], a word or a parenthesis", text, start, found=repr(content))
        if kind == "open":
            at = _closed(text, start)
            found.append(Token("atom", text[start + 1 : at - 1], start + 1))
        elif kind == "mark":
            found.append(Token(content, content, start))
        elif kind == "name":
            found.append(Token(kind, content[1:-1].replace('""', '"'), start))
        else:
            found.append(Token(kind, content, start))
        if kind == "end":
            return found


def _closed(text: str, start: int) -> int:
    """Behind the bracket that closes the one at a place; what is quoted does not count."""
    at = start + 1
    while at < len(text) and text[at] != "]":
        inside = _INSIDE.match(text, at)
        if inside is None:
            what = "a bracket inside a filter" if text[at] == "[" else f"a {text[at]} that is not closed"
            raise FilterSyntaxError("']'", text, at, reason=f"{what}; filters stand in [ and ]")
        at = inside.end()
    if at == len(text):
        raise FilterSyntaxError("']' for the '[' opened here", text, start, found="the end of the text")
    return at + 1


def unit_of(word: str) -> str | None:
    """The unit that a word names."""
    lower = word.lower()
    if lower in UNITS:
        return lower
    return LONG_UNITS.get(lower) or LONG_UNITS.get(lower.removesuffix("s"))


def write_duration(nanoseconds: int) -> str:
    """A duration in the largest unit that gives a whole number."""
    unit = next(unit for unit, length in reversed(UNITS.items()) if nanoseconds % length == 0)
    return f"{nanoseconds // UNITS[unit]} {unit}"
