"""Filters as text in bulk: most become arrays without passing through the algebra.

A text of a known shape (`penstock.filters.languages.shapes`) is a conjunction of one condition for each
attribute. If its literals are ordinary, the operator and the literals tell the cuts of each condition, the
same cuts that the algebra finds (`penstock.filters.constraint`). Everything else is left to the algebra.

Integers below 10**15 are doubles. So the cuts of an integer are its key (`columns.double_keys`), and the same
key and just after it.
"""

from math import inf
from typing import Final

import numpy as np
from numpy.typing import NDArray

from penstock.errors import PenstockError
from penstock.filters.constraint import value_set
from penstock.filters.filter import Filter, box
from penstock.filters.languages import sql
from penstock.filters.languages.shapes import Shape, Shapes, Step, read
from penstock.filters.valuesets import Presence
from penstock.matching.columns import Columns, double_keys, offsets_of
from penstock.model.limits import LIST_VALUES_MAX, LITERAL_LENGTH_MAX
from penstock.model.values import Family

_LEAST, _A, _A_NEXT, _B, _B_NEXT = range(5)
"""What a cut may be: the least value of the family, the first or second literal, or what follows these."""

_RANGES: Final[dict[str, tuple[int, ...]]] = {
    "=": (_A, _A_NEXT),
    "!=": (_LEAST, _A, _A_NEXT),
    "<": (_LEAST, _A),
    "<=": (_LEAST, _A_NEXT),
    ">": (_A_NEXT,),
    ">=": (_A,),
    "between": (_A, _B_NEXT),
    "not between": (_LEAST, _A, _B_NEXT),
    "prefix": (_A, _B),
    "not prefix": (_LEAST, _A, _B),
    "in": (),
    "not in": (_LEAST,),
    "exists": (),
    "absent": (),
}
"""The cuts of a condition: after these, lists have two for each of their values."""

_BEFORE: Final = {_A: _A, _A_NEXT: _A, _B: _B, _B_NEXT: _B}
_LEAST_KEY: Final = int(double_keys(np.array([-inf]))[0])

_FORMS: Final = {operator: number for number, operator in enumerate(_RANGES)}
_LISTS: Final = (_FORMS["in"], _FORMS["not in"])
_FIRST_OF_TEXTS: Final = _FORMS["prefix"]
"""The forms before this one are of numbers, too."""

_OF_PATTERNS: Final = {"like": ("=", "prefix"), "not like": ("!=", "not prefix")}
_LAST_ASCII: Final = "\x7f"

_PRESENCES: Final = {"exists": int(Presence.EXISTS), "absent": int(Presence.ABSENT)}
_NUMBER, _STRING = int(Family.NUMBER), int(Family.STRING)

Condition = tuple[int, int, int, int]
"""The form of a condition, its kind, and its literals: integers, or numbers of texts or lists."""


