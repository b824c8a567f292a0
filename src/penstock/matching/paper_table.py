"""The forwarding table of Carzaniga and Wolf, "Fast Forwarding for Content-Based Networking" (2002), §4.1.

On the left, an index of all distinct constraints: by name, by type, and then by operator. On the right, the
filters that each constraint is linked to, their sizes, and their interfaces. Everything is flat arrays:

- a constraint is its number. Those on integers come first, ordered by (attribute, operator, value), so that
  the sorted vectors of the paper's figure 4 are stretches of one array; those on strings follow, ordered by
  (attribute, word, operator), as `strings_index` wants them;
- the links are rows one after another: constraint `c` is part of `filters[links[c]:links[c + 1]]`, and the
  interfaces of these filters stand beside them, which saves looking them up one by one;
- an attribute is the rank of its name, which a ternary search trie finds, as in §4.2.

What differs from the paper: a table is built at once and not changed after.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.errors import FilterError
from penstock.filters.constraint import Constraint, literal
from penstock.matching.strings_index import (
    StringIndex,
    Tries,
    build_string_index,
    build_tries,
    sorted_strings,
)
from penstock.model.values import Family

OPERATORS: Final = ("=", "<", ">", "prefix", "suffix", "substring")
"""The paper's operators; the first three apply to integers too."""

NUMBER_OPERATORS: Final = 3
"""How many of `OPERATORS` apply to integers."""

SIZE_MAX: Final = 2**16 - 1
"""Constraints of one filter: a counter shares 32 bits with the stamp of its message."""

Ints = NDArray[np.signedinteger[Any]]


class Constraints(NamedTuple):
    """Filters as flat arrays: filter `i` has the constraints `filter_offsets[i]:filter_offsets[i + 1]`.

    `attribute` is an index into a list of names, `operator` one into `OPERATORS`, and `value` an integer or,
    where `is_string`, an index into a list of words.
    """

    filter_offsets: Ints
    attribute: Ints
    operator: Ints
    is_string: NDArray[np.bool_]
    value: Ints


class Messages(NamedTuple):
    """Messages as flat arrays: message `i` has the attributes `offsets[i]:offsets[i + 1]`."""

    offsets: Ints
    attribute: Ints
    is_string: NDArray[np.bool_]
    value: Ints


class NumberIndex(NamedTuple):
    """Constraints on integers: those of attribute `a`, operator `o` are `bounds[3 * a + o]` up to the next.

    Within such a stretch `values` ascend: binary search finds equality, less-than constraints are walked from
    the top down to the value, greater-than ones from the bottom up to it.
    """

    bounds: NDArray[np.int64]
    values: NDArray[np.int64]


class ForwardingTable(NamedTuple):
    """Both sides of the table. Interfaces are ranks in `interface_ids`.

    `size` and `interface` are those of each filter; `link_interface` goes with `filters`, link by link.
    """

    names: Tries
    numbers: NumberIndex
    strings: StringIndex
    links: NDArray[np.int64]
    filters: NDArray[np.int32]
    link_interface: NDArray[np.int32]
    size: NDArray[np.uint16]
    interface: NDArray[np.int32]
    interface_ids: NDArray[np.int64]


def build_table(
    constraints: Constraints, interfaces: Ints, names: Sequence[str], words: Sequence[str]
) -> ForwardingTable:
    """Build the table; filter `i` belongs to interface `interfaces[i]`."""
    _check(constraints, interfaces, len(names), len(words))
    sizes = np.diff(constraints.filter_offsets)
    filter_of = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    sorted_names, sorted_words = sorted_strings(names), sorted_strings(words)
    attribute = sorted_names.rank[constraints.attribute]

    on_numbers = np.flatnonzero(~constraints.is_string)
    values, rank = np.unique(constraints.value[on_numbers].astype(np.int64), return_inverse=True)
    key = attribute[on_numbers] * NUMBER_OPERATORS + constraints.operator[on_numbers]
    number_keys, number_links, number_filters = _link(key * len(values) + rank, filter_of[on_numbers])
    stretches = np.arange(sorted_names.distinct * NUMBER_OPERATORS + 1, dtype=np.int64)
    numbers = NumberIndex(
        np.searchsorted(number_keys, stretches * len(values)).astype(np.int64),
        values[number_keys % max(len(values), 1)],
    )

    on_strings = np.flatnonzero(constraints.is_string)
    key = attribute[on_strings] * sorted_words.distinct + sorted_words.rank[constraints.value[on_strings]]
    key = key * len(OPERATORS) + constraints.operator[on_strings]
    string_keys, string_links, string_filters = _link(key, filter_of[on_strings])
    strings = build_string_index(string_keys, len(number_keys), sorted_names.distinct, sorted_words)

    filters = np.concatenate([number_filters, string_filters])
    interface_ids, ranks = np.unique(np.asarray(interfaces, dtype=np.int64), return_inverse=True)
    interface = ranks.astype(np.int32)
    distinct_names = np.arange(sorted_names.distinct, dtype=np.int32)
    return ForwardingTable(
        names=build_tries(np.array([0, sorted_names.distinct]), distinct_names, sorted_names),
        numbers=numbers,
        strings=strings,
        links=np.concatenate([number_links[:-1], string_links + len(number_filters)]),
        filters=filters,
        link_interface=interface[filters],
        size=np.bincount(filters, minlength=len(sizes)).astype(np.uint16),
        interface=interface,
        interface_ids=interface_ids,
    )


