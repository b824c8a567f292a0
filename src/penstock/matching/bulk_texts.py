"""Filters as text in bulk: most become arrays without passing through the algebra.

A text of a known shape (`penstock.filters.languages.shapes`) is a conjunction of one condition for each
attribute. If its literals are ordinary, the operator and the literals tell the cuts of each condition, the
same cuts that the algebra finds (`penstock.filters.constraint`). Everything else is left to the algebra.

Numbers of up to 15 digits are told apart by their doubles. So the cuts of a number are its key
(`columns.double_keys`), and the same key and just after it.

Lists may have millions of texts together. Their literals are kept as bytes in Arrow arrays; Arrow numbers the
different ones, and they are sorted once.
"""

from collections.abc import Iterator
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.errors import PenstockError
from penstock.filters.constraint import value_set
from penstock.filters.filter import Filter, box
from penstock.filters.languages import sql
from penstock.filters.languages.shapes import Shape, Shapes, Step, number, read
from penstock.filters.order import after_prefix
from penstock.filters.valuesets import Presence
from penstock.matching.columns import Columns, double_keys, offsets_of
from penstock.model.limits import LIST_VALUES_MAX, LITERAL_LENGTH_MAX
from penstock.model.values import Family

if TYPE_CHECKING:
    import pyarrow as pa

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
    "neither '' nor in": (_B_NEXT,),
    "exists": (),
    "absent": (),
}
"""The cuts of a condition: after these, lists have two for each of their values."""

_BEFORE: Final = {_A: _A, _A_NEXT: _A, _B: _B, _B_NEXT: _B}
_LEAST_KEY: Final = int(double_keys(np.array([-inf]))[0])

_FORMS: Final = {operator: number for number, operator in enumerate(_RANGES)}
_NOR_EMPTY: Final = _FORMS["neither '' nor in"]
_LISTS: Final = (_FORMS["in"], _FORMS["not in"], _NOR_EMPTY)
_FIRST_OF_TEXTS: Final = _FORMS["prefix"]
"""The forms before this one are of numbers, too."""

_FROM_LEAST: Final = tuple(operator for operator, cuts in _RANGES.items() if cuts[:2] == (_LEAST, _A))
_OF_PATTERNS: Final = {"like": ("=", "prefix"), "not like": ("!=", "not prefix")}

_CHUNK: Final = 2**23
"""So many characters of lists are brought into an array at a time."""

_BLOCK: Final = 2**20
"""So many values of lists are looked at at a time."""

_PRESENCES: Final = {"exists": int(Presence.EXISTS), "absent": int(Presence.ABSENT)}
_NUMBER, _STRING = int(Family.NUMBER), int(Family.STRING)

Condition = tuple[int, int, int, int]
"""The form of a condition, its kind, and its literals: places among the numbers, texts or lists."""


