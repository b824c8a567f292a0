"""Scan JSON lines into the arrays of a batch, straight from their bytes.

The scanner takes only what it is certain of. All else it leaves, marking the line, to the one
implementation that knows all rules and all errors: what is no JSON, or no object; an escape in a name, or a
name that is empty, unless in a value that nobody wants; a list as a wanted value; a wanted name, or the
beginning of one, that is there twice; integers of more than 64 bits,
and doubles of more than 60 digits or beyond 1e±150; wanted strings of more bytes than a string may have
characters; objects and lists that nest deep; and where a text is not UTF-8, the lines that are not ASCII.

Four things make it fast. The text ends in a line end and padding, and no scan passes a line end, so nothing
asks for the end of the text. Quotes are searched 32 bytes at a time. What stands between two values is
expected to be what stood there in the line before, and then one comparison is all that a name costs. And
strings stay where they are: a value says where in the text it is.

Here lines are read, member by member. `json_names` finds names, `json_values` reads values or passes over
them, and `json_blocks` has the instructions that both are made of.
"""

from typing import Final

from penstock.matching.kernels.jit import inlined, kernel, outlined
from penstock.matching.kernels.json_blocks import (
    BLOCK,
    CLOSE,
    COLON,
    COMMA,
    FAILED,
    LETTER_N,
    NEWLINE,
    OPEN,
    QUOTE,
    Bytes,
    Ints,
    Longs,
    beyond_ascii,
    colons_in,
    ends_of_text,
    how_many,
    line_ends,
    lowest_bit,
    pointer_to,
)
from penstock.matching.kernels.json_names import (
    NODE_ATTRIBUTE,
    NODE_INNER,
    NODE_WIDTH,
    ROOT,
    UNWANTED,
    Trie,
    find_node,
    is_same,
)
from penstock.matching.kernels.json_values import (
    Table,
    skip_blank,
    skip_spaces,
    skip_value,
    take_value,
)
from penstock.model.limits import ATTRIBUTES_MAX, NESTING_MAX

SLOW: Final = -1
"""The count of an event whose line the scanner left; its start is then where the line starts."""

_CLOSED: Final = -2
"""The node where an object ends."""

_GUESSES: Final = 512
_GUESS_WIDTH: Final = 4
_FROM, _SPAN, _CONTEXT, _NODE = range(_GUESS_WIDTH)
_AROUND: Final = _GUESSES * _GUESS_WIDTH
_SEEN: Final = _AROUND + NESTING_MAX

SCRATCH: Final = _SEEN
"""How long the scratch array is, full of -1, besides an item for each node. It has first the guesses: for
the first, second, … member of a line where what precedes its value was last found, how long that was, in
which context, and the node. Then come the nodes of the objects around a member, and then for each node the
last line that it was in."""


@outlined
def _read_member(
    text: Bytes, at: int, context: int, guess: int, scratch: Longs, trie: Trie
) -> tuple[int, int]:
    """Go from where a value ended, or an object starts, to the next value; return that, and its node.

    The node is _CLOSED where the object ends instead. `context` is the object's node and, in its lowest
    bit, whether it only starts here.
    """
    begin = at
    is_first = context & 1
    at = skip_spaces(text, at + is_first)
    if text[at] == CLOSE:
        return at + 1, _CLOSED
    if not is_first:
        if text[at] != COMMA:
            return FAILED, _CLOSED
        at = skip_spaces(text, at + 1)
    # An escape in a name could make it any name, so that is left; so is an empty name.
    if text[at] != QUOTE or text[at + 1] == QUOTE:
        return FAILED, _CLOSED
    name = at + 1
    at = name
    bits = ends_of_text(text, at)
    while bits == 0:
        at += BLOCK
        bits = ends_of_text(text, at)
    stop = at + lowest_bit(bits)
    at = skip_spaces(text, stop + 1)
    if text[stop] != QUOTE or text[at] != COLON:
        return FAILED, _CLOSED
    at = skip_spaces(text, at + 1)
    node = find_node(text, name, stop, context >> 1, trie)
    if guess < _AROUND:
        scratch[guess + _FROM] = begin
        scratch[guess + _SPAN] = at - begin
        scratch[guess + _CONTEXT] = context
        scratch[guess + _NODE] = node
    return at, node


@inlined
def _next_member(
    text: Bytes, at: int, context: int, guess: int, scratch: Longs, trie: Trie
) -> tuple[int, int]:
    """Like `_read_member`, but first look whether here stands what stood here in a line before."""
    if guess < _AROUND and scratch[guess + _CONTEXT] == context:
        span = scratch[guess + _SPAN]
        if is_same(text, at, text, scratch[guess + _FROM], span):
            return at + span, scratch[guess + _NODE]
    return _read_member(text, at, context, guess, scratch, trie)


