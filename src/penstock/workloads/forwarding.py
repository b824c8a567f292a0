"""The synthetic workload of Carzaniga and Wolf, "Fast Forwarding for Content-Based Networking" (2002), §5.1.

Messages have 1 to 19 attributes, filters 1 to 9 constraints, on 1000 names weighted by Zipf's law. Half of
the values are integers from 0 to 99, half are one of 1000 words; values are uniform. Names, values and types
have the same distributions in messages and in filters, which makes matches as likely as can be.

The paper's words are lost; `data/words.txt` has common English ones, the names first, then the values. As in
the paper, names are distinct within a message; here they are within a filter too.

Everything is flat arrays, from a seed: millions of constraints take seconds.
"""

from functools import cache
from importlib.resources import files
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.filters.constraint import Constraint
from penstock.filters.filter import Filter
from penstock.matching.paper_table import OPERATORS, Constraints, Messages

__all__ = [
    "OPERATORS",
    "Constraints",
    "Messages",
    "as_constraints",
    "as_event",
    "as_filter",
    "as_json_lines",
    "filters",
    "interfaces",
    "messages",
    "names",
    "words",
]

NAMES: Final = 1_000
WORDS: Final = 1_000
INTEGERS: Final = 100
CONSTRAINTS_MAX: Final = 9
ATTRIBUTES_MAX: Final = 19

_NUMBER_OPERATORS: Final = (0.6, 0.2, 0.2)
"""Shares of =, < and > in constraints on integers."""

_STRING_OPERATORS: Final = (0.35, 0.1, 0.1, 0.15, 0.15, 0.15)
"""Shares of `OPERATORS`, in their order, in constraints on strings."""


def names() -> list[str]:
    """The attribute names, the most frequent first."""
    return _lines()[:NAMES]


def words() -> list[str]:
    """The string values."""
    return _lines()[NAMES : NAMES + WORDS]


def filters(count: int, seed: int) -> Constraints:
    """So many random filters."""
    random = np.random.default_rng(seed)
    offsets = _offsets(random, count, CONSTRAINTS_MAX)
    attribute = _distinct_names(random, offsets)
    is_string, value = _values(random, len(attribute))
    operator = np.where(
        is_string,
        _draw(random, _STRING_OPERATORS, len(attribute)),
        _draw(random, _NUMBER_OPERATORS, len(attribute)),
    ).astype(np.int8)
    return Constraints(offsets, attribute, operator, is_string, value)


def messages(count: int, seed: int) -> Messages:
    """So many random messages. A seed's messages have nothing to do with its filters."""
    random = np.random.default_rng([seed, 1])
    offsets = _offsets(random, count, ATTRIBUTES_MAX)
    attribute = _distinct_names(random, offsets)
    is_string, value = _values(random, len(attribute))
    return Messages(offsets, attribute, is_string, value)


def interfaces(count: int, number_of_interfaces: int, seed: int) -> NDArray[np.int32]:
    """The interface of each of so many filters.

    Every interface has at least one; the others are shared out by uniform weights, as the paper draws the
    number of an interface's filters from a range that begins at one.
    """
    if not 0 < number_of_interfaces <= count:
        raise ValueError(f"{count:,} filters cannot use {number_of_interfaces:,} interfaces")
    random = np.random.default_rng([seed, 2])
    weights = np.cumsum(random.random(number_of_interfaces))
    shared = np.rint(weights / weights[-1] * (count - number_of_interfaces)).astype(np.int64)
    sizes = 1 + np.diff(shared, prepend=0)
    return np.repeat(np.arange(number_of_interfaces, dtype=np.int32), sizes)


def as_constraints(constraints: Constraints, i: int) -> list[Constraint]:
    """Filter `i` as a list of constraints."""
    known_names, known_words = names(), words()
    begin, end = constraints.filter_offsets[i : i + 2]
    return [
        Constraint(
            known_names[constraints.attribute[c]],
            OPERATORS[constraints.operator[c]],
            known_words[constraints.value[c]] if constraints.is_string[c] else int(constraints.value[c]),
        )
        for c in range(begin, end)
    ]


def as_filter(constraints: Constraints, i: int) -> Filter:
    """Filter `i` of the algebra."""
    return Filter(as_constraints(constraints, i))


def as_event(messages: Messages, i: int) -> dict[str, int | str]:
    """Message `i` as an event's attributes."""
    known_names, known_words = names(), words()
    begin, end = messages.offsets[i : i + 2]
    return {
        known_names[messages.attribute[a]]: (
            known_words[messages.value[a]] if messages.is_string[a] else int(messages.value[a])
        )
        for a in range(begin, end)
    }


def as_json_lines(messages: Messages) -> bytes:
    """All messages as lines of JSON."""
    return msgspec.json.Encoder().encode_lines(
        as_event(messages, i) for i in range(len(messages.offsets) - 1)
    )


@cache
def _lines() -> list[str]:
    return files("penstock.workloads").joinpath("data/words.txt").read_text("utf-8").split()


def _offsets(random: np.random.Generator, count: int, most: int) -> NDArray[np.int64]:
    """Bounds of so many rows, each of 1 to `most` items."""
    offsets = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(random.integers(1, most + 1, count), out=offsets[1:])
    return offsets


def _draw(random: np.random.Generator, shares: tuple[float, ...], count: int) -> NDArray[np.int64]:
    """Indexes into the shares, each as often as its share says."""
    return np.searchsorted(np.cumsum(shares)[:-1], random.random(count), side="right")


def _distinct_names(random: np.random.Generator, offsets: NDArray[np.int64]) -> NDArray[np.int32]:
    """Names by Zipf's law, without repetition within a row.

    All are drawn at once, and what occurs again in its row is drawn anew until nothing does: the same as
    drawing one by one and putting back what has been drawn before.
    """
    weights = np.cumsum(1 / np.arange(1, NAMES + 1))
    limits = weights[:-1] / weights[-1]
    drawn = np.searchsorted(limits, random.random(int(offsets[-1])), side="right")
    attribute: NDArray[np.int32] = drawn.astype(np.int32)
    row = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    suspects = np.arange(len(attribute))
    while len(suspects):
        key = row[suspects] * NAMES + attribute[suspects]
        order = np.argsort(key, kind="stable")
        again = suspects[order[1:][key[order[1:]] == key[order[:-1]]]]
        attribute[again] = np.searchsorted(limits, random.random(len(again)), side="right")
        marked = np.zeros(len(offsets) - 1, dtype=np.bool_)
        marked[row[again]] = True
        suspects = suspects[marked[row[suspects]]]
    return attribute


def _values(random: np.random.Generator, count: int) -> tuple[NDArray[np.bool_], NDArray[np.int32]]:
    """Types, half and half, and uniform values: integers or indexes of words."""
    is_string = random.random(count) < 0.5
    value = random.integers(0, np.where(is_string, WORDS, INTEGERS)).astype(np.int32)
    return is_string, value
