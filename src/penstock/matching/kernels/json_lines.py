"""Scan JSON lines into the arrays of a batch, straight from their bytes.

The scanner takes only what it is certain of. All else it leaves, marking the line, to the one
implementation that knows all rules and all errors: what is no JSON, or no object, or empty; an escape in a
name, or a name that is empty, unless in a value that nobody wants; a null, a list or an empty object as a
wanted value; a wanted name, or the beginning of one, that is there twice; integers of more than 64 bits,
and doubles of more than 60 digits or beyond 1e±150; wanted strings of more bytes than a string may have
characters; objects and lists that nest deep; and where a text is not UTF-8, the lines that are not ASCII.

Four things make it fast. The text ends in a line end and padding, and no scan passes a line end, so nothing
asks for the end of the text. Quotes are searched 32 bytes at a time. What stands between two values is
expected to be what stood there in the line before, and then one comparison is all that a name costs. And
strings stay where they are: a value says where in the text it is.

Names are looked up in a trie over the parts between dots, whose edges are in one hash table; `index_names`
builds it. So `{"a": {"b": 1}}` and `{"a.b": 1}` come to the same node.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from penstock.matching.batch import DOUBLE, FALSE, INTEGER, STRING, TRUE
from penstock.matching.kernels.jit import inlined, kernel, outlined
from penstock.model.limits import ATTRIBUTES_MAX, NESTING_MAX, STRING_LENGTH_MAX

Bytes = NDArray[np.uint8]
Longs = NDArray[np.int64]
Ints = NDArray[np.int32]

Trie = tuple[Ints, int, Longs, Bytes]
"""The slots of the hash table, their number less one, the nodes, the bytes of the names."""

Table = tuple[Ints, Bytes, Longs, Ints]
"""Of the values of a batch: attributes, states, bits, lengths."""

PADDING: Final = b"\n" * 64
"""What must follow every text given to a kernel here: a line end, and room to read past it."""

SLOW: Final = -1
"""The count of an event whose line the scanner left; its start is then where the line starts."""

ESCAPED: Final = 16
"""Passing state of a string that has escapes; `unescape` turns it into STRING."""

LONG_DOUBLE: Final = 17
"""Passing state of a double that is left to be rounded; its text is given as if it were a string."""

NODE_WIDTH: Final = 6
"""The numbers of a node of the trie: where its part of a name starts, that part's length, its hash, the
parent, the attribute that it is (or -1), and whether it has children."""

_PART, _LENGTH, _HASH, _PARENT, _ATTRIBUTE, _INNER = range(NODE_WIDTH)
_ROOT: Final = 0
_UNWANTED: Final = -1
_CLOSED: Final = -2
_FAILED: Final = -1

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

_BLOCK: Final = 32
_SKIPPED_DEPTH_MAX: Final = 60
_DIGITS_MAX: Final = 60
_POWER_MAX: Final = 150

_TAB, _NEWLINE, _FORM_FEED, _RETURN, _SPACE = 9, 10, 12, 13, 32
_QUOTE, _COMMA, _MINUS, _PLUS, _DOT, _SLASH, _ZERO, _COLON = 34, 44, 45, 43, 46, 47, 48, 58
_OPEN_LIST, _BACKSLASH, _CLOSE_LIST, _OPEN, _CLOSE = 91, 92, 93, 123, 125
_B, _E, _F, _N, _R, _T, _U = 98, 101, 102, 110, 114, 116, 117
_TRUE_WORD: Final = int.from_bytes(b"true", "little")
_ALSE_WORD: Final = int.from_bytes(b"alse", "little")
_NULL_WORD: Final = int.from_bytes(b"null", "little")
_FOUR_BYTES: Final = 2**32 - 1

_POWERS: Final = np.array([float(f"1e{power}") for power in range(23)])
"""The powers of ten that are doubles exactly: one product or quotient with them is rounded correctly."""

_MANTISSA_MAX: Final = 2**53

_HASH_FACTOR: Final = -7046029254386353131


def _instructions(function: Callable[..., Any]) -> Any:
    """A function of a kernel given by what it is compiled to."""
    return intrinsic(function)


def _block(builder: Any, pointer: Any, at: Any) -> Any:
    """Load 32 bytes."""
    vector = ir.VectorType(ir.IntType(8), _BLOCK)
    return builder.load(builder.bitcast(builder.gep(pointer, [at]), vector.as_pointer()), align=1)


def _bits(builder: Any, flags: Any) -> Any:
    """A vector of flags as an integer, the first flag lowest."""
    return builder.zext(builder.bitcast(flags, ir.IntType(_BLOCK)), ir.IntType(64))


def _repeated(byte: int) -> Any:
    return ir.Constant(ir.VectorType(ir.IntType(8), _BLOCK), [byte] * _BLOCK)


@_instructions
def _pointer(_typing: Any, array: Any) -> Any:
    """Where the items of an array are.

    What is called in the inner loop gets this instead of the array, because Numba counts the references to
    an array at each call, which costs more than the scan. The caller keeps the array alive.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.make_array(signature.args[0])(context, builder, args[0]).data

    return types.CPointer(array.dtype)(array), generate  # type: ignore[no-untyped-call]


