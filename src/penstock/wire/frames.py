"""Frames: how messages are told apart in a stream of bytes.

A frame is the length of what follows (four bytes, big-endian), its kind (one byte) and its payload. Until
the other side is known, frames are kept so short that nothing can be made of them but a greeting.
"""

from enum import IntEnum
from typing import Final

from penstock.errors import WireError

HELLO_BYTES_MAX: Final = 16 * 1024
"""Bytes of a frame before the other side is known: a token of 8 KiB, two names and room."""

_PART_BYTES_MIN: Final = 2**16
"""Parts of a frame that are shorter are joined as they come: each costs some fifty bytes by itself."""

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

    @property
    def held(self) -> int:
        """Bytes of a frame that is not whole."""
        return self._have

    def feed(self, data: bytes = b"") -> "list[tuple[Kind, memoryview]]":
        """Take bytes; return the frames that are whole now, as views of them. Raises WireError.

        What cannot be accepted is an error only when nothing before it is left to be returned. So what a
        frame does counts for the next one, such as a welcome after which frames may be longer; whoever
        was given frames and has dealt with them asks again, without more data, until there are none.
        """
        self._have += len(data)
        if self._parts:
            if data:
                self._add(data)
            if self._have < self._need:
                return []
            data = b"".join(self._parts)
        frames: list[tuple[Kind, memoryview]] = []
        view, at, end = memoryview(data), 0, len(data)
        need = _PREFIX
        while end - at >= _PREFIX:
            length = int.from_bytes(view[at : at + _PREFIX], "big")
            is_whole = end - at >= _PREFIX + length
            kind = _KINDS.get(view[at + _PREFIX]) if is_whole and length else None
            if not 0 < length <= self.limit or (is_whole and kind is None):
                if frames:
                    break
                raise self._error(view, at, length)
            if kind is None:
                need = _PREFIX + length
                break
            frames.append((kind, view[at + _PREFIX_AND_KIND : at + _PREFIX + length]))
            at += _PREFIX + length
        rest = data[at:]
        self._parts, self._have, self._need = [rest] if rest else [], len(rest), need
        return frames

    def _add(self, data: bytes) -> None:
        """Keep a part. Short ones are joined with shorter ones before them: each byte is copied few times."""
        parts = self._parts
        while parts and len(parts[-1]) <= len(data) < _PART_BYTES_MIN:
            data = parts.pop() + data
        parts.append(data)

    def _error(self, view: memoryview, at: int, length: int) -> WireError:
        """What is wrong with the frame there."""
        if length < 1:
            return WireError("a frame has no kind")
        if length > self.limit:
            return WireError(f"a frame of {length:,} bytes: at most {self.limit:,} are accepted here")
        return WireError(f"there are no frames of kind {view[at + _PREFIX]}")
