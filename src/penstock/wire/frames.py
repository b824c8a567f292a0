"""Frames: how messages are told apart in a stream of bytes.

A frame is the length of what follows (four bytes, big-endian), its kind (one byte) and its payload. Until
the other side is known, frames are kept so short that nothing can be made of them but a greeting.
"""

from enum import IntEnum
from typing import Final

from penstock.errors import WireError

HELLO_BYTES_MAX: Final = 16 * 1024
"""Bytes of a frame before the other side is known: a token of 8 KiB, two names and room."""

_PREFIX: Final = 4
_PREFIX_AND_KIND: Final = _PREFIX + 1


class Kind(IntEnum):
    """What a frame is."""

    HELLO = 1
    """Who is there, first of all: see `penstock.wire.greetings`."""
    WELCOME = 2
    REFUSED = 3
    """The connection is not wanted, with the reason; then it is closed."""
    MESSAGE = 4
    """A number, and a message of `penstock.wire.codec` or `penstock.wire.requests`."""
    EVENTS = 5
    """A number, and a block of events."""
    ACK = 6
    """The number up to which all frames are dealt with."""
    PING = 7
    PONG = 8


_KINDS: Final = {int(kind): kind for kind in Kind}


def frame(kind: Kind, *parts: bytes | memoryview) -> bytes:
    """A whole frame, its payload in parts."""
    length = 1 + sum(len(part) for part in parts)
    return b"".join([length.to_bytes(_PREFIX, "big"), bytes([kind]), *parts])


class FrameReader:
    """Cuts what arrives into frames. `limit` is the longest that is accepted now, in bytes."""

    def __init__(self, limit: int = HELLO_BYTES_MAX) -> None:
        self.limit = limit
        self._parts: list[bytes] = []
        self._have = 0
        self._need = _PREFIX

    def feed(self, data: bytes) -> "list[tuple[Kind, memoryview]]":
        """Take bytes; return the frames that are whole now, as views of them. Raises WireError."""
        self._have += len(data)
        if self._parts:
            self._parts.append(data)
            if self._have < self._need:
                return []
            data = b"".join(self._parts)
        frames = []
        view, at, end = memoryview(data), 0, len(data)
        need = _PREFIX
        while end - at >= _PREFIX:
            length = int.from_bytes(view[at : at + _PREFIX], "big")
            self._check(length)
            need = _PREFIX + length
            if end - at < need:
                break
            kind = _KINDS.get(view[at + _PREFIX])
            if kind is None:
                raise WireError(f"there are no frames of kind {view[at + _PREFIX]}")
            frames.append((kind, view[at + _PREFIX_AND_KIND : at + need]))
            at += need
            need = _PREFIX
        rest = data[at:]
        self._parts, self._have, self._need = [rest] if rest else [], len(rest), need
        return frames

    def _check(self, length: int) -> None:
        if length < 1:
            raise WireError("a frame has no kind")
        if length > self.limit:
            raise WireError(f"a frame of {length:,} bytes: at most {self.limit:,} are accepted here")