class BulkTexts:
    """Collects filters that are given as text; `build` turns them into arrays all at once."""

    def __init__(self) -> None:
        self._shapes = Shapes(sql.parse_expression)
        self._ids: list[int] = []
        self._counts: list[int] = []
        self._attributes: list[str] = []
        self._conditions: list[int] = []
        """Of each condition, the four numbers of `Condition`."""
        self._numbers: list[float] = []
        self._lists: list[NDArray[np.float64]] = []
        """The values of lists of numbers."""
        self._texts: dict[str, int] = {"": 0}
        self._text_lists = _TextLists()

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
        text_lists = self._text_lists.mark()
        for step in shape.steps:
            condition = self._condition(step, literals)
            if condition is None:
                del self._lists[lists:]
                self._text_lists.back_to(text_lists)
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
        literals, rank, texts = self._text_lists.numbered(list(self._texts))
        numbers = offsets_of(np.fromiter(map(len, self._lists), np.int64, len(self._lists)))
        lengths = np.zeros(len(form), np.int64)
        lengths[is_list & strings] = np.diff(texts.offsets)
        lengths[is_list & ~strings] = np.diff(numbers)
        heads = np.array([len(cuts) for cuts in _RANGES.values()], np.int64)[form]
        offsets = offsets_of(heads + 2 * lengths)
        high, low = np.empty(offsets[-1], np.int64), np.zeros(offsets[-1], np.int16)
        number_keys = double_keys(np.array([0.0, *self._numbers]))
        keys = {
            _A: _keys(a, strings, rank, number_keys),
            _B: _keys(b, strings, rank, number_keys),
        }
        for which, cuts in enumerate(_RANGES.values()):
            here = np.flatnonzero(form == which)
            for place, cut in enumerate(cuts):
                at, is_text = offsets[here] + place, strings[here]
                if cut == _LEAST:
                    high[at] = np.where(is_text, rank[0], _LEAST_KEY)
                else:
                    after = cut in (_A_NEXT, _B_NEXT)
                    high[at] = keys[_BEFORE[cut]][here]
                    # The end of a prefix is a text of its own, and so not just after one.
                    low[at] = after
        # Lists in the order of the conditions: each was read when its condition came.
        first = offsets[:-1] + heads
        for some, at in _places(first[is_list & strings], texts.offsets):
            high[at] = high[at + 1] = texts.values[some]
            low[at + 1] = 1
        if self._lists:
            values = np.concatenate(self._lists)
            for some, at in _places(first[is_list & ~strings], numbers):
                high[at] = high[at + 1] = double_keys(values[some])
                low[at + 1] = 1
        return Columns(
            names=list(names),
            literals=literals,
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
        given = [number(literal)]
        if step.literals == 2:
            other = literals[step.first + 1]
            if other[0] == "'":
                return None
            given.append(number(other))
            if given[1] < given[0]:
                return None
        self._numbers += given
        # Place 0 is that of a number which nobody asks for.
        end = len(self._numbers)
        return form, _NUMBER, end - len(given) + 1, end

    def _text(self, step: Step, text: str, literals: list[str]) -> Condition | None:
        operator, other = step.operator, ""
        if len(text) > LITERAL_LENGTH_MAX:
            return None
        if operator in _OF_PATTERNS:
            exact, prefix = _OF_PATTERNS[operator]
            if text[-1:] != "%":
                operator = exact
            else:
                operator, text = prefix, text[:-1]
            if "%" in text or "_" in text or "\\" in text:
                return None
        if operator in ("prefix", "not prefix"):
            end = after_prefix(text)
            if end is None:
                return None
            other = end
        elif step.literals == 2:
            literal = literals[step.first + 1]
            other = literal[1:-1]
            if literal[0] != "'" or other < text or len(other) > LITERAL_LENGTH_MAX:
                return None
        if not text and operator in _FROM_LEAST:
            # The cut stands where that of the least value does.
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
        if "'" in literal:
            # Without quotes in them, two side by side are an empty text.
            if form == _FORMS["not in"] and "''" in literal:
                form = _NOR_EMPTY
            taken = self._text_lists.add(literal, without_empty=form == _NOR_EMPTY)
            return (form, _STRING, 0, 0) if taken else None
        if literal.count(",") >= LIST_VALUES_MAX:
            return None
        # Spaces that are not of ASCII, only Python knows.
        values = np.fromstring(literal[1:-1], sep=",") if literal.isascii() else np.array(read(literal))
        self._lists.append(np.unique(values.astype(np.float64)))
        return form, _NUMBER, 0, 0


class _Lists(NamedTuple):
    """Lists end to end: the values of each in order, each once."""

    offsets: NDArray[np.int64]
    values: NDArray[np.int32]
    """Numbers of literals."""


class _TextLists:
    """The lists of texts, in the order in which they came."""

    def __init__(self) -> None:
        self._waiting: list[str] = []
        self._counts: list[int] = []
        self._without_empty: list[bool] = []
        self._chunks: list[pa.Array] = []
        self._size = 0
        self._found: tuple[list[bytes], NDArray[np.int64], _Lists] | None = None

    def mark(self) -> int:
        """Where `back_to` comes back to; what came before is brought into arrays now and then."""
        if self._size > _CHUNK:
            self._pack()
        return len(self._waiting)

    def back_to(self, mark: int) -> None:
        """Forget the lists that came after a mark, of which nothing has been brought into arrays."""
        gone = len(self._waiting) - mark
        if gone:
            del self._waiting[mark:], self._counts[-gone:], self._without_empty[-gone:]

    def add(self, literal: str, *, without_empty: bool) -> bool:
        """Take a list as it is written: whether it was taken. It was not if something is too long."""
        count = literal.count("'") // 2
        if count > LIST_VALUES_MAX or len(literal) > LITERAL_LENGTH_MAX < max(map(len, literal.split("'"))):
            return False
        self._waiting.append(literal)
        self._counts.append(count)
        self._without_empty.append(without_empty)
        self._size += len(literal)
        return True

    def _pack(self) -> None:
        """Bring the lists that wait into an array."""
        import pyarrow as pa

        data = np.frombuffer("".join(self._waiting).encode(), np.uint8)
        quotes = np.flatnonzero(data == ord("'"))
        begins, ends = quotes[::2] + 1, quotes[1::2]
        inside = np.zeros(len(data) + 1, np.int8)
        inside[begins] += 1
        inside[ends] -= 1
        texts = data[np.cumsum(inside[:-1], dtype=np.int8).view(np.bool_)]
        buffers = [None, pa.py_buffer(offsets_of(ends - begins)), pa.py_buffer(texts)]
        self._chunks.append(pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(begins), buffers))
        self._waiting, self._size = [], 0

    def numbered(self, others: list[str]) -> tuple[list[bytes], NDArray[np.int64], _Lists]:
        """All different texts; the number of each of some others, which are different; and the lists.

        Nothing can be added then. Asked again, it says the same.
        """
        if self._found is None:
            self._found = self._number(others)
        return self._found

    def _number(self, others: list[str]) -> tuple[list[bytes], NDArray[np.int64], _Lists]:
        if not self._counts:
            none = _Lists(np.zeros(1, np.int64), np.zeros(0, np.int32))
            return [text.encode() for text in others], np.arange(len(others)), none
        import pyarrow as pa
        import pyarrow.compute as pc

        self._pack()
        given = pa.array([text.encode() for text in others], pa.large_binary())
        encoded = pa.chunked_array([given, *self._chunks]).dictionary_encode()
        self._chunks = []
        literals = encoded.chunk(encoded.num_chunks - 1).dictionary
        # Sorted, as UTF-8 sorts as the code points do.
        order = pc.sort_indices(literals).to_numpy()
        rank = np.empty(len(order), np.int32)
        rank[order] = np.arange(len(order))
        codes = [rank[chunk.indices.to_numpy()] for chunk in encoded.chunks[1:]]
        lists = _sorted_lists(np.concatenate(codes), self._counts, self._without_empty)
        return literals.take(pa.array(order)).to_pylist(), rank[: len(others)].astype(np.int64), lists


