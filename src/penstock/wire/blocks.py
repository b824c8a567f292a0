"""Blocks: many events of one tree in one buffer, as they travel.

The events stand end to end as they were encoded by their publisher (`penstock.wire.events`); brokers match
and pass them on as bytes. Each has the number that its publisher gave it, and on the way to a client the keys
of the subscriptions that it is for.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Final, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.errors import WireError
from penstock.model.limits import ID_LENGTH_MAX
from penstock.model.names import Key, Tree

_HEAD: Final = 4
_HEADER_BYTES_MAX: Final = 16 * 1024
HOPS_MAX: Final = 255
"""Brokers that an event may pass: more than are in a row anywhere, so that what goes in a circle ends."""

EVENTS_MAX: Final = 65_536
"""Events of one block."""


_PINNED_MAX: Final = 1_024
"""Bytes that a block which is kept may keep in memory besides its own."""


class Header(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What is said of all events of a block.

    `tree`: the way that they take; from a client the key of its advertisement. `origin`: who numbers them.
    `hops`: brokers passed. `rescued`: 0, or the mark that these events have because they are sent again
    after a failure, perhaps to some who have had them; each time another one, so that they do not go round in
    a circle. `trace`: the mark of an event whose way is to be reported. `replay`: they are sent again for
    those only who have missed them. `age`: of events that are sent again, seconds since they were published;
    time that they spend on the way is not in it, so that they are never taken for older than they are.
    """

    tree: Tree
    origin: str
    hops: int = 0
    rescued: int = 0
    trace: str = ""
    replay: bool = False
    age: float = 0.0


class _Sizes(msgspec.Struct, array_like=True, frozen=True, gc=False):
    events: int
    first: int
    keys: int | None


_HEADERS: Final = msgspec.msgpack.Decoder(tuple[Header, _Sizes])
_ENCODER: Final = msgspec.msgpack.Encoder()
_TWO: Final = struct.Struct("<II")
_FOUR: Final = struct.Struct("<IIII")


