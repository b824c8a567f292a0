"""Regular expressions as patterns: what LIKE can say of them, exactly or about.

An expression that is a text, with or without `^` and `$`, is a LIKE pattern: `^err` is `err%`. Of any other
one an *envelope* is known, a LIKE pattern that all its texts match: `id=[0-9]+;` has `%id=_%;%`. Relations
between patterns are decided by envelopes, which is sound, and engines look for the envelope's literals
first.
"""

from functools import lru_cache
from typing import Final

from penstock.filters.regex import (
    ANY,
    Assertion,
    Chars,
    Node,
    Regex,
    Repeat,
    Sequence,
    read,
)
from penstock.filters.wildcards import FOLDED, ONE, REGEX, RUN
from penstock.model.limits import PATTERN_LENGTH_MAX

_COPIES: Final = 16
"""So many repetitions of a part are written out in an envelope."""


def exact_pattern(text: str) -> str:
    """Read an expression as a pattern; as one for LIKE or ILIKE where that says the same.

    What comes out is not canonical yet where it is one for LIKE: neighbouring wildcards are in any order.
    """
    found = read(text)
    exact = _exact(found)
    if exact is not None and len(exact) <= PATTERN_LENGTH_MAX:
        return FOLDED + exact if found.folded else exact
    return REGEX + found.text()


@lru_cache(maxsize=4096)
def envelope(pattern: str) -> str:
    """A LIKE or ILIKE pattern that every text matches that a regular expression does; not canonical."""
    found = read(pattern[1:])
    made = _around(found)
    if len(made) > PATTERN_LENGTH_MAX:
        # A part of it: what stands before or after may be anything.
        made = made[: PATTERN_LENGTH_MAX - 2] + RUN
    return FOLDED + made if found.folded else made


def example(pattern: str) -> str:
    """A text that an expression is found in, most often: places between characters are not looked at."""
    return _example(read(pattern[1:]).root)


def _example(node: Node) -> str:
    if isinstance(node, Chars):
        # What stands for no character is in no text.
        codes = [low for low, _high in node.ranges if not 0xD800 <= low < 0xE000]
        return chr(codes[-1]) if codes else ""
    if isinstance(node, Assertion):
        return ""
    if isinstance(node, Repeat):
        return _example(node.part) * node.low
    parts = node.parts if isinstance(node, Sequence) else node.parts[:1]
    return "".join(map(_example, parts))


def _parts(found: Regex) -> list[Node]:
    return list(found.root.parts) if isinstance(found.root, Sequence) else [found.root]


def _ends(parts: list[Node]) -> tuple[list[Node], bool, bool]:
    """The parts between `^` and `$`, and whether these are there."""
    first = last = False
    while parts and parts[0] == Assertion("^"):
        parts, first = parts[1:], True
    while parts and parts[-1] == Assertion("$"):
        parts, last = parts[:-1], True
    return parts, first, last


def _exact(found: Regex) -> str | None:
    """The symbols of a LIKE pattern that matches the same texts."""
    parts, first, last = _ends(_parts(found))
    # What need not be there says nothing where a text may begin or end in any way.
    while not first and parts and _may_miss(parts[0]):
        parts = parts[1:]
    while not last and parts and _may_miss(parts[-1]):
        parts = parts[:-1]
    symbols = [_symbol(part) for part in parts]
    if None in symbols:
        return None
    return ("" if first else RUN) + "".join(filter(None, symbols)) + ("" if last else RUN)


def _may_miss(part: Node) -> bool:
    return isinstance(part, Repeat) and part.low == 0 and isinstance(part.part, Chars)


def _symbol(part: Node) -> str | None:
    if isinstance(part, Chars):
        return ONE if part.ranges == ANY else _letter(part)
    if isinstance(part, Repeat) and part.part == Chars(ANY) and part.high is None:
        return ONE * part.low + RUN
    return None


def _letter(part: Chars) -> str | None:
    (low, high), *more = part.ranges or ((0, 1),)
    return chr(low) if low == high and not more else None


def _around(found: Regex) -> str:
    parts, first, last = _ends(_parts(found))
    inside = "".join(map(_about, parts))
    return ("" if first else RUN) + inside + ("" if last else RUN)


def _about(node: Node) -> str:
    """The symbols of a LIKE pattern that matches more than a part does."""
    if isinstance(node, Chars):
        return _letter(node) or ONE
    if isinstance(node, Assertion):
        return ""
    if isinstance(node, Sequence):
        return "".join(map(_about, node.parts))
    if isinstance(node, Repeat) and node.low:
        written = _about(node.part) * min(node.low, _COPIES)
        return written if node.low == node.high and node.low <= _COPIES else written + RUN
    return RUN
