"""When a message was sent, by the clock of the broker that sent it.

Brokers tell each other how long ago something was. A message that waited, in a queue, in a connection that
stalled or in a process that stood still, would say too little. Clocks of two machines have nothing in common
but their pace. So a broker compares how long messages seem to take: what one takes longer than the quickest
lately, it has waited.
"""

import math
import struct
from typing import Final

from penstock.errors import WireError

_STAMP: Final = struct.Struct("<d")

_LATELY_S: Final = 120.0
"""Seconds, at least, for which the quickest message counts: clocks drift apart by milliseconds meanwhile."""


def stamped(data: bytes, at: float) -> bytes:
    """A message with the time at which it is sent."""
    return _STAMP.pack(at) + data


def unstamped(content: memoryview) -> tuple[float, memoryview]:
    """When a message was sent, and the message. Raises WireError."""
    if len(content) < _STAMP.size:
        raise WireError("a message does not say when it was sent")
    (at,) = _STAMP.unpack_from(content)
    if not math.isfinite(at):
        raise WireError("a message was sent at no time that there is")
    return at, content[_STAMP.size :]


class Transit:
    """How long messages of one neighbour have waited."""

    def __init__(self) -> None:
        self._earlier = self._lately = float("inf")
        """What the quickest seemed to take: before, and since a time."""
        self._since = float("-inf")

    def waited(self, at: float, now: float) -> float:
        """For how many seconds a message has waited that was sent at a time of its sender's clock."""
        if now - self._since > _LATELY_S:
            self._earlier, self._lately, self._since = self._lately, float("inf"), now
        took = now - at
        self._lately = min(self._lately, took)
        return max(0.0, took - min(self._earlier, self._lately))