class Block:
    """Events with their numbers. `keys` are the subscriptions of each event, end to end, with offsets.

    Most blocks of a quiet network have one event. Such a block keeps its `number` and keys as they are
    (`one`), and makes arrays only for those who ask for them: making them costs more than all that is done
    with them. Whoever can do without looks at `number` first.
    """

    __slots__ = ("_key_offsets", "_keys", "_numbers", "_offsets", "data", "header", "key_list", "number")

    def __init__(
        self,
        header: Header,
        numbers: NDArray[np.int64],
        offsets: NDArray[np.int64],
        data: bytes | memoryview,
        keys: NDArray[np.int64] | None = None,
        key_offsets: NDArray[np.int64] | None = None,
    ) -> None:
        self.header = header
        self.data = data
        self.number: int | None = None
        """The number of the one event, of a block that was made as `one`."""
        self.key_list: Sequence[int] | None = None
        """The keys of the one event, of such a block."""
        self._numbers: NDArray[np.int64] | None = numbers
        self._offsets: NDArray[np.int64] | None = offsets
        self._keys = keys
        self._key_offsets = key_offsets

    @classmethod
    def one(
        cls, header: Header, number: int, data: bytes | memoryview, keys: Sequence[int] | None = None
    ) -> "Block":
        """A block of one encoded event, for these subscriptions."""
        made = cls.__new__(cls)
        made.header = header
        made.data = data
        made.number = number
        made.key_list = keys
        made._numbers = made._offsets = made._keys = made._key_offsets = None
        return made

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The number of each event."""
        if self._numbers is None:
            self._numbers = np.array([self.number], np.int64)
        return self._numbers

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Where in the data each event begins, and where the last ends."""
        if self._offsets is None:
            self._offsets = np.array([0, len(self.data)], np.int64)
        return self._offsets

    @property
    def keys(self) -> NDArray[np.int64] | None:
        """The subscriptions that events are for, end to end, on the way to a client."""
        if self._keys is None and self.key_list is not None:
            self._keys = np.array(self.key_list, np.int64)
        return self._keys

    @property
    def key_offsets(self) -> NDArray[np.int64] | None:
        """Where in these those of each event begin, and where the last end."""
        if self._key_offsets is None and self.key_list is not None:
            self._key_offsets = np.array([0, len(self.key_list)], np.int64)
        return self._key_offsets

    @classmethod
    def of(cls, header: Header, numbers: Sequence[int], events: Sequence[bytes]) -> "Block":
        """A block of encoded events."""
        if len(events) == 1:
            return cls.one(header, numbers[0], events[0])
        offsets = np.zeros(len(events) + 1, np.int64)
        np.cumsum([len(event) for event in events], out=offsets[1:])
        return cls(header, np.array(numbers, np.int64), offsets, b"".join(events))

    def __len__(self) -> int:
        return 1 if self._numbers is None else len(self._numbers)

    def events(self) -> list[bytes | memoryview]:
        """Each event, encoded."""
        data, offsets = self.data, self.offsets.tolist()
        return [data[at:end] for at, end in pairwise(offsets)]

    def with_header(self, header: Header) -> "Block":
        """The same events under another header."""
        if self.number is not None:
            return Block.one(header, self.number, self.data, self.key_list)
        return Block(header, self.numbers, self.offsets, self.data, self.keys, self.key_offsets)

    @property
    def name(self) -> tuple[str, int]:
        """What names its first event wherever it is: the origin and the number."""
        return self.header.origin, self.first

    @property
    def first(self) -> int:
        """The number of the first event."""
        return int(self.numbers[0]) if self.number is None else self.number

    def split(self, kept: NDArray[np.bool_]) -> "tuple[Block | None, Block | None]":
        """The events that are kept, and the others, with their keys."""
        if kept.all():
            return self, None
        if not kept.any():
            return None, self
        return self._only(kept), self._only(~kept)

    def _only(self, kept: NDArray[np.bool_]) -> "Block":
        part = self.take(np.flatnonzero(kept))
        if self.keys is None or self.key_offsets is None:
            return part
        lengths = np.diff(self.key_offsets)
        offsets = np.zeros(len(part) + 1, np.int64)
        np.cumsum(lengths[kept], out=offsets[1:])
        return part.with_keys(self.keys[np.repeat(kept, lengths)], offsets)

    def count(self, which: NDArray[np.bool_]) -> int:
        """How many events are chosen."""
        return int(np.count_nonzero(which))

    def parts_of(self, keys_max: int) -> "Iterator[Block]":
        """The same in parts with at most so many keys each; one event at least, however many it has."""
        if self.number is not None:
            yield self
            return
        offsets = self.key_offsets
        if offsets is None or self.keys is None or len(self.keys) <= keys_max:
            yield self
            return
        first = 0
        while first < len(self):
            last = int(np.searchsorted(offsets, offsets[first] + keys_max, side="right")) - 1
            last = max(first + 1, last)
            part = self.take(np.arange(first, last))
            keys = self.keys[offsets[first] : offsets[last]]
            yield part.with_keys(keys, offsets[first : last + 1] - offsets[first])
            first = last

    def take(self, which: NDArray[np.int64], header: Header | None = None) -> "Block":
        """Some of the events, without keys; all of them share the bytes of this block."""
        header = header or self.header
        if self.number is not None and len(which) == 1:
            return Block.one(header, self.number, self.data)
        if len(which) == len(self.numbers):
            return Block(header, self.numbers, self.offsets, self.data)
        starts, ends = self.offsets[:-1][which], self.offsets[1:][which]
        offsets = np.zeros(len(which) + 1, np.int64)
        np.cumsum(ends - starts, out=offsets[1:])
        view = memoryview(self.data)
        data = b"".join([view[at:end] for at, end in zip(starts.tolist(), ends.tolist(), strict=True)])
        return Block(header, self.numbers[which], offsets, data)

    def unpinned(self) -> "Block":
        """The same, with bytes of its own if it would keep many others in memory: all that came with it."""
        data = self.data
        if isinstance(data, bytes) or memoryview(data.obj).nbytes <= 2 * len(data) + _PINNED_MAX:
            return self
        own = bytes(data)
        if self.number is not None:
            return Block.one(self.header, self.number, own, self.key_list)
        return Block(self.header, self.numbers, self.offsets, own, self.keys, self.key_offsets)

    def with_all_keys(self, keys: Sequence[Key]) -> "Block":
        """The one event of this block, for these subscriptions."""
        if self.number is not None:
            return Block.one(self.header, self.number, self.data, cast(Sequence[int], keys))
        return self.with_keys(np.array(keys, np.int64), np.array([0, len(keys)], np.int64))

    def as_block(self) -> "Block":
        """Itself: see `penstock.wire.messages.Publish`."""
        return self

    def with_keys(self, keys: NDArray[np.int64], key_offsets: NDArray[np.int64]) -> "Block":
        """The same events, for these subscriptions."""
        return Block(self.header, self.numbers, self.offsets, self.data, keys, key_offsets)

    def without_keys(self, refused: Mapping[Key, NDArray[np.bool_]]) -> "Block | None":
        """The same without subscriptions that are refused events, by their keys; None if nothing is left."""
        if self.keys is None or self.key_offsets is None or not refused:
            return self
        kept: NDArray[np.bool_] = np.ones(len(self.keys), np.bool_)
        events = np.repeat(np.arange(len(self)), np.diff(self.key_offsets))
        for key, those in refused.items():
            kept &= (self.keys != key) | ~those[events]
        lengths = np.diff(np.append(0, np.cumsum(kept))[self.key_offsets])
        if not lengths.any():
            return None
        which = np.flatnonzero(lengths)
        offsets = np.append(0, np.cumsum(lengths[which]))
        return self.take(which).with_keys(self.keys[kept], offsets)

    # As a message

    work: ClassVar[str] = "publish"
    renews: ClassVar[bool] = False

    @property
    def kind(self) -> str:
        """What it counts as in traces and results: the same as one event."""
        return "Publish"

    @property
    def parts(self) -> "Sequence[Block]":
        """Itself."""
        return (self,)

    def size(self) -> int:
        """Its bytes on the wire, without the frame."""
        keys = None if self.keys is None else len(self.keys)
        return size_of(self.header, len(self), self.first, keys, len(self.data))

    def brief(self, _text: object) -> dict[str, Any]:
        """What a trace says of it, besides its kind."""
        header = self.header
        return {"tree": header.tree, "origin": header.origin, "numbers": self.numbers.tolist()}

    # Bytes

    def encode(self) -> bytes:
        """As it travels: header, sizes, and arrays of 32-bit numbers before the events."""
        if self.number is not None:
            return self._encode_one(self.number)
        first = int(self.numbers[0]) if len(self.numbers) else 0
        count = None if self.keys is None else len(self.keys)
        head = _ENCODER.encode((self.header, _Sizes(len(self.numbers), first, count)))
        parts: list[bytes | memoryview] = [
            len(head).to_bytes(_HEAD, "big"),
            head,
            (self.numbers - first).astype("<u4").tobytes(),
            np.diff(self.offsets).astype("<u4").tobytes(),
        ]
        if self.keys is not None and self.key_offsets is not None:
            parts += [np.diff(self.key_offsets).astype("<u4").tobytes(), self.keys.astype("<u4").tobytes()]
        return b"".join([*parts, self.data])

    def _encode_one(self, number: int) -> bytes:
        keys = self.key_list
        count = None if keys is None else len(keys)
        head = _ENCODER.encode((self.header, _Sizes(1, number, count)))
        size = len(self.data)
        if keys is None:
            rows = _TWO.pack(0, size)
        elif len(keys) == 1:
            rows = _FOUR.pack(0, size, 1, keys[0])
        else:
            rows = struct.pack(f"<{3 + len(keys)}I", 0, size, len(keys), *keys)
        return b"".join([len(head).to_bytes(_HEAD, "big"), head, rows, self.data])

    @classmethod
    def decode(cls, payload: memoryview) -> "Block":
        """Read a block; the events in it are not looked at. Raises WireError."""
        if len(payload) < _HEAD:
            raise WireError("a block has no header")
        length = int.from_bytes(payload[:_HEAD], "big")
        if length > min(_HEADER_BYTES_MAX, len(payload) - _HEAD):
            raise WireError("the header of a block is longer than it may be")
        try:
            header, sizes = _HEADERS.decode(payload[_HEAD : _HEAD + length])
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise WireError(f"the header of a block: {error}") from None
        _check(header, sizes)
        at = _HEAD + length
        count = sizes.events
        rows = 2 * count + (0 if sizes.keys is None else count + sizes.keys)
        if len(payload) < at + 4 * rows:
            raise WireError("a block ends before its numbers do")
        if count == 1:
            return cls._decode_one(header, sizes, payload, at)
        table = np.frombuffer(payload, "<u4", rows, at).astype(np.int64)
        data = payload[at + 4 * rows :]
        numbers = table[:count] + sizes.first
        if (np.diff(numbers) <= 0).any():
            raise WireError("the numbers of the events in a block do not rise")
        offsets = _offsets(table[count : 2 * count], len(data), "bytes")
        if sizes.keys is None:
            return cls(header, numbers, offsets, data)
        key_offsets = _offsets(table[2 * count : 3 * count], sizes.keys, "subscriptions")
        return cls(header, numbers, offsets, data, table[3 * count :], key_offsets)

    @classmethod
    def _decode_one(cls, header: Header, sizes: _Sizes, payload: memoryview, at: int) -> "Block":
        """The same where there is one event, and its numbers are there."""
        further, size = _TWO.unpack_from(payload, at)
        at += _TWO.size
        named, keys = 0, None
        if sizes.keys is not None:
            named, *keys = struct.unpack_from(f"<{1 + sizes.keys}I", payload, at)
            at += 4 * (1 + sizes.keys)
        data = payload[at:]
        _check_sum(size, len(data), "bytes")
        if sizes.keys is not None:
            _check_sum(named, sizes.keys, "subscriptions")
        return cls.one(header, sizes.first + further, data, keys)