class BulkTexts:
    """Collects filters that are given as text; `build` turns them into arrays all at once."""

    def __init__(self) -> None:
        self._shapes = Shapes(sql.parse_expression)
        self._ids: list[int] = []
        self._counts: list[int] = []
        self._attributes: list[str] = []
        self._conditions: list[int] = []
        """Of each condition, the four numbers of `Condition`."""
        self._lists: list[NDArray[np.int64]] = []
        self._texts: dict[str, int] = {"": 0}

    def __len__(self) -> int:
        return len(self._ids)

    def attributes(self) -> dict[str, None]:
        """The attributes that filters name."""
        return dict.fromkeys(self._attributes)

    def add(self, number: int, text: str) -> "Filter | bool":
        """Take a filter under the number of an id: whether it was taken.

        If it was not, but the text need not be parsed either, it is the filter that the text says.
        """
        found = self._shapes.read(text)
        if found is None:
            return False
        shape, literals = found
        made: list[int] = []
        lists = len(self._lists)
        for step in shape.steps:
            condition = self._condition(step, literals)
            if condition is None:
                del self._lists[lists:]
                return _by_algebra(shape, literals) or False
            made += condition
        self._ids.append(number)
        self._counts.append(len(shape.steps))
        self._attributes += [step.attribute for step in shape.steps]
        self._conditions += made
        return True

    def build(self, names: dict[str, int]) -> Columns:
        """All filters that were taken; `names` has the numbers of their attributes."""
        form, kind, a, b = np.array(self._conditions, np.int64).reshape(-1, 4).T
        strings, is_list = kind == _STRING, np.isin(form, _LISTS)
        lists = offsets_of(np.fromiter(map(len, self._lists), np.int64, len(self._lists)))
        lengths = np.zeros(len(form), np.int64)
        lengths[is_list] = np.diff(lists)[a[is_list]]
        heads = np.array([len(cuts) for cuts in _RANGES.values()], np.int64)[form]
        offsets = offsets_of(heads + 2 * lengths)
        high, low = np.empty(offsets[-1], np.int64), np.zeros(offsets[-1], np.int16)
        keys = {_A: _keys(a, ~strings), _B: _keys(b, ~strings)}
        for number, cuts in enumerate(_RANGES.values()):
            here = np.flatnonzero(form == number)
            for place, cut in enumerate(cuts):
                at, texts = offsets[here] + place, strings[here]
                if cut == _LEAST:
                    high[at] = np.where(texts, 0, _LEAST_KEY)
                else:
                    after = cut in (_A_NEXT, _B_NEXT)
                    high[at] = keys[_BEFORE[cut]][here]
                    # The end of a prefix is a text of its own, and so not just after one.
                    low[at] = after
        # Lists in the order of the conditions: each was read when its condition came.
        listed, texts = np.repeat(offsets[:-1] + heads, lengths), np.repeat(strings, lengths)
        if len(listed):
            values = np.concatenate(self._lists)
            at = listed + 2 * (np.arange(len(listed)) - np.repeat(lists[:-1], np.diff(lists)))
            high[at] = _keys(values, ~texts)
            high[at + 1] = high[at]
            low[at + 1] = 1
        return Columns(
            names=list(names),
            literals=[text.encode() for text in self._texts],
            patterns=[],
            ids=np.array(self._ids, np.int32),
            offsets=offsets_of(np.array(self._counts, np.int64)),
            attribute=np.fromiter(map(names.__getitem__, self._attributes), np.int32, len(form)),
            kind=kind.astype(np.uint8),
            cut_offsets=offsets,
            cut_high=high,
            cut_low=low,
            pattern_offsets=np.zeros(len(form) + 1, np.int64),
            pattern=np.zeros(0, np.int32),
        )

    def _condition(self, step: Step, literals: list[str]) -> Condition | None:
        """A condition with its literals, if they are ordinary."""
        operator = step.operator
        if not step.literals:
            kind = _PRESENCES.get(operator)
            return None if kind is None else (_FORMS[operator], kind, 0, 0)
        literal = literals[step.first]
        mark = literal[0]
        if mark == "(":
            return self._list(operator, literal)
        if mark == "'":
            return self._text(step, literal[1:-1], literals)
        form = _FORMS.get(operator)
        if form is None or form >= _FIRST_OF_TEXTS:
            return None
        low = high = int(literal)
        if step.literals == 2:
            other = literals[step.first + 1]
            if other[0] == "'":
                return None
            high = int(other)
            if high < low:
                return None
        return form, _NUMBER, low, high

    def _text(self, step: Step, text: str, literals: list[str]) -> Condition | None:
        operator, other = step.operator, ""
        if not text or len(text) > LITERAL_LENGTH_MAX:
            return None
        if operator in _OF_PATTERNS:
            exact, prefix = _OF_PATTERNS[operator]
            if text[-1] != "%":
                operator = exact
            else:
                operator, text = prefix, text[:-1]
            if "%" in text or "_" in text or "\\" in text:
                return None
        if operator in ("prefix", "not prefix"):
            if not text or text[-1] == _LAST_ASCII:
                return None
            other = text[:-1] + chr(ord(text[-1]) + 1)
        elif step.literals == 2:
            literal = literals[step.first + 1]
            other = literal[1:-1]
            if literal[0] != "'" or other < text or len(other) > LITERAL_LENGTH_MAX:
                return None
        form = _FORMS.get(operator)
        if form is None or operator in ("in", "not in"):
            return None
        texts = self._texts
        a = texts.setdefault(text, len(texts))
        return form, _STRING, a, texts.setdefault(other, len(texts)) if other else 0

    def _list(self, operator: str, literal: str) -> Condition | None:
        form = _FORMS.get(operator)
        if form not in _LISTS:
            return None
        values = read(literal)
        if not isinstance(values, list) or len(values) > LIST_VALUES_MAX:
            return None
        if "'" not in literal:
            self._lists.append(np.unique(np.array(values, np.int64)))
            return form, _NUMBER, len(self._lists) - 1, 0
        different = sorted({*values})
        if not different[0] or len(literal) > LITERAL_LENGTH_MAX < max(map(len, different)):
            return None
        texts = self._texts
        numbers = [texts.setdefault(text, len(texts)) for text in different]
        self._lists.append(np.array(numbers, np.int64))
        return form, _STRING, len(self._lists) - 1, 0


def _keys(values: NDArray[np.int64], are_numbers: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Numbers as keys; numbers of texts stay."""
    return np.where(are_numbers, double_keys(values.astype(np.float64)), values)


def _by_algebra(shape: Shape, literals: list[str]) -> Filter | None:
    """The filter of a shape with these literals; None if something is wrong with them, or nothing matches."""
    conditions = {}
    for step in shape.steps:
        try:
            states = value_set(step.operator, step.value(literals))
        except PenstockError:
            return None
        if states.is_empty:
            return None
        conditions[step.attribute] = states
    return box(conditions)