def _sorted_lists(codes: NDArray[np.int32], counts: list[int], without_first: list[bool]) -> _Lists:
    """Lists of numbers of texts, sorted, each number once; some without 0, the empty text."""
    offsets = offsets_of(np.array(counts, np.int64))
    lengths = np.empty(len(counts), np.int64)
    is_without = np.array(without_first)
    end = 0
    for first, last in _blocks(offsets):
        block = slice(offsets[first], offsets[last])
        owner = np.repeat(np.arange(first, last), np.diff(offsets[first : last + 1]))
        keys = owner << 32 | codes[block]
        keys.sort()
        keep = np.ones(len(keys), np.bool_)
        keep[1:] = keys[1:] != keys[:-1]
        keep &= (keys & 0xFFFFFFFF != 0) | ~is_without[keys >> 32]
        keys = keys[keep]
        lengths[first:last] = np.bincount((keys >> 32) - first, minlength=last - first)
        # Never more than were there, so what is still to be read stays.
        codes[end : end + len(keys)] = keys & 0xFFFFFFFF
        end += len(keys)
    return _Lists(offsets_of(lengths), codes[:end])


def _blocks(offsets: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Lists, first and last, in blocks of about as many values."""
    first, count = 0, len(offsets) - 1
    while first < count:
        last = int(np.searchsorted(offsets, offsets[first] + _BLOCK, side="right")) - 1
        last = min(count, max(first + 1, last))
        yield first, last
        first = last


def _places(
    begins: NDArray[np.int64], offsets: NDArray[np.int64]
) -> Iterator[tuple[slice, NDArray[np.int64]]]:
    """The values of lists, some at a time, and the place of the first of the two cuts of each."""
    for first, last in _blocks(offsets):
        some = slice(int(offsets[first]), int(offsets[last]))
        begin = begins[first:last] - 2 * offsets[first:last]
        lengths = np.diff(offsets[first : last + 1])
        yield some, np.repeat(begin, lengths) + 2 * np.arange(some.start, some.stop)


def _keys(
    places: NDArray[np.int64],
    are_texts: NDArray[np.bool_],
    texts: NDArray[np.int64],
    numbers: NDArray[np.int64],
) -> NDArray[np.int64]:
    """What stands at some places, among the texts or the numbers."""
    found = np.empty(len(places), np.int64)
    found[are_texts] = texts[places[are_texts]]
    found[~are_texts] = numbers[places[~are_texts]]
    return found


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