@_instructions
def _ends_of_text(_typing: Any, text: Any, at: Any) -> Any:
    """For 32 bytes, a bit each: a quote, a backslash or a control character."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        block = _block(builder, *args)
        quotes = builder.icmp_unsigned("==", block, _repeated(_QUOTE))
        escapes = builder.icmp_unsigned("==", block, _repeated(_BACKSLASH))
        controls = builder.icmp_unsigned("<", block, _repeated(_SPACE))
        return _bits(builder, builder.or_(builder.or_(quotes, escapes), controls))

    return types.int64(text, types.int64), generate


def _finder(byte: int) -> Any:
    @_instructions
    def find(_typing: Any, text: Any, at: Any) -> Any:
        """For 32 bytes, a bit each: the byte sought."""

        def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            return _bits(builder, builder.icmp_unsigned("==", _block(builder, *args), _repeated(byte)))

        return types.int64(text, types.int64), generate

    return find


_line_ends = _finder(_NEWLINE)
_dots = _finder(_DOT)
_colons = _finder(_COLON)


@_instructions
def _beyond_ascii(_typing: Any, text: Any, at: Any) -> Any:
    """For 32 bytes, a bit each: not ASCII."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return _bits(builder, builder.icmp_signed("<", _block(builder, *args), _repeated(0)))

    return types.int64(text, types.int64), generate


@_instructions
def _differences(_typing: Any, one: Any, at: Any, other: Any, there: Any) -> Any:
    """For 32 bytes of two texts, a bit each: they differ."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        mine, theirs = _block(builder, *args[:2]), _block(builder, *args[2:])
        return _bits(builder, builder.icmp_unsigned("!=", mine, theirs))

    return types.int64(one, types.int64, other, types.int64), generate


@_instructions
def _word(_typing: Any, text: Any, at: Any) -> Any:
    """Eight bytes, the first lowest."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        pointer = builder.bitcast(builder.gep(args[0], [args[1]]), ir.IntType(64).as_pointer())
        return builder.load(pointer, align=1)

    return types.int64(text, types.int64), generate


@_instructions
def _bits_of(_typing: Any, double: Any) -> Any:
    """The bits of a double."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), generate


@_instructions
def _lowest(_typing: Any, bits: Any) -> Any:
    """The number of the lowest bit that is set; there is one."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


