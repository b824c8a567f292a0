"""Messages between brokers, read from bytes: those of every link, and those of a protocol."""

from collections.abc import Collection
from typing import Any, Final, Union

import msgspec

from penstock.errors import PenstockError, WireError
from penstock.wire.encoding import encode, read_filter
from penstock.wire.messages import Message


class Returned(Message, frozen=True, gc=False):
    """A frame of events could not be passed on to everybody: whoever they come from, send them again."""

    number: int


class TraceReport(Message, frozen=True, gc=False):
    """The way that a marked event took from here on, as JSON."""

    trace: str
    json: bytes


OF_LINKS: Final = (Returned, TraceReport)
"""What brokers say to each other under every protocol."""


class Codec:
    """Reads and writes the messages that the brokers of one protocol send each other."""

    def __init__(self, kinds: Collection[type[Message]]) -> None:
        # Made from a tuple, which only Union can be.
        self._kinds = frozenset((*OF_LINKS, *kinds))
        known: Any = Union[(*OF_LINKS, *kinds)]
        self._decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(known, dec_hook=read_filter)

    def write(self, message: Message) -> bytes:
        """A message as bytes. Raises PenstockError for one that the protocol has not named as its own."""
        if type(message) not in self._kinds:
            raise PenstockError(f"{message.kind} is not among the messages that its protocol names")
        return encode(message)

    def read(self, payload: memoryview | bytes) -> Message:
        """A message from its bytes. Raises WireError."""
        try:
            message: Message = self._decoder.decode(payload)
        except (msgspec.MsgspecError, PenstockError, UnicodeError, RecursionError) as error:
            raise WireError(f"a message that cannot be read: {error}") from None
        return message
