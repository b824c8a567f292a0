"""What a client is told about its connection."""

from typing import Literal, TypeAlias

import msgspec

NoticeKind: TypeAlias = Literal[
    "disconnected", "reconnected", "missed", "slow", "paused", "resumed", "dropped", "closing", "rejected"
]


class Notice(msgspec.Struct, frozen=True):
    """Something that happened. `count` is the number of events that it is about, where that is known.

    disconnected  the connection is lost; it is being made again
    reconnected   it is there again; nothing is lost if nothing else is said
    missed        it is there again, but events may have been missed, or may come late
    slow          events are not taken as fast as they come
    paused        they were not, for too long: what comes now is missed
    resumed       what waited has been taken; events come again
    dropped       the broker has ended the connection because events were not taken
    closing       the broker is about to end
    rejected      published events were not accepted
    """

    kind: str
    text: str
    count: int = 0