def size_of(header: Header, events: int, first: int, keys: int | None, data: int) -> int:
    """The bytes of a block of so many events, keys of subscriptions, and bytes of events."""
    head = len(_ENCODER.encode((header, _Sizes(events, first, keys))))
    rows = 2 * events + (0 if keys is None else events + keys)
    return _HEAD + head + 4 * rows + data


def _check(header: Header, sizes: _Sizes) -> None:
    if not 0 < sizes.events <= EVENTS_MAX:
        raise WireError(f"a block has 1 to {EVENTS_MAX:,} events, not {sizes.events:,}")
    if not 0 < sizes.first < 2**62 or (sizes.keys is not None and not 0 <= sizes.keys < 2**32):
        raise WireError("a block has numbers that cannot be")
    if not 0 <= header.hops <= HOPS_MAX:
        raise WireError("events that came through more brokers than there can be")
    if max(len(header.tree), len(header.origin), len(header.trace)) > 2 * ID_LENGTH_MAX:
        raise WireError("a name in the header of a block is too long")


def _offsets(lengths: NDArray[np.int64], total: int, what: str) -> NDArray[np.int64]:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    _check_sum(int(offsets[-1]), total, what)
    return offsets


def _check_sum(found: int, total: int, what: str) -> None:
    if found != total:
        raise WireError(f"the events of a block add up to {found:,} {what}, not to {total:,}")
