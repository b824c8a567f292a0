"""Kernels for regular expressions: whether one is found in a text, by its automaton.

A program is a row of numbers: REGEX, the length of the expression and its code points; how many positions
there are, how many words of 32 bits their sets have, how many classes of characters there are, and whether
the empty text matches; the class of each character of ASCII; where each class begins; and sets: those where
a text may begin, may end and has matched whatever comes, those that each class allows, and those that
follow each position. See `penstock.filters.automata`.
"""

import numpy as np

from penstock.matching.kernels.jit import inlined, kernel, leaf
from penstock.matching.kernels.search import Array, count_to

REGEX = -3
"""What a program begins with; programs of other patterns begin with a symbol."""

CODES_AT = 2
"""Where the code points of the expression stand."""

ASCII = 128
BITS = 32
"""Positions of one word."""

WORDS_MAX = 17
"""Words of a set: of 256 characters and classes, each of words or not, and what loops before and behind."""

SCRATCH = 2 * WORDS_MAX
"""Places behind a text that are needed for finding something in it."""

_WORD = 0xFFFFFFFF


@inlined
def _first_bit(low: int) -> int:
    """The number of a bit."""
    return (np.float64(low).view(np.int64) >> 52) - 1023


@leaf
def finds(symbols: Array, program: int, text: Array, size: int) -> bool:
    """Whether an expression is found in a text; SCRATCH places behind the text are written to."""
    head = program + CODES_AT + symbols[program + 1]
    words = np.int64(symbols[head + 1])
    classes = np.int64(symbols[head + 2])
    if size == 0:
        return symbols[head + 3] != 0  # type: ignore[no-any-return]
    ascii_classes = head + 4
    starts = ascii_classes + ASCII
    first = starts + classes
    accepted = first + words
    found = accepted + words
    allowed = found + words
    follow = allowed + classes * words
    now = np.int64(size)
    after = now + words
    for at in range(size):
        code = text[at]
        if code < ASCII:
            kind = np.int64(symbols[ascii_classes + code])
        else:
            kind = np.int64(count_to(symbols, starts, first, code)) - 1
        for w in range(words):
            text[after + w] = symbols[first + w] if at == 0 else 0
        if at > 0:
            for w in range(words):
                left = np.int64(text[now + w]) & _WORD
                while left != 0:
                    low = left & -left
                    left ^= low
                    row = follow + (w * BITS + _first_bit(low)) * words
                    for other in range(words):
                        text[after + other] |= symbols[row + other]
        matched = False
        dead = True
        for w in range(words):
            text[after + w] &= symbols[allowed + kind * words + w]
            dead &= text[after + w] == 0
            matched |= text[after + w] & symbols[found + w] != 0
        if matched or dead:
            return matched
        now, after = after, now
    for w in range(words):
        if text[now + w] & symbols[accepted + w] != 0:
            return True
    return False


@kernel
def check_programs(symbols: Array, offsets: Array) -> bool:
    """Whether following each program of an expression leads nowhere else."""
    for p in range(len(offsets) - 1):
        begin = offsets[p]
        end = offsets[p + 1]
        if begin == end:
            return False
        if symbols[begin] != REGEX:
            for at in range(begin, end):
                if symbols[at] < -2 or symbols[at] > 0x10FFFF:
                    return False
            continue
        if end - begin < CODES_AT or symbols[begin + 1] < 0:
            return False
        head = begin + CODES_AT + np.int64(symbols[begin + 1])
        if head + 4 > end:
            return False
        positions = np.int64(symbols[head])
        words = np.int64(symbols[head + 1])
        classes = np.int64(symbols[head + 2])
        if words < 1 or words > WORDS_MAX or classes < 1 or positions < 1 or positions > BITS * words:
            return False
        starts = head + 4 + ASCII
        first = starts + classes
        allowed = first + 3 * words
        if allowed + (classes + positions) * words != end or symbols[starts] != 0:
            return False
        for at in range(begin + CODES_AT, head):
            if symbols[at] < 0 or symbols[at] > 0x10FFFF:
                return False
        for at in range(head + 4, starts):
            if symbols[at] < 0 or symbols[at] >= classes:
                return False
        # No bit stands for a position that is not there.
        for at in range(allowed, allowed + classes * words):
            over = positions - BITS * ((at - allowed) % words)
            if over < BITS and (np.int64(symbols[at]) & _WORD) >> max(over, 0) != 0:
                return False
    return True