def _link(
    key: NDArray[np.int64], filter_of: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
    """The distinct keys, ascending, and the filters of each: keys, bounds of their rows, rows.

    A filter that says the same thing twice is linked once, or it would never be counted full.
    """
    order = np.argsort(key, kind="stable")  # stable: filters stay ascending within a key
    key, filters = key[order], filter_of[order]
    again = np.zeros(len(key), dtype=np.bool_)
    again[1:] = (key[1:] == key[:-1]) & (filters[1:] == filters[:-1])
    if again.any():
        key, filters = key[~again], filters[~again]
    starts = np.flatnonzero(np.diff(key, prepend=-1))
    return key[starts], np.append(starts, len(key)), filters


def _check(constraints: Constraints, interfaces: Ints, names: int, words: int) -> None:
    sizes = np.diff(constraints.filter_offsets)
    if len(sizes) != len(interfaces):
        raise FilterError(f"{len(sizes):,} filters have {len(interfaces):,} interfaces: give one for each")
    if len(sizes) and not 0 < sizes.min() <= sizes.max() <= SIZE_MAX:
        raise FilterError(f"a filter of this engine has 1 to {SIZE_MAX:,} constraints")
    known = np.where(constraints.is_string, len(OPERATORS), NUMBER_OPERATORS)
    if ((constraints.operator < 0) | (constraints.operator >= known)).any():
        raise FilterError(
            "this engine knows only the paper's operators: indexes into "
            f"{OPERATORS}, the first {NUMBER_OPERATORS} for integers"
        )
    texts = constraints.value[constraints.is_string]
    for what, index, count in (("name", constraints.attribute, names), ("word", texts, words)):
        if len(index) and not 0 <= index.min() <= index.max() < count:
            raise FilterError(f"a constraint refers to a {what} outside the list of {count:,}")


def flatten(filters: Iterable[Sequence[Constraint]]) -> tuple[Constraints, list[str], list[str]]:
    """Filters, each a sequence of constraints, as flat arrays, with their names and words."""
    offsets, rows = [0], []
    names: dict[str, int] = {}
    words: dict[str, int] = {}
    for constraints in filters:
        for constraint in constraints:
            attribute = names.setdefault(constraint.attribute, len(names))
            rows.append((attribute, *_encode(constraint, words)))
        offsets.append(len(rows))
    table = np.array(rows, dtype=np.int64).reshape(-1, 4)
    attribute_column, operator, is_string, value = (np.ascontiguousarray(column) for column in table.T)
    flat = Constraints(np.array(offsets), attribute_column, operator, is_string.astype(np.bool_), value)
    return flat, list(names), list(words)


def _encode(constraint: Constraint, words: dict[str, int]) -> tuple[int, bool, int]:
    """The operator's index, whether the value is a string, and the value or its index in the words."""
    if constraint.operator not in OPERATORS:
        raise FilterError(
            f"this engine knows only the paper's operators ({', '.join(OPERATORS)}), "
            f"not {constraint.operator!r:.40}"
        )
    operator = OPERATORS.index(constraint.operator)
    family, point = literal(constraint.value)
    if family is Family.STRING:
        return operator, True, words.setdefault(str(point), len(words))
    if family is Family.NUMBER and isinstance(point, int):
        return operator, False, point
    raise FilterError(f"this engine knows only integers and strings, not {constraint.value!r:.40}")


def nbytes(arrays: object) -> int:
    """The bytes of an array, or of all arrays in a tuple, nested or not."""
    if isinstance(arrays, tuple):
        return sum(nbytes(part) for part in arrays)
    return arrays.nbytes if isinstance(arrays, np.ndarray) else 0
