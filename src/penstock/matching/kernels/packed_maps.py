"""Read events from their bytes, end to end in one text, into the arrays of a batch.

What is read here came from outside and is forwarded as it is: so each event is checked throughout, also what
no filter names. The first that is bad ends the reading; what is wrong with it is for
`penstock.model.packed.decode_event` to say, which accepts the same bytes.

As in JSON lines, a name is expected to be the one that stood in its place in the event before. One comparison
is then all that it costs: it was checked, and looked for, when it was first seen.
"""

from typing import Final

from penstock.matching.kernels.jit import ZERO, inlined, kernel, outlined
from penstock.matching.kernels.json_blocks import FAILED, Bytes, Ints, Longs, high_word_at, pointer_to
from penstock.matching.kernels.json_names import (
    NODE_ATTRIBUTE,
    NODE_WIDTH,
    ROOT,
    UNWANTED,
    Trie,
    find_node,
    is_same,
)
from penstock.matching.kernels.json_values import Table
from penstock.matching.kernels.packed_values import PACKED_DECIMAL, find_text, is_text, read_value
from penstock.model.limits import ATTRIBUTES_MAX, NAME_LENGTH_MAX

ATTRIBUTE_BYTES_MIN: Final = 3
"""How short an attribute can be: a name of one letter and its length, and a value of one byte."""

_MAP, _MAP_LAST, _MAP_16, _MAP_32 = 0x80, 0x8F, 0xDE, 0xDF

_GUESSES: Final = 512
_GUESS_WIDTH: Final = 3
_FROM, _SPAN, _ATTRIBUTE = range(_GUESS_WIDTH)
_PLACES: Final = _GUESSES * _GUESS_WIDTH

DECIMALS: Final = _PLACES
SCRATCH: Final = _PLACES + 1
"""How long the scratch array is, full of -1, besides an item for each name. It has first the guesses: for the
first, second, … attribute of an event where its name was last found, how long that was, and its number. Then
comes whether there was a decimal, and for each name where in the table its value was last written."""


@outlined
def _read_name(text: Bytes, at: int, stop: int, guess: int, scratch: Longs, trie: Trie) -> tuple[int, int]:
    """The end of the name that starts here, or FAILED, and the number of its attribute, or UNWANTED."""
    begin, end = find_text(text, at)
    if begin < 0 or end == begin or end > stop or not is_text(text, begin, end, NAME_LENGTH_MAX):
        return FAILED, UNWANTED
    attribute = UNWANTED
    node = find_node(text, begin, end, ROOT, trie)
    if node >= 0:
        attribute = trie[2][node * NODE_WIDTH + NODE_ATTRIBUTE]
    if guess < _PLACES:
        scratch[guess + _FROM] = at
        scratch[guess + _SPAN] = end - at
        scratch[guess + _ATTRIBUTE] = attribute
    return end, attribute


@inlined
def _next_name(text: Bytes, at: int, stop: int, guess: int, scratch: Longs, trie: Trie) -> tuple[int, int]:
    """Like `_read_name`, but first look whether here stands what stood here in an event before."""
    if guess < _PLACES:
        span = scratch[guess + _SPAN]
        if span > 0 and at + span <= stop and is_same(text, at, text, scratch[guess + _FROM], span):
            return at + span, scratch[guess + _ATTRIBUTE]
    return _read_name(text, at, stop, guess, scratch, trie)


@inlined
def _find_attributes(text: Bytes, at: int) -> tuple[int, int]:
    """Where the attributes of an event start, and how many there are said to be; FAILED if it is no map."""
    head = text[at]
    if _MAP <= head <= _MAP_LAST:
        return at + 1, head - _MAP
    word = high_word_at(text, at + 1)
    if head == _MAP_16:
        return at + 3, word >> 48 & 0xFFFF
    if head == _MAP_32:
        return at + 5, word >> 32 & 0xFFFF_FFFF
    return at, FAILED


@outlined
def _read_event(
    text: Bytes, at: int, stop: int, values: int, trie: Trie, scratch: Longs, table: Table
) -> int:
    """Write the wanted values of the event that is here; return the next free value, or FAILED."""
    attributes, states, bits, lengths = table
    first = values
    at, count = _find_attributes(text, at)
    if count < 0 or count > ATTRIBUTES_MAX:
        return FAILED
    for number in range(count):
        at, attribute = _next_name(text, at, stop, number * _GUESS_WIDTH, scratch, trie)
        if at < 0:
            return FAILED
        at = read_value(text, at, stop, values, table)
        if at < 0:
            return FAILED
        if states[values] == PACKED_DECIMAL:
            scratch[DECIMALS] = 1
        if attribute >= 0:
            place = scratch[SCRATCH + attribute]
            if place >= first:
                # The name was there before: the last counts.
                states[place] = states[values]
                bits[place] = bits[values]
                lengths[place] = lengths[values]
            else:
                scratch[SCRATCH + attribute] = values
                attributes[values] = attribute
                values += 1
    return values if at == stop else FAILED


@kernel
def read_events(
    text_array: Bytes,
    end: int,
    offsets: Longs,
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
    """Read the events of a text that ends at `end`; return how many are good, and how many values they have.

    `start` and what follows are the arrays of a batch, large enough for one value more than there can be.
    Offsets that fall, or lead out of the text, are like a bad event.
    """
    text, scratch = pointer_to(text_array), pointer_to(scratch_array)
    trie = (pointer_to(slots), slots.size - 1, pointer_to(nodes), pointer_to(names))
    table = (pointer_to(attribute), pointer_to(state), pointer_to(bits), pointer_to(length))
    values = ZERO
    for event in range(start.size):
        at, stop = offsets[event], offsets[event + 1]
        if at < 0 or stop < at or stop > end:
            return event, values
        free = _read_event(text, at, stop, values, trie, scratch, table)
        if free < 0:
            return event, values
        start[event] = values
        count[event] = free - values
        values = free
    return start.size, values
