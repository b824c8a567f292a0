"""Shapes of SQL texts: of texts that differ only in their literals, the parser reads the first.

Large sets of filters come from few templates: `tenant = 'a' and amount > 5`, with other values in each. The
*shape* of a text is what stands between its literals. The parser (`sql`) reads the first text of a shape. If
that is a conjunction of one condition for each attribute, so are all others of the shape, and a `Shape` says
which literals belong to which condition. Texts with unusual literals, and texts with errors, are left to the
parser.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from penstock.errors import PenstockError
from penstock.filters.constraint import Constraint
from penstock.filters.expression import And, Expression
from penstock.model.limits import TEXT_LENGTH_MAX

_DECIMAL: Final = r"(?=[0-9.]{2,16}(?![0-9.]))(?:[0-9]++\.[0-9]*+|\.[0-9]++)"
_NUMBER: Final = rf"(?<![\w.])[+-]?(?:[0-9]{{1,15}}|{_DECIMAL})(?![\w.])"
_STRING: Final = r"'[^'\0]*+'(?!')"
_LITERALS: Final = re.compile(
    rf"({_NUMBER}|{_STRING}"
    rf"|\(\s*+(?:{_NUMBER}(?:\s*+,\s*+{_NUMBER})*+|{_STRING}(?:\s*+,\s*+{_STRING})*+)\s*+\))"
)
"""Plain literals: numbers of up to 15 digits, texts without quotes in them, lists of either.

The double of a number of so few digits tells it from all others, and no two of them are neighbours.
"""

_QUOTES: Final = re.compile("['\"`]")

_SHAPES_MAX: Final = 1_024
"""Shapes that are remembered, those that are of no use among them."""

_PATIENCE: Final = 64
"""Unknown shapes more than known ones after which texts are not looked at: they have no shape in common."""

_PAUSE: Final = 4_096
"""Texts that are not looked at then."""


class Step(NamedTuple):
    """One condition of a shape: on which attribute, which operator, and where its literals stand."""

    attribute: str
    operator: str
    first: int
    literals: int
    constant: object
    """The value, where it is no literal: a bool, or None for `exists` and `absent`."""

    def value(self, given: Sequence[str]) -> object:
        """The value that the condition has with these literals."""
        if not self.literals:
            return self.constant
        first = read(given[self.first])
        return first if self.literals == 1 else (first, read(given[self.first + 1]))


class Shape(NamedTuple):
    """A conjunction of one condition for each attribute, in the order of the names."""

    steps: tuple[Step, ...]


class Shapes:
    """The shapes of texts seen so far."""

    def __init__(self, parse: Callable[[str], Expression]) -> None:
        self._parse = parse
        self._known: dict[tuple[str, ...], Shape | None] = {}
        self._unknown = self._skipped = 0

    def read(self, text: str) -> tuple[Shape, list[str]] | None:
        """The shape of a text and its literals, as they are written; None if the parser has to read it."""
        if self._unknown > _PATIENCE:
            self._pause()
            return None
        if len(text) > TEXT_LENGTH_MAX or not (text.isascii() or _is_unicode(text)):
            return None
        pieces = _LITERALS.split(text)
        literals = pieces[1::2]
        between = tuple(pieces[::2])
        if between in self._known:
            self._unknown -= self._unknown > 0
            shape = self._known[between]
        else:
            shape = self._learn(text, between, literals)
        return None if shape is None else (shape, literals)

    def _pause(self) -> None:
        self._skipped += 1
        if self._skipped >= _PAUSE:
            self._skipped = self._unknown = 0
            self._known = {}

    def _learn(self, text: str, between: tuple[str, ...], literals: Sequence[str]) -> Shape | None:
        self._unknown += 1
        shape = None if _QUOTES.search(" ".join(between)) else self._shape_of(text, literals)
        if len(self._known) < _SHAPES_MAX:
            self._known[between] = shape
        return shape

    def _shape_of(self, text: str, literals: Sequence[str]) -> Shape | None:
        try:
            expression = self._parse(text)
        except (PenstockError, RecursionError):
            return None
        parts = expression.parts if isinstance(expression, And) else (expression,)
        steps: list[Step] = []
        at = 0
        for part in parts:
            if not isinstance(part, Constraint):
                return None
            values = _values_of(part)
            if any(read(literal) != value for literal, value in zip(literals[at:], values, strict=False)):
                return None
            steps.append(Step(part.attribute, part.operator, at, len(values), None if values else part.value))
            at += len(values)
        if at != len(literals) or not steps or len({step.attribute for step in steps}) < len(steps):
            return None
        return Shape(tuple(sorted(steps, key=lambda step: step.attribute)))


def read(literal: str) -> float | str | list[float] | list[str]:
    """The value of a literal, or the values of a list."""
    if literal[0] == "'":
        return literal[1:-1]
    if literal[0] == "(":
        # Between the quotes stand the texts and, alternately, commas.
        return literal.split("'")[1::2] if "'" in literal else list(map(number, literal[1:-1].split(",")))
    return number(literal)


def number(literal: str) -> float:
    """The value of a number."""
    return float(literal) if "." in literal else int(literal)


def _is_unicode(text: str) -> bool:
    """Whether a text has no surrogates, which are no characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _values_of(constraint: Constraint) -> list[object]:
    """What the literals of a constraint should say; a list of `in` is one literal."""
    value, operator = constraint.value, constraint.operator
    if operator in ("in", "not in"):
        return [list(value)]
    if operator in ("between", "not between"):
        return list(value)
    return [] if value is None or isinstance(value, bool) else [value]