@_instructions
def _how_many(_typing: Any, bits: Any) -> Any:
    """The number of bits that are set."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.int64), generate


# ---------------------------------------------------------------------------------------------- names


@outlined
def _hash(text: Bytes, at: int, stop: int, parent: int) -> int:
    value = (parent + 1) * _HASH_FACTOR
    while at + 8 <= stop:
        value = (value ^ _word(text, at)) * _HASH_FACTOR
        value ^= value >> 31
        at += 8
    if at < stop:
        value = (value ^ (_word(text, at) & ((1 << 8 * (stop - at)) - 1))) * _HASH_FACTOR
        value ^= value >> 31
    return value


@inlined
def _is_same(one: Bytes, at: int, other: Bytes, there: int, length: int) -> bool:
    while length > _BLOCK:
        if _differences(one, at, other, there) != 0:
            return False
        at += _BLOCK
        there += _BLOCK
        length -= _BLOCK
    return bool(_differences(one, at, other, there) & ((1 << length) - 1) == 0)


@outlined
def _slot(text: Bytes, at: int, stop: int, parent: int, value: int, trie: Trie) -> int:
    """Where in the table the child of a node is, or would be."""
    slots, slot_mask, nodes, names = trie
    slot = value & slot_mask
    while slots[slot] >= 0:
        node = slots[slot] * NODE_WIDTH
        if (
            nodes[node + _HASH] == value
            and nodes[node + _PARENT] == parent
            and nodes[node + _LENGTH] == stop - at
            and _is_same(text, at, names, nodes[node + _PART], stop - at)
        ):
            break
        slot = (slot + 1) & slot_mask
    return slot


@outlined
def _part_end(text: Bytes, at: int, stop: int) -> int:
    """Where the part of a name that starts here ends: at a dot, or where the name does."""
    while at < stop:
        bits = _dots(text, at)
        if bits != 0:
            at += _lowest(bits)
            break
        at += _BLOCK
    return min(at, stop)


@kernel
def index_names(names: Bytes, name_stop: Longs, slots: Ints, nodes: Longs) -> int:
    """Build the trie of names that are laid end to end; return how many nodes it has.

    `slots` is full of -1, a power of two long, and at least twice as long as there are parts of names.
    """
    text = _pointer(names)
    trie = (_pointer(slots), slots.size - 1, _pointer(nodes), text)
    nodes[_PARENT] = _UNWANTED
    nodes[_ATTRIBUTE] = _UNWANTED
    size = 1
    at = 0
    for attribute in range(name_stop.size):
        stop = name_stop[attribute]
        node = _ROOT
        end = at - 1
        while end < stop:
            at = end + 1
            end = _part_end(text, at, stop)
            value = _hash(text, at, end, node)
            slot = _slot(text, at, end, node, value, trie)
            if slots[slot] < 0:
                slots[slot] = size
                nodes[size * NODE_WIDTH + _PART] = at
                nodes[size * NODE_WIDTH + _LENGTH] = end - at
                nodes[size * NODE_WIDTH + _HASH] = value
                nodes[size * NODE_WIDTH + _PARENT] = node
                nodes[size * NODE_WIDTH + _ATTRIBUTE] = _UNWANTED
                size += 1
            nodes[node * NODE_WIDTH + _INNER] = 1
            node = slots[slot]
        nodes[node * NODE_WIDTH + _ATTRIBUTE] = attribute
        at = stop
    return size


@outlined
def _find(text: Bytes, at: int, stop: int, parent: int, trie: Trie) -> int:
    """The node of a name, seen from that of the object which it stands in, or _UNWANTED."""
    slots = trie[0]
    node: int = parent
    while True:
        end = _part_end(text, at, stop)
        value = _hash(text, at, end, node)
        node = slots[_slot(text, at, end, node, value, trie)]
        if node < 0 or end == stop:
            return node
        at = end + 1


# --------------------------------------------------------------------------- values that nobody wants


@outlined
def _skip_spaces(text: Bytes, at: int) -> int:
    while text[at] == _SPACE or text[at] == _TAB or text[at] == _RETURN:
        at += 1
    return at


@outlined
def _skip_blank(text: Bytes, at: int) -> int:
    """Past all that is white in a line, which is more than JSON calls so."""
    while text[at] == _SPACE or (_TAB <= text[at] <= _RETURN and text[at] != _NEWLINE):
        at += 1
    return at


@outlined
def _hexadecimal(text: Bytes, at: int) -> int:
    """The value of four digits, or _FAILED."""
    value = 0
    for place in range(at, at + 4):
        if _is_digit(text[place]):
            value = value << 4 | text[place] - 48
        elif 65 <= text[place] & 0xDF <= 70:
            value = value << 4 | (text[place] & 0xDF) - 55
        else:
            return _FAILED
    return value


@outlined
def _skip_unicode(text: Bytes, at: int) -> int:
    """Past an escape by number, or a pair of them that is one character."""
    value = _hexadecimal(text, at + 2)
    if value < 0 or 0xDC00 <= value <= 0xDFFF:
        return _FAILED
    if not 0xD800 <= value <= 0xDBFF:
        return at + 6
    if text[at + 6] != _BACKSLASH or text[at + 7] != _U:
        return _FAILED
    return at + 12 if 0xDC00 <= _hexadecimal(text, at + 8) <= 0xDFFF else _FAILED


@outlined
def _skip_escape(text: Bytes, at: int) -> int:
    kind = text[at + 1]
    if kind == _U:
        return _skip_unicode(text, at)
    if kind in (_QUOTE, _BACKSLASH, _SLASH, _N):
        return at + 2
    if kind in (_T, _R, _B, _F):
        return at + 2
    return _FAILED


@outlined
def _skip_string(text: Bytes, at: int) -> int:
    """Past the closing quote of the string that starts before `at`."""
    while True:
        bits = _ends_of_text(text, at)
        if bits == 0:
            at += _BLOCK
            continue
        at += _lowest(bits)
        if text[at] == _QUOTE:
            return at + 1
        if text[at] != _BACKSLASH:
            return _FAILED
        at = _skip_escape(text, at)
        if at < 0:
            return _FAILED


@outlined
def _is_digit(byte: int) -> bool:
    return 48 <= byte <= 57


@outlined
def _exponent(text: Bytes, at: int) -> tuple[int, int]:
    """Read what follows an e; return the end and the value, which is kept small."""
    is_negative = text[at] == _MINUS
    if is_negative or text[at] == _PLUS:
        at += 1
    if not _is_digit(text[at]):
        return _FAILED, 0
    value = 0
    while _is_digit(text[at]):
        if value < 10_000:
            value = value * 10 + text[at] - _ZERO
        at += 1
    return at, -value if is_negative else value


@outlined
def _number(text: Bytes, at: int) -> tuple[int, int, int, int, bool]:
    """Read a number; return the end, its digits as an integer (mod 2**64), how many they are, the power
    of ten that they are to be multiplied with, and whether the number is an integer."""
    if text[at] == _MINUS:
        at += 1
    first = at
    mantissa = 0
    while _is_digit(text[at]):
        mantissa = mantissa * 10 + text[at] - _ZERO
        at += 1
    digits = at - first
    if digits == 0 or (text[first] == _ZERO and digits > 1):
        return _FAILED, 0, 0, 0, False
    power = 0
    is_integer = True
    if text[at] == _DOT:
        is_integer = False
        at += 1
        first = at
        while _is_digit(text[at]):
            mantissa = mantissa * 10 + text[at] - _ZERO
            at += 1
        power = first - at
        digits -= power
        if power == 0:
            return _FAILED, 0, 0, 0, False
    if text[at] | 32 == _E:
        is_integer = False
        at, explicit = _exponent(text, at + 1)
        power += explicit
    return at, mantissa, digits, power, is_integer


@outlined
def _skip_number(text: Bytes, at: int) -> int:
    at, _mantissa, digits, power, is_integer = _number(text, at)
    if is_integer:
        return at if digits <= 19 else _FAILED
    return at if digits <= _DIGITS_MAX and -_POWER_MAX <= power <= _POWER_MAX else _FAILED


@outlined
def _skip_scalar(text: Bytes, at: int) -> int:
    byte = text[at]
    if byte == _QUOTE:
        return _skip_string(text, at + 1)
    if byte == _MINUS or _is_digit(byte):
        return _skip_number(text, at)
    word = _word(text, at) & _FOUR_BYTES
    if word in (_TRUE_WORD, _NULL_WORD):
        return at + 4
    if byte == _F and _word(text, at + 1) & _FOUR_BYTES == _ALSE_WORD:
        return at + 5
    return _FAILED


@outlined
def _skip_key(text: Bytes, at: int) -> int:
    """From the quote of a key to the value."""
    if text[at] != _QUOTE:
        return _FAILED
    at = _skip_string(text, at + 1)
    if at < 0:
        return _FAILED
    at = _skip_spaces(text, at)
    return _skip_spaces(text, at + 1) if text[at] == _COLON else _FAILED


@outlined
def _skip_to_next(text: Bytes, at: int, kinds: int) -> tuple[int, int]:
    """From the end of a value, past the ends of what it closes, to the next value, or out of all.

    `kinds` has a bit for each object or list around the value, the innermost lowest, 1 for an object, and
    above them a 1; when none is left the end is reached.
    """
    while kinds > 1:
        at = _skip_spaces(text, at)
        is_object = kinds & 1
        if text[at] == _COMMA:
            at = _skip_spaces(text, at + 1)
            return (_skip_key(text, at) if is_object else at), kinds
        if text[at] != (_CLOSE if is_object else _CLOSE_LIST):
            return _FAILED, kinds
        at += 1
        kinds >>= 1
    return at, kinds


@outlined
def _skip_value(text: Bytes, at: int) -> int:
    """Past a value of any kind."""
    kinds = 1
    while True:
        byte = text[at]
        if byte in (_OPEN, _OPEN_LIST):
            if kinds >> _SKIPPED_DEPTH_MAX:
                return _FAILED
            kinds = kinds << 1 | (1 if byte == _OPEN else 0)
            at = _skip_spaces(text, at + 1)
            # Both closing brackets come two after the opening ones.
            if text[at] != byte + 2:
                if byte == _OPEN:
                    at = _skip_key(text, at)
                    if at < 0:
                        return _FAILED
                continue
        else:
            at = _skip_scalar(text, at)
        if at >= 0:
            at, kinds = _skip_to_next(text, at, kinds)
        if at < 0 or kinds == 1:
            return at


# -------------------------------------------------------------------------------- values that are wanted


@inlined
def _take_string(text: Bytes, at: int, value: int, table: Table) -> int:
    _attribute, state, bits, length = table
    ends = _ends_of_text(text, at)
    stop = at
    while ends == 0:
        stop += _BLOCK
        ends = _ends_of_text(text, stop)
    stop += _lowest(ends)
    state[value] = STRING
    if text[stop] != _QUOTE:
        stop = _skip_string(text, stop) - 1
        if stop < 0:
            return _FAILED
        state[value] = ESCAPED
    bits[value] = at
    length[value] = stop - at
    # Characters are what is limited, and they are no more than the bytes.
    return stop + 1 if stop - at <= STRING_LENGTH_MAX else _FAILED


@outlined
def _take_number(text: Bytes, at: int, value: int, table: Table) -> int:
    _attribute, state, bits, length = table
    stop, mantissa, digits, power, is_integer = _number(text, at)
    if stop < 0:
        return _FAILED
    is_negative = text[at] == _MINUS
    length[value] = 0
    if is_integer:
        state[value] = INTEGER
        bits[value] = -mantissa if is_negative else mantissa
        # Nineteen digits are less than 2**64, so those beyond 2**63 show as negative.
        return stop if digits <= 19 and mantissa >= 0 else _FAILED
    if digits <= 18 and mantissa <= _MANTISSA_MAX and -22 <= power <= 22:
        double = float(mantissa)
        double = double * _POWERS[power] if power >= 0 else double / _POWERS[-power]
        state[value] = DOUBLE
        bits[value] = _bits_of(-double if is_negative else double)
        return stop
    state[value] = LONG_DOUBLE
    bits[value] = at
    length[value] = stop - at
    return stop if digits <= _DIGITS_MAX and -_POWER_MAX <= power <= _POWER_MAX else _FAILED


@outlined
def _take(text: Bytes, at: int, value: int, table: Table) -> int:
    """Write the value that starts here; return its end, or _FAILED for what has no family."""
    _attribute, state, bits, length = table
    byte = text[at]
    if byte == _QUOTE:
        return _take_string(text, at + 1, value, table)
    if byte == _MINUS or _is_digit(byte):
        return _take_number(text, at, value, table)
    bits[value] = 0
    length[value] = 0
    if _word(text, at) & _FOUR_BYTES == _TRUE_WORD:
        state[value] = TRUE
        return at + 4
    if byte == _F and _word(text, at + 1) & _FOUR_BYTES == _ALSE_WORD:
        state[value] = FALSE
        return at + 5
    return _FAILED


# ------------------------------------------------------------------------------------------------ lines


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
    at = _skip_spaces(text, at + is_first)
    if text[at] == _CLOSE:
        return at + 1, _CLOSED
    if not is_first:
        if text[at] != _COMMA:
            return _FAILED, _CLOSED
        at = _skip_spaces(text, at + 1)
    # An escape in a name could make it any name, so that is left; so is an empty name.
    if text[at] != _QUOTE or text[at + 1] == _QUOTE:
        return _FAILED, _CLOSED
    name = at + 1
    at = name
    bits = _ends_of_text(text, at)
    while bits == 0:
        at += _BLOCK
        bits = _ends_of_text(text, at)
    stop = at + _lowest(bits)
    at = _skip_spaces(text, stop + 1)
    if text[stop] != _QUOTE or text[at] != _COLON:
        return _FAILED, _CLOSED
    at = _skip_spaces(text, at + 1)
    node = _find(text, name, stop, context >> 1, trie)
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
        if _is_same(text, at, text, scratch[guess + _FROM], span):
            return at + span, scratch[guess + _NODE]
    return _read_member(text, at, context, guess, scratch, trie)


@outlined
def _is_nothing(context: int, depth: int, nodes: Longs) -> bool:
    """Whether an object that ends here is empty where that is to be refused, or skipped."""
    return bool(context & 1 and (depth == 0 or nodes[(context >> 1) * NODE_WIDTH + _ATTRIBUTE] >= 0))


@inlined
def _read_value(text: Bytes, at: int, attribute: int, value: int, table: Table) -> tuple[int, int]:
    """Write or skip a value that has no wanted ones inside; return its end, and the next free value."""
    if attribute < 0:
        return _skip_value(text, at), value
    if text[at] == _OPEN:
        is_empty = text[_skip_spaces(text, at + 1)] == _CLOSE
        return (_FAILED if is_empty else _skip_value(text, at)), value
    table[0][value] = attribute
    return _take(text, at, value, table), value + 1


@outlined
def _read_line(text: Bytes, at: int, value: int, trie: Trie, scratch: Longs, table: Table) -> tuple[int, int]:
    """Write the wanted values of the object that starts here; return its end, and the next free value."""
    line = at
    nodes = trie[2]
    depth = 0
    guess = 0
    context = _ROOT << 1 | 1
    if text[at] != _OPEN:
        return _FAILED, value
    while at >= 0:
        at, node = _next_member(text, at, context, guess, scratch, trie)
        if node == _CLOSED:
            if at < 0 or _is_nothing(context, depth, nodes):
                return _FAILED, value
            if depth == 0:
                return at, value
            depth -= 1
            context = scratch[_AROUND + depth] << 1
            continue
        guess += _GUESS_WIDTH
        context = context >> 1 << 1
        if node == _UNWANTED:
            at = _skip_value(text, at)
            continue
        if scratch[_SEEN + node] == line:
            return _FAILED, value
        scratch[_SEEN + node] = line
        if text[at] == _OPEN and nodes[node * NODE_WIDTH + _INNER]:
            if depth == NESTING_MAX:
                return _FAILED, value
            scratch[_AROUND + depth] = context >> 1
            depth += 1
            context = node << 1 | 1
            continue
        at, value = _read_value(text, at, nodes[node * NODE_WIDTH + _ATTRIBUTE], value, table)
    return _FAILED, value


@outlined
def _line_end(text: Bytes, at: int) -> int:
    bits = _line_ends(text, at)
    while bits == 0:
        at += _BLOCK
        bits = _line_ends(text, at)
    at += _lowest(bits)
    return at


@outlined
def _is_ascii_line(text: Bytes, at: int) -> bool:
    while True:
        ends = _line_ends(text, at)
        beyond = _beyond_ascii(text, at)
        if ends != 0:
            return bool(beyond & (ends ^ (ends - 1)) == 0)
        if beyond != 0:
            return False
        at += _BLOCK


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
    text, scratch = _pointer(text_array), _pointer(scratch_array)
    trie = (_pointer(slots), slots.size - 1, _pointer(nodes), _pointer(names))
    table = (_pointer(attribute), _pointer(state), _pointer(bits), _pointer(length))
    events = 0
    values = 0
    at = begin
    while at < end:
        at = _skip_blank(text, at)
        if text[at] == _NEWLINE:
            at += 1
            continue
        line = at
        stop, value = _FAILED, values
        if not is_suspect or _is_ascii_line(text, at):
            stop, value = _read_line(text, at, values, trie, scratch, table)
        if stop >= 0:
            stop = _skip_blank(text, stop)
        if stop < 0 or text[stop] != _NEWLINE or value - values > ATTRIBUTES_MAX:
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
    text = _pointer(text_array)
    lines = 1
    colons = 0
    beyond = 0
    for at in range(0, end, _BLOCK):
        lines += _how_many(_line_ends(text, at))
        colons += _how_many(_colons(text, at))
        beyond |= _beyond_ascii(text, at)
    return lines, colons, beyond == 0


@outlined
def _write_character(text: Bytes, to: int, code: int) -> int:
    """Write a character as UTF-8; return where the next one goes."""
    if code < 0x80:
        text[to] = code
        return to + 1
    if code < 0x800:
        text[to] = 0xC0 | code >> 6
        text[to + 1] = 0x80 | code & 63
        return to + 2
    if code < 0x10000:
        text[to] = 0xE0 | code >> 12
        text[to + 1] = 0x80 | code >> 6 & 63
        text[to + 2] = 0x80 | code & 63
        return to + 3
    text[to] = 0xF0 | code >> 18
    text[to + 1] = 0x80 | code >> 12 & 63
    text[to + 2] = 0x80 | code >> 6 & 63
    text[to + 3] = 0x80 | code & 63
    return to + 4


@outlined
def _meaning(kind: int) -> int:
    """The character that a letter after a backslash stands for."""
    if kind == _N:
        return _NEWLINE
    if kind == _T:
        return _TAB
    if kind == _R:
        return _RETURN
    if kind == _B:
        return 8
    if kind == _F:
        return _FORM_FEED
    return kind


@kernel
def unescape(text: Bytes, values: int, state: Bytes, bits: Longs, length: Ints) -> None:
    """Turn what `read_lines` found as ESCAPED into STRING, in its place: it only gets shorter."""
    for value in range(values):
        if state[value] != ESCAPED:
            continue
        at = bits[value]
        stop = at + length[value]
        to = at
        while at < stop:
            if text[at] != _BACKSLASH:
                text[to] = text[at]
                to += 1
                at += 1
            elif text[at + 1] != _U:
                to = _write_character(text, to, _meaning(text[at + 1]))
                at += 2
            else:
                code = _hexadecimal(text, at + 2)
                at += 6
                if 0xD800 <= code <= 0xDBFF:
                    code = 0x10000 + ((code - 0xD800) << 10) + _hexadecimal(text, at + 2) - 0xDC00
                    at += 6
                to = _write_character(text, to, code)
        state[value] = STRING
        length[value] = to - bits[value]
