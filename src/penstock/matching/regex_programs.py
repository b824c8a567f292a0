"""Regular expressions as kernels read them: the text, to be read back, and its automaton as numbers."""

from functools import lru_cache
from itertools import chain
from typing import Final

import numpy as np
from numpy.typing import NDArray

from penstock.filters.automata import automaton
from penstock.matching.kernels.regex import ASCII, BITS, CODES_AT, REGEX

_KEPT_MAX: Final = 1_024
"""Programs of so many numbers are remembered: those of people's expressions are shorter."""


def program_of(text: str) -> NDArray[np.int32]:
    """The numbers that `kernels.regex` finds an expression with."""
    known = _short_program(text)
    return _program(text) if known is None else known


@lru_cache(maxsize=20_000)
def _short_program(text: str) -> NDArray[np.int32] | None:
    made = _program(text)
    return made if len(made) <= _KEPT_MAX else None


def _program(text: str) -> NDArray[np.int32]:
    found = automaton(text)
    words = -(-found.positions // BITS)
    starts = found.starts
    classes = np.searchsorted(np.array(starts), np.arange(ASCII), side="right") - 1
    sets = (found.first, found.accepted, found.found, *found.allowed, *found.follow)
    size = 4 * words
    data = b"".join(bits.to_bytes(size, "little") for bits in sets)
    head = (REGEX, len(text), *map(ord, text), found.positions, words, len(starts), int(found.empty))
    return np.fromiter(chain(head, classes.tolist(), starts, np.frombuffer(data, "<i4").tolist()), np.int32)


def text_of(program: NDArray[np.int32]) -> str:
    """The expression of a program."""
    return "".join(map(chr, program[CODES_AT : CODES_AT + int(program[1])].tolist()))
