"""Patterns on strings: SQL's LIKE and ILIKE, with them suffix and substring, and regular expressions.

A pattern is kept as a string in which lone surrogates stand for the wildcards (no string value can hold
one): ONE matches any one character, RUN any run of them, also none. Neighbouring wildcards are put in one
order, so that `%_%` and `_%` are the same pattern.

A pattern that ignores case begins with FOLDED; what follows is folded, and matched with folded texts. If no
character of it has case, it is kept as a plain one: patterns that match the same are then the same.

A regular expression begins with REGEX. Where LIKE or ILIKE can say the same, it is kept as a pattern for
these. Relations know of any other one its envelope, a pattern for LIKE or ILIKE that matches more: see
`regex_patterns`.

Matching never backtracks: literal stretches are found with `str.find`, stretches with a ONE by their
literal part or, where that is too common, by the shift-and method, a machine word of pattern at a time. A
pattern of k characters on a string of n costs O(n) and O(n k / 64).
"""

from functools import lru_cache
from typing import Final, NoReturn

from penstock.errors import FilterError, LimitError
from penstock.filters.automata import machine
from penstock.filters.folding import caseless_prefix, fold, has_case
from penstock.filters.regex import is_folded, size_of
from penstock.filters.regex_patterns import envelope, exact_pattern
from penstock.filters.wildcards import FOLDED, ONE, REGEX, RUN
from penstock.model.limits import PATTERN_LENGTH_MAX

Pattern = str

DEFAULT_ESCAPE: Final = "\\"

PORTABLE_ESCAPE: Final = "!"
"""The escape in what is printed: an ordinary character in the literals of every engine."""

_TRIES: Final = 64
"""How often a stretch with wildcards is looked for by its literal part before shift-and takes over."""


def from_like(text: str, escape: str = DEFAULT_ESCAPE) -> Pattern:
    """Read a LIKE pattern; `escape` makes the next `%`, `_` or itself a plain character."""
    if len(escape) != 1 or escape in "%_":
        raise FilterError(f"a LIKE escape is one character other than % and _, not {escape!r:.20}")
    read: list[str] = []
    characters = iter(text)
    for character in characters:
        if character == escape:
            escaped = next(characters, "")
            if escaped not in ("%", "_", escape):
                raise FilterError(
                    f"in the LIKE pattern {text[:60]!r}, {escape!r} must stand before %, _ or {escape!r}"
                )
            read.append(escaped)
        else:
            read.append(RUN if character == "%" else ONE if character == "_" else character)
    return _canonical("".join(read))


def from_ilike(text: str, escape: str = DEFAULT_ESCAPE) -> Pattern:
    """Read an ILIKE pattern: as LIKE, but case is ignored."""
    pattern = from_like(text, escape)
    if not has_case(pattern):
        return pattern
    if len(pattern) > PATTERN_LENGTH_MAX:
        _refuse_length(pattern)
    return FOLDED + fold(pattern)


def from_regex(text: str) -> Pattern:
    """Read a regular expression, to be found anywhere in a text."""
    pattern = exact_pattern(text)
    if pattern[:1] == REGEX:
        return pattern
    return (
        FOLDED + _canonical(pattern[1:])
        if has_case(pattern[1:]) and pattern[:1] == FOLDED
        else _canonical(symbols(pattern))
    )


def suffix(text: str) -> Pattern:
    """The pattern of all strings that end so."""
    return _canonical(RUN + text)


def substring(text: str) -> Pattern:
    """The pattern of all strings that have this inside."""
    return _canonical(RUN + text + RUN)


def ignores_case(pattern: Pattern) -> bool:
    """Whether texts are folded before they are matched."""
    return pattern[:1] == FOLDED or (pattern[:1] == REGEX and is_folded(pattern[1:]))


def is_regex(pattern: Pattern) -> bool:
    """Whether it is a regular expression, which LIKE and ILIKE cannot say."""
    return pattern[:1] == REGEX


def regex_text(pattern: Pattern) -> str:
    """A regular expression as it is written."""
    return pattern[1:]


def regex_size(pattern: Pattern) -> int:
    """The size of a regular expression; 0 for any other pattern."""
    return size_of(pattern[1:]) if pattern[:1] == REGEX else 0


def symbols(pattern: Pattern) -> str:
    """The characters and wildcards of a pattern, or of the envelope of one; folded if it ignores case."""
    if pattern[:1] == REGEX:
        pattern = envelope(pattern)
    return pattern[1:] if pattern[:1] == FOLDED else pattern