@inlined
def _read_value(text: Bytes, at: int, attribute: int, value: int, table: Table) -> tuple[int, int]:
    """Write or skip a value that has no wanted ones inside; return its end, and the next free value."""
    if attribute < 0 or text[at] == OPEN or text[at] == LETTER_N:
        # An object has no value of its own, and what begins with this letter can only be null.
        return skip_value(text, at), value
    table[0][value] = attribute
    return take_value(text, at, value, table), value + 1


@outlined
def _read_line(text: Bytes, at: int, value: int, trie: Trie, scratch: Longs, table: Table) -> tuple[int, int]:
    """Write the wanted values of the object that starts here; return its end, and the next free value."""
    line = at
    nodes = trie[2]
    depth = 0
    guess = 0
    context = ROOT << 1 | 1
    if text[at] != OPEN:
        return FAILED, value
    while at >= 0:
        at, node = _next_member(text, at, context, guess, scratch, trie)
        if node == _CLOSED:
            if at < 0:
                return FAILED, value
            if depth == 0:
                return at, value
            depth -= 1
            context = scratch[_AROUND + depth] << 1
            continue
        guess += _GUESS_WIDTH
        context = context >> 1 << 1
        if node == UNWANTED:
            at = skip_value(text, at)
            continue
        if scratch[_SEEN + node] == line:
            return FAILED, value
        scratch[_SEEN + node] = line
        if text[at] == OPEN and nodes[node * NODE_WIDTH + NODE_INNER]:
            if depth == NESTING_MAX:
                return FAILED, value
            scratch[_AROUND + depth] = context >> 1
            depth += 1
            context = node << 1 | 1
            continue
        at, value = _read_value(text, at, nodes[node * NODE_WIDTH + NODE_ATTRIBUTE], value, table)
    return FAILED, value


@outlined
def _line_end(text: Bytes, at: int) -> int:
    bits = line_ends(text, at)
    while bits == 0:
        at += BLOCK
        bits = line_ends(text, at)
    at += lowest_bit(bits)
    return at


@outlined
def _is_ascii_line(text: Bytes, at: int) -> bool:
    while True:
        ends = line_ends(text, at)
        beyond = beyond_ascii(text, at)
        if ends != 0:
            return bool(beyond & (ends ^ (ends - 1)) == 0)
        if beyond != 0:
            return False
        at += BLOCK


@kernel
def read_lines(
    text_array: Bytes,
    begin: int,
    end: int,
    is_suspect: bool,
    slots: Ints,
    nodes: Longs,
    names: Bytes,
    scratch_array: Longs,
    start: Longs,
    count: Ints,
    attribute: Ints,
    state: Bytes,
    bits: Longs,
    length: Ints,
) -> tuple[int, int]:
    """Read the lines of a text from `begin` to `end`; return how many events and how many values there are.

    A line that is only white is no event. With `is_suspect`, lines that are not ASCII are left as SLOW.
    `start` and what follows are the arrays of a batch, large enough.
    """
    text, scratch = pointer_to(text_array), pointer_to(scratch_array)
    trie = (pointer_to(slots), slots.size - 1, pointer_to(nodes), pointer_to(names))
    table = (pointer_to(attribute), pointer_to(state), pointer_to(bits), pointer_to(length))
    events = 0
    values = 0
    at = begin
    while at < end:
        at = skip_blank(text, at)
        if text[at] == NEWLINE:
            at += 1
            continue
        line = at
        stop, value = FAILED, values
        if not is_suspect or _is_ascii_line(text, at):
            stop, value = _read_line(text, at, values, trie, scratch, table)
        if stop >= 0:
            stop = skip_blank(text, stop)
        if stop < 0 or text[stop] != NEWLINE or value - values > ATTRIBUTES_MAX:
            start[events] = line
            count[events] = SLOW
            stop = _line_end(text, line)
        else:
            start[events] = values
            count[events] = value - values
            values = value
        events += 1
        at = stop + 1
    return events, values


@kernel
def measure(text_array: Bytes, end: int) -> tuple[int, int, bool]:
    """How many lines and colons a text has at most, and whether it is ASCII."""
    text = pointer_to(text_array)
    lines = 1
    colons = 0
    beyond = 0
    for at in range(0, end, BLOCK):
        lines += how_many(line_ends(text, at))
        colons += how_many(colons_in(text, at))
        beyond |= beyond_ascii(text, at)
    return lines, colons, beyond == 0
