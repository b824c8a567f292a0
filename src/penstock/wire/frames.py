"""Frames: how messages are told apart in a stream of bytes.

A frame is the length of its payload (four bytes, big-endian), its kind (one byte), a checksum of these
(three), a checksum of the payload (four), and the payload. The first checksum is looked at before anything is
waited for, so that a wrong length does not have a connection wait for bytes that never come. Until the other
side is known, frames are kept so short that nothing can be made of them but a greeting.
"""

from binascii import crc32
from enum import IntEnum
from struct import Struct
from typing import Final

from penstock.errors import WireError

HELLO_BYTES_MAX: Final = 16 * 1024
"""Bytes of a frame before the other side is known: a token of 8 KiB, two names and room."""

_PART_BYTES_MIN: Final = 2**16
"""Parts of a frame that are shorter are joined as they come: each costs some fifty bytes by itself."""

_LENGTH: Final = 4
_HEAD: Final = _LENGTH + 1
"""Bytes of a frame that say how long it is, and what."""
_CHECK: Final = 3
_PREFIX: Final = _HEAD + _CHECK + 4
_CHECK_MASK: Final = 2 ** (8 * _CHECK) - 1
_PREFIX_FORM: Final = Struct(">IBBHI")
"""Length, kind, the first checksum in two parts, and the second."""


class DamagedError(WireError):
    """Bytes that are not as they were sent. The session is still good: another connection goes on with it."""


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
    REACHED = 9
    """Numbers of frames that are not dealt with, each with the stage that it has reached."""


_KINDS: Final = {int(kind): kind for kind in Kind}


def frame(kind: Kind, *parts: bytes | memoryview) -> bytes:
    """A whole frame, its payload in parts."""
    length = check = 0
    for part in parts:
        length += len(part)
        check = crc32(part, check)
    head = (length << 8 | kind).to_bytes(_HEAD, "big")
    return b"".join([head, _check_of(head), check.to_bytes(4, "big"), *parts])


def _check_of(head: bytes | memoryview) -> bytes:
    return (crc32(head) & _CHECK_MASK).to_bytes(_CHECK, "big")


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
            prefix: tuple[int, int, int, int, int] = _PREFIX_FORM.unpack_from(data, at)
            length, body = prefix[0], at + _PREFIX
            payload = view[body : body + length]
            error = self._error(view[at : at + _HEAD], prefix, payload)
            if error is not None:
                if frames:
                    break
                raise error
            if len(payload) < length:
                need = _PREFIX + length
                break
            frames.append((_KINDS[prefix[1]], payload))
            at = body + length
        rest = data[at:] if at < end else b""
        self._parts, self._have, self._need = [rest] if rest else [], len(rest), need
        return frames

    def _add(self, data: bytes) -> None:
        """Keep a part. Short ones are joined with shorter ones before them: each byte is copied few times."""
        parts = self._parts
        while parts and len(parts[-1]) <= len(data) < _PART_BYTES_MIN:
            data = parts.pop() + data
        parts.append(data)

    def _error(
        self, head: memoryview, prefix: tuple[int, int, int, int, int], payload: memoryview
    ) -> WireError | None:
        """What is wrong with a frame of which the prefix is here, and perhaps not all of the payload."""
        length, kind, check_high, check_low, check = prefix
        if crc32(head) & _CHECK_MASK != check_high << 16 | check_low:
            return DamagedError("what came is no frame, or was damaged on its way")
        if kind not in _KINDS:
            return WireError(f"there are no frames of kind {kind}")
        if length > self.limit:
            return WireError(f"a frame of {length:,} bytes: at most {self.limit:,} are accepted here")
        if len(payload) == length and crc32(payload) != check:
            return DamagedError("a frame was damaged on its way")
        return None