def to_like(pattern: Pattern) -> str:
    """Write a pattern for LIKE, or for ILIKE if it ignores case, with the default escape."""
    pattern = symbols(pattern)
    for plain in (DEFAULT_ESCAPE, "%", "_"):
        pattern = pattern.replace(plain, DEFAULT_ESCAPE + plain)
    return pattern.replace(RUN, "%").replace(ONE, "_")


def to_portable(text: str) -> tuple[str, str]:
    """Write a LIKE text for any engine; also the escape that has to be named, "" if there is none.

    SQLite and DuckDB take a backslash for a plain character unless they are told, PostgreSQL and Spark for
    an escape; and Spark takes one in any literal for an escape. So texts with one get another escape.
    """
    if DEFAULT_ESCAPE not in text:
        return text, ""
    escape = PORTABLE_ESCAPE
    written: list[str] = []
    characters = iter(text)
    for character in characters:
        if character == DEFAULT_ESCAPE:
            character = next(characters)
            written.append(escape if character in "%_" else "")
        elif character == escape:
            written.append(escape)
        written.append(character)
    return "".join(written), escape


def has_wildcard(pattern: Pattern) -> bool:
    """Whether more than one string can match."""
    return ONE in pattern or RUN in pattern or pattern[:1] in (FOLDED, REGEX)


def is_prefix(pattern: Pattern) -> bool:
    """Whether all that is asked for is how a string starts."""
    return pattern.find(RUN) == len(pattern) - 1 and ONE not in pattern and pattern[:1] not in (FOLDED, REGEX)


def literal_prefix(pattern: Pattern) -> str:
    """What every matching string starts with."""
    if pattern[:1] == REGEX:
        pattern = envelope(pattern)
    if pattern[:1] == FOLDED:
        return caseless_prefix(literal_prefix(pattern[1:]))
    ends = [at for at in (pattern.find(ONE), pattern.find(RUN)) if at >= 0]
    return pattern[: min(ends)] if ends else pattern


def length_min(pattern: Pattern) -> int:
    """The length that every matching string has at least: for LIKE, that of the shortest."""
    pattern = symbols(pattern)
    return len(pattern) - pattern.count(RUN)


def matches(pattern: Pattern, text: str) -> bool:
    """Whether the text matches. Where the text is itself a pattern: whether it is covered, symbol by symbol.

    For patterns this is sound: a ONE stands for any symbol but RUN, a literal only for itself.
    """
    if pattern[:1] == REGEX:
        return machine(pattern[1:]).finds(fold(text) if is_folded(pattern[1:]) else text)
    if pattern[:1] == FOLDED:
        pattern, text = pattern[1:], fold(text)
    # Most pairs have nothing in common, and this tells so at once.
    if longest_literal(pattern) not in text:
        return False
    first, middle, last = _segments(pattern)
    if last is None:
        return len(text) == len(first) and _stands_at(first, text, 0)
    end = len(text) - len(last)
    at = len(first)
    if at > end or not _stands_at(first, text, 0) or not _stands_at(last, text, end):
        return False
    for segment in middle:
        found = _find(segment, text, at, end)
        if found < 0:
            return False
        at = found + len(segment)
    return True


def covers(general: Pattern, special: Pattern) -> bool:
    """Whether every string that matches `special` surely matches `general` (sound, not complete)."""
    if REGEX in (general[:1], special[:1]):
        if general[:1] == REGEX:
            return general == special
        special = envelope(special)
    if general[:1] == FOLDED:
        # What folding does to a text, it does to each of its characters.
        general, special = general[1:], _folded(special)
    elif special[:1] == FOLDED:
        if has_case(general):
            return False
        special = special[1:]
    literal = longest_literal(general)
    if literal:
        return literal in special and matches(general, special)
    ones = len(general) - 1
    if general == ONE * ones + RUN:  # only a length is asked for
        return length_min(special) >= ones
    return matches(general, special)


def disjoint(a: Pattern, b: Pattern) -> bool:
    """Whether surely no string matches both (sound, not complete)."""
    if REGEX in (a[:1], b[:1]):
        a, b = (envelope(one) if one[:1] == REGEX else one for one in (a, b))
    if a[:1] == FOLDED or b[:1] == FOLDED:
        a, b = _folded(a), _folded(b)
    if (_is_open(a) and RUN in b) or (_is_open(b) and RUN in a):
        return False
    a_fixed, b_fixed = RUN not in a, RUN not in b
    if (a_fixed and length_min(b) > len(a)) or (b_fixed and length_min(a) > len(b)):
        return True
    a_first, b_first = a.partition(RUN)[0], b.partition(RUN)[0]
    a_last, b_last = a.rpartition(RUN)[2], b.rpartition(RUN)[2]
    return _clash(a_first, b_first) or _clash(a_last[::-1], b_last[::-1])


