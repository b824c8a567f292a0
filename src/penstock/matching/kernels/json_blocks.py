"""What scanning text is made of: 32 bytes looked at together, by instructions that Numba has no words for.

Texts end in PADDING, so that a block may be read wherever a text has not ended.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Longs = NDArray[np.int64]
Ints = NDArray[np.int32]

PADDING: Final = b"\n" * 64
"""What must follow every text given to a kernel here: a line end, and room to read past it."""

BLOCK: Final = 32
FAILED: Final = -1
"""How many bytes are looked at together; and what stands for a place where there is none."""

TAB, NEWLINE, FORM_FEED, RETURN, SPACE = 9, 10, 12, 13, 32
QUOTE, COMMA, MINUS, PLUS, DOT, SLASH, ZERO, COLON = 34, 44, 45, 43, 46, 47, 48, 58
OPEN_LIST, BACKSLASH, CLOSE_LIST, OPEN, CLOSE = 91, 92, 93, 123, 125
LETTER_B, LETTER_E, LETTER_F, LETTER_N, LETTER_R, LETTER_T, LETTER_U = 98, 101, 102, 110, 114, 116, 117


def _instructions(function: Callable[..., Any]) -> Any:
    """A function of a kernel given by what it is compiled to."""
    return intrinsic(function)


def _block(builder: Any, pointer: Any, at: Any) -> Any:
    """Load 32 bytes."""
    vector = ir.VectorType(ir.IntType(8), BLOCK)
    return builder.load(builder.bitcast(builder.gep(pointer, [at]), vector.as_pointer()), align=1)


def _bits(builder: Any, flags: Any) -> Any:
    """A vector of flags as an integer, the first flag lowest."""
    return builder.zext(builder.bitcast(flags, ir.IntType(BLOCK)), ir.IntType(64))


def _repeated(byte: int) -> Any:
    return ir.Constant(ir.VectorType(ir.IntType(8), BLOCK), [byte] * BLOCK)


@_instructions
def pointer_to(_typing: Any, array: Any) -> Any:
    """Where the items of an array are.

    What is called in the inner loop gets this instead of the array, because Numba counts the references to
    an array at each call, which costs more than the scan. The caller keeps the array alive.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.make_array(signature.args[0])(context, builder, args[0]).data

    return types.CPointer(array.dtype)(array), generate  # type: ignore[no-untyped-call]


@_instructions
def ends_of_text(_typing: Any, text: Any, at: Any) -> Any:
    """For 32 bytes, a bit each: a quote, a backslash or a control character."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        block = _block(builder, *args)
        quotes = builder.icmp_unsigned("==", block, _repeated(QUOTE))
        escapes = builder.icmp_unsigned("==", block, _repeated(BACKSLASH))
        controls = builder.icmp_unsigned("<", block, _repeated(SPACE))
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


line_ends = _finder(NEWLINE)
dots_in = _finder(DOT)
colons_in = _finder(COLON)


@_instructions
def beyond_ascii(_typing: Any, text: Any, at: Any) -> Any:
    """For 32 bytes, a bit each: not ASCII."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return _bits(builder, builder.icmp_signed("<", _block(builder, *args), _repeated(0)))

    return types.int64(text, types.int64), generate


@_instructions
def differences(_typing: Any, one: Any, at: Any, other: Any, there: Any) -> Any:
    """For 32 bytes of two texts, a bit each: they differ."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        mine, theirs = _block(builder, *args[:2]), _block(builder, *args[2:])
        return _bits(builder, builder.icmp_unsigned("!=", mine, theirs))

    return types.int64(one, types.int64, other, types.int64), generate


@_instructions
def word_at(_typing: Any, text: Any, at: Any) -> Any:
    """Eight bytes, the first lowest."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        pointer = builder.bitcast(builder.gep(args[0], [args[1]]), ir.IntType(64).as_pointer())
        return builder.load(pointer, align=1)

    return types.int64(text, types.int64), generate


@_instructions
def high_word_at(_typing: Any, text: Any, at: Any) -> Any:
    """Eight bytes, the first highest."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        pointer = builder.bitcast(builder.gep(args[0], [args[1]]), ir.IntType(64).as_pointer())
        return builder.bswap(builder.load(pointer, align=1))

    return types.int64(text, types.int64), generate


@_instructions
def widened(_typing: Any, single: Any) -> Any:
    """The bits of the double that is a single, of which the bits are given."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        value = builder.bitcast(builder.trunc(args[0], ir.IntType(32)), ir.FloatType())
        return builder.bitcast(builder.fpext(value, ir.DoubleType()), ir.IntType(64))

    return types.int64(types.int64), generate


@_instructions
def bits_of(_typing: Any, double: Any) -> Any:
    """The bits of a double."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), generate


@_instructions
def lowest_bit(_typing: Any, bits: Any) -> Any:
    """The number of the lowest bit that is set; there is one."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


@_instructions
def how_many(_typing: Any, bits: Any) -> Any:
    """The number of bits that are set."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.int64), generate
