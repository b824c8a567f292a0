"""Regular expressions that can be matched in linear time: how they are read, written and bounded.

What PostgreSQL, DuckDB, Spark, Java, RE2 and Python understand alike is read: characters, classes, groups,
alternatives, repetition, `^ $ \\b \\B \\A \\z`, and the flags `(?i)` and `(?s)` in front. What would take
backtracking (references, look-around, atomic groups) is refused, and so is what those engines disagree on.

An expression has one written form. Where it can be said without a backslash it is, because engines disagree
on backslashes in literals: `\\d\\.` becomes `[0-9][.]`. With `(?i)` the expression is folded, and so is
every text that is matched with it: see `folding`.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple, NoReturn, TypeAlias

import msgspec

from penstock.errors import FilterError, LimitError
from penstock.filters.folding import fold, fold_ranges
from penstock.model.limits import DEPTH_MAX, REGEX_LENGTH_MAX, REGEX_SIZE_MAX

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""Code points from and to, both included; in order, apart from one another."""

_LAST: Final = 0x10FFFF
ANY: Final[Ranges] = ((0, _LAST),)


class Chars(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """One character of some."""

    ranges: Ranges


class Assertion(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """A place between characters: `^`, `$`, `b` at the edge of a word, `B` anywhere else."""

    kind: str


class Sequence(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """One part after another."""

    parts: "tuple[Node, ...]"


class Choice(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """Any of the parts."""

    parts: "tuple[Node, ...]"


class Repeat(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """A part from `low` to `high` times; without end for None."""

    part: "Node"
    low: int
    high: int | None


Node: TypeAlias = Chars | Assertion | Sequence | Choice | Repeat


class Regex(NamedTuple):
    """An expression that was read."""

    root: Node
    folded: bool
    """Whether case is ignored."""
    dotall: bool
    """Whether `.` is also a line feed."""

    def text(self) -> str:
        """The one written form."""
        flags = "i" * self.folded + "s" * self.dotall
        return (f"(?{flags})" if flags else "") + _write(self.root, self, _IN_CHOICE)


def _united(ranges: Iterable[tuple[int, int]]) -> Ranges:
    made: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if made and low <= made[-1][1] + 1:
            made[-1] = made[-1][0], max(made[-1][1], high)
        else:
            made.append((low, high))
    return tuple(made)


def _complement(ranges: Ranges) -> Ranges:
    made: list[tuple[int, int]] = []
    start = 0
    for low, high in ranges:
        if low > start:
            made.append((start, low - 1))
        start = high + 1
    if start <= _LAST:
        made.append((start, _LAST))
    return tuple(made)


_DIGIT: Final[Ranges] = ((48, 57),)
WORD: Final[Ranges] = ((48, 57), (65, 90), (95, 95), (97, 122))
_SPACE: Final[Ranges] = ((9, 13), (32, 32))
_LINE: Final[Ranges] = _complement(((10, 10),))
_CLASSES: Final = {"d": _DIGIT, "w": WORD, "s": _SPACE}
_CONTROLS: Final = {"n": 10, "t": 9, "r": 13, "f": 12}
_ASSERTIONS: Final = {"b": "b", "B": "B", "A": "^", "z": "$"}
_REFUSED: Final = {
    "Z": r"\Z means different things to different engines; \z is the end of the text",
    "v": r"\v means different things to different engines; \x0b is a vertical tab",
    "p": r"there are no classes of Unicode properties (\p)",
    "P": r"there are no classes of Unicode properties (\P)",
    "k": "there are no references to groups: they cannot be matched in linear time",
    "Q": r"there is no \Q: put a backslash before each special character",
}

_FLAGS: Final = re.compile(r"\(\?([is]+)\)")
_COUNT: Final = re.compile(r"\{([0-9]{1,9})(?:(,)([0-9]{1,9})?)?\}")
_HEX: Final = re.compile(r"x\{([0-9A-Fa-f]{1,6})\}|x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})")
_PLAIN: Final = re.compile(r"[^\\.^$*+?{}\[\]()|]+")

_EMPTY: Final = Sequence(())


class _Reader:
    """Recursive descent over one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.folded = self.dotall = False
        found = _FLAGS.match(text)
        if found:
            self.folded, self.dotall = "i" in found[1], "s" in found[1]
            self.at = found.end()

    def whole(self) -> Regex:
        root = self._choice()
        if self.at < len(self.text):
            self._fail("this ) closes no group")
        return Regex(root, self.folded, self.dotall)

    def _fail(self, what: str, at: int | None = None) -> NoReturn:
        place = self.at if at is None else at
        raise FilterError(f"in the regular expression '{self.text[:60]}', at character {place + 1}: {what}")

    def _choice(self) -> Node:
        parts = [self._sequence()]
        while self.text[self.at : self.at + 1] == "|":
            self.at += 1
            parts.append(self._sequence())
        flat = [one for part in parts for one in (part.parts if isinstance(part, Choice) else (part,))]
        distinct = tuple(dict.fromkeys(flat))
        return distinct[0] if len(distinct) == 1 else Choice(distinct)

    def _sequence(self) -> Node:
        parts: list[Node] = []
        text = self.text
        while self.at < len(text) and text[self.at] not in "|)":
            plain = _PLAIN.match(text, self.at)
            if plain:
                characters = fold(plain[0]) if self.folded else plain[0]
                parts += [_character(ord(character)) for character in characters]
                self.at = plain.end()
                part = parts.pop()
            else:
                part = self._atom()
            if self.at < len(text) and text[self.at] in "*+?{":
                part = self._repeated(part)
            parts += part.parts if isinstance(part, Sequence) else (part,)
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _atom(self) -> Node:
        mark = self.text[self.at]
        if mark == "(":
            return self._group()
        if mark == "[":
            return Chars(self._class())
        if mark == "\\":
            return self._escape()
        if mark in "*+?":
            self._fail(f"there is nothing before {mark} to repeat")
        if mark == "{":
            self._fail(r"there is nothing before { to repeat (a brace is written \{)")
        self.at += 1
        if mark == ".":
            return Chars(ANY if self.dotall else _LINE)
        if mark in "^$":
            return Assertion(mark)
        return _character(ord(mark))  # ] and } that close nothing

    def _group(self) -> Node:
        start = self.at
        self.at += 1
        if self.text[self.at : self.at + 1] == "?":
            if self.text[self.at + 1 : self.at + 2] != ":":
                self._fail(
                    "groups are ( ) and (?: ), and the flags (?i) and (?s) stand in front; there are no "
                    "names, and no look-around, which cannot be matched in linear time",
                    start,
                )
            self.at += 2
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise LimitError("the groups of a regular expression nest too deep", "DEPTH_MAX", DEPTH_MAX)
        inner = self._choice()
        self.depth -= 1
        if self.text[self.at : self.at + 1] != ")":
            self._fail("this ( is never closed", start)
        self.at += 1
        return inner

    def _repeated(self, part: Node) -> Node:
        if isinstance(part, Assertion):
            self._fail("a place such as ^ cannot be repeated")
        text = self.text
        mark = text[self.at]
        low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(mark, (0, None))
        if mark == "{":
            found = _COUNT.match(text, self.at)
            if found is None:
                self._fail(r"a repetition is {2}, {2,} or {2,5} (a brace is written \{)")
            low = int(found[1])
            high = low if found[2] is None else None if found[3] is None else int(found[3])
            if high is not None and high < low:
                self._fail("a repetition ends no earlier than it begins")
            self.at = found.end()
        else:
            self.at += 1
        # A lazy repetition finds a match exactly where a greedy one does.
        if text[self.at : self.at + 1] == "?":
            self.at += 1
        if text[self.at : self.at + 1] in ("+", "*", "?", "{"):
            self._fail("a repetition cannot be repeated (put it into a group) and cannot be possessive")
        if high == 0 or (not size(part) and low == 0):
            return _EMPTY
        if (low, high) == (1, 1) or not size(part):
            return part
        made = Repeat(part, low, high)
        check_size(made)
        return made

    def _escape(self) -> Node:
        character = self.text[self.at + 1 : self.at + 2]
        if character in _ASSERTIONS:
            self.at += 2
            return Assertion(_ASSERTIONS[character])
        return Chars(self._escaped())

    def _escaped(self) -> Ranges:
        """What a backslash and what follows stand for."""
        character = self.text[self.at + 1 : self.at + 2]
        if character.lower() in _CLASSES:
            self.at += 2
            positive = _CLASSES[character.lower()]
            if self.folded:
                positive = _folded(positive)
            return positive if character.islower() else _complement(positive)
        if character in _CONTROLS:
            self.at += 2
            return ((_CONTROLS[character],) * 2,)
        found = _HEX.match(self.text, self.at + 1)
        if found:
            code = int(found[1] or found[2] or found[3], 16)
            if code > _LAST or 0xD800 <= code < 0xE000:
                self._fail("there is no such character")
            self.at = found.end()
            return self._single(code)
        if character.isdigit():
            self._fail("there are no references to groups: they cannot be matched in linear time")
        if not character or character.isalpha() or ord(character) >= 0x80:
            self._fail(
                _REFUSED.get(
                    character, "a backslash stands before a special character, or in \\d \\w \\s \\b"
                )
            )
        self.at += 2
        return self._single(ord(character))

    def _single(self, code: int) -> Ranges:
        if self.folded:
            code = ord(fold(chr(code)))
        return ((code, code),)

    def _class(self) -> Ranges:
        start, text = self.at, self.text
        self.at += 1
        negated = text[self.at : self.at + 1] == "^"
        self.at += negated
        found: list[tuple[int, int]] = []
        first = True
        while True:
            mark = text[self.at : self.at + 1]
            if not mark:
                self._fail("this [ is never closed", start)
            if mark == "]" and not first:
                break
            first = False
            low = self._member(mark)
            if text[self.at : self.at + 1] == "-" and text[self.at + 1 : self.at + 2] not in ("]", ""):
                begin = self.at
                self.at += 1
                high = self._member(text[self.at])
                if len(low) != 1 or len(high) != 1 or low[0][0] != low[0][1] or high[0][0] != high[0][1]:
                    self._fail(r"a range goes from one character to another (a dash is written \-)", begin)
                if low > high:
                    self._fail("a range ends no earlier than it begins", begin)
                found.append((low[0][0], high[0][0]))
            else:
                found += low
        self.at += 1
        ranges = _united(found)
        if self.folded:
            if any(high - low >= _FOLDED_RANGE_MAX and (low, high) not in _WIDE for low, high in ranges):
                self._fail(f"with (?i) a range has at most {_FOLDED_RANGE_MAX:,} characters", start)
            ranges = _folded(ranges)
        return _complement(ranges) if negated else ranges

    def _member(self, mark: str) -> Ranges:
        """A character of a class, or several of an escape."""
        if mark == "\\":
            if self.text[self.at + 1 : self.at + 2] in _ASSERTIONS:
                self._fail("in a class there are characters only")
            return self._escaped()
        if mark == "[":
            self._fail(r"a [ in a class is written \[", self.at)
        if mark == "&" and self.text.startswith("&&", self.at):
            self._fail(r"engines disagree on && in a class; & alone is one character")
        self.at += 1
        # Folded with the whole class: a range goes by the characters that were written.
        return ((ord(mark), ord(mark)),)


def _folded(ranges: Ranges) -> Ranges:
    """The ranges and what their characters fold to. What folds to another is in no text, and does no harm."""
    return _united([*ranges, *fold_ranges([part for part in ranges if part not in _WIDE])])


_FOLDED_RANGE_MAX: Final = 1_024
"""Characters of a range in a class that ignores case: each is folded."""

_WIDE: Final = frozenset(
    part
    for ranges in _CLASSES.values()
    for form in (ranges, _united([*ranges, *fold_ranges(ranges)]))
    for part in _complement(form)
    if part[1] - part[0] >= _FOLDED_RANGE_MAX
)
"""The ranges of \\D, \\W and \\S, which are folded already."""


@lru_cache(maxsize=1024)
def _character(code: int) -> Chars:
    return Chars(((code, code),))


@lru_cache(maxsize=4096)
def read(text: str) -> Regex:
    """Read an expression, or raise an error that says what is wrong with it, and where."""
    _check_length(text)
    found = _Reader(text).whole()
    check_size(found.root)
    _check_length(found.text())
    return found


def is_folded(text: str) -> bool:
    """Whether an expression, as it is written, ignores case."""
    return text.startswith("(?i")


@lru_cache(maxsize=4096)
def size_of(text: str) -> int:
    """The size of an expression, as it is written."""
    return size(read(text).root)


def _check_length(text: str) -> None:
    if len(text) > REGEX_LENGTH_MAX:
        what = f"a regular expression has {len(text):,} characters"
        raise LimitError(what, "REGEX_LENGTH_MAX", REGEX_LENGTH_MAX)


def size(node: Node) -> int:
    """How many characters, classes and places there are, each counted as often as it is repeated."""
    if isinstance(node, Chars | Assertion):
        return 1
    if isinstance(node, Repeat):
        return size(node.part) * max(node.low, node.high or 1)
    return sum(map(size, node.parts))


def check_size(node: Node) -> None:
    """Raise if an expression is too large to be matched."""
    found = size(node)
    if found > REGEX_SIZE_MAX:
        what = f"a regular expression, written without repetitions, has {found:,} characters and classes"
        raise LimitError(what, "REGEX_SIZE_MAX", REGEX_SIZE_MAX)


# Writing

_DASH: Final = ord("-")

_IN_CHOICE, _IN_SEQUENCE, _IN_REPEAT = 0, 1, 2


def _write(node: Node, whole: Regex, place: int) -> str:
    if isinstance(node, Chars):
        return _write_chars(node.ranges, whole.folded, whole.dotall)
    if isinstance(node, Assertion):
        return rf"\{node.kind}" if node.kind in "bB" else node.kind
    if isinstance(node, Repeat):
        written = _write(node.part, whole, _IN_REPEAT) + _write_count(node.low, node.high)
        return f"({written})" if place == _IN_REPEAT else written
    if isinstance(node, Choice):
        written = "|".join(_write(part, whole, _IN_CHOICE) for part in node.parts)
        return f"({written})" if place != _IN_CHOICE else written
    written = "".join(_write(part, whole, _IN_SEQUENCE) for part in node.parts)
    return f"({written})" if place == _IN_REPEAT else written


def _write_count(low: int, high: int | None) -> str:
    known = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((low, high))
    if known is not None:
        return known
    return f"{{{low}}}" if low == high else f"{{{low},{'' if high is None else high}}}"


@lru_cache(maxsize=4096)
def _write_chars(ranges: Ranges, folded: bool, dotall: bool) -> str:
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        character = chr(ranges[0][0])
        if character in "[^\\":
            return "\\" + character
        return f"[{character}]" if character in ".$*+?{}()|]" else character
    if ranges == (ANY if dotall else _LINE):
        return "."
    if ranges in (ANY, ()):
        return r"[\s\S]" if ranges else r"[^\s\S]"
    negation = ""
    if ranges[-1][1] == _LAST:
        others = _complement(ranges)
        if not folded or _folded(others) == others:
            negation, ranges = "^", others
    # A dash at the end of a range stands last, where it needs no backslash.
    dash = ""
    written = ""
    for low, high in ranges:
        if _DASH in (low, high):
            dash = "-"
            low, high = low + (low == _DASH), high - (high == _DASH)
        written += _write_range(low, high) if low <= high else ""
    return f"[{negation}{written}{dash}]"


def _write_range(low: int, high: int) -> str:
    begin, end = ("\\" * (chr(code) in "[]^-\\&") + chr(code) for code in (low, high))
    return begin if low == high else f"{begin}{end}" if high == low + 1 else f"{begin}-{end}"