@lru_cache(maxsize=4096)
def _folded(pattern: Pattern) -> str:
    """Its symbols, without case."""
    return fold(symbols(pattern))


@lru_cache(maxsize=4096)
def _is_open(pattern: Pattern) -> bool:
    """Whether strings that match begin and end in any way."""
    return pattern[:1] == RUN and pattern[-1:] == RUN


def _clash(a: str, b: str) -> bool:
    pairs = zip(a, b, strict=False)
    return any(x != y and x != ONE and y != ONE for x, y in pairs)


def _canonical(pattern: str) -> Pattern:
    if RUN in pattern:
        parts: list[str] = []
        wild = ""
        for symbol in pattern:
            if symbol in (RUN, ONE):
                wild += symbol
                continue
            if wild:
                parts.append(_ordered(wild))
                wild = ""
            parts.append(symbol)
        if wild:
            parts.append(_ordered(wild))
        pattern = "".join(parts)
    if has_wildcard(pattern[:-1]) and len(pattern) > PATTERN_LENGTH_MAX:
        _refuse_length(pattern)
    return pattern


def _refuse_length(pattern: Pattern) -> NoReturn:
    what = f"a LIKE pattern has {len(pattern):,} characters"
    raise LimitError(what, "PATTERN_LENGTH_MAX", PATTERN_LENGTH_MAX)


def _ordered(wild: str) -> str:
    return ONE * wild.count(ONE) + (RUN if RUN in wild else "")


@lru_cache(maxsize=4096)
def _segments(pattern: Pattern) -> tuple[str, tuple[str, ...], str | None]:
    """Split at the RUNs: what stands at the start, in between, and at the end (None without a RUN)."""
    first, *rest = pattern.split(RUN)
    if not rest:
        return first, (), None
    return first, tuple(rest[:-1]), rest[-1]


@lru_cache(maxsize=4096)
def longest_literal(pattern: Pattern) -> str:
    """The longest stretch without a wildcard, which any text that matches has too, folded if case is ignored.

    A regular expression stands for itself: it covers no other pattern.
    """
    if pattern[:1] == REGEX:
        return pattern
    return max(symbols(pattern).replace(ONE, RUN).split(RUN), key=len)


def _stands_at(segment: str, text: str, at: int) -> bool:
    if ONE not in segment:
        return text.startswith(segment, at)
    piece = text[at : at + len(segment)]
    return len(piece) == len(segment) and all(
        s == c or (s == ONE and c != RUN) for s, c in zip(segment, piece, strict=True)
    )


def _find(segment: str, text: str, start: int, end: int) -> int:
    """Where the segment first stands in text[start:end], or -1."""
    if ONE not in segment:
        return text.find(segment, start, end)
    literal, offset = _anchor(segment)
    for _ in range(_TRIES if literal else 0):
        found = text.find(literal, start + offset, end)
        if found < 0:
            return -1
        start = found - offset
        if start + len(segment) <= end and _stands_at(segment, text, start):
            return start
        start += 1
    # The literal stands all over the text: go on in steps that no text can make longer.
    masks, any_mask = _masks(segment)
    goal = 1 << (len(segment) - 1)
    state = 0
    for at in range(start, end):
        state = (state << 1 | 1) & masks.get(text[at], any_mask)
        if state & goal:
            return at - len(segment) + 1
    return -1


@lru_cache(maxsize=1024)
def _anchor(segment: str) -> tuple[str, int]:
    """The longest stretch of the segment without a wildcard, and where it stands."""
    literal = max(segment.split(ONE), key=len)
    return literal, segment.index(literal)


@lru_cache(maxsize=1024)
def _masks(segment: str) -> tuple[dict[str, int], int]:
    """For shift-and: per character, the positions of the segment where it may stand."""
    any_mask = sum(1 << at for at, symbol in enumerate(segment) if symbol == ONE)
    masks: dict[str, int] = {RUN: 0}
    for at, symbol in enumerate(segment):
        if symbol != ONE:
            masks[symbol] = masks.get(symbol, any_mask) | 1 << at
    return masks, any_mask
