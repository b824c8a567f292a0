"""What a client is told about its connection."""

import msgspec


class Notice(msgspec.Struct, frozen=True):
    """Something that happened. `count` is the number of events that it is about, where that is known.

    disconnected  the connection is lost; it is being made again
    reconnected   it is there again; nothing is lost if nothing else is said
    missed        events may have been missed; without a count, nobody knows how many
    slow          events are not taken as fast as they come
    paused        they were not, for too long: what comes now is missed
    resumed       what waited has been taken; events come again
    dropped       the broker has ended the connection because events were not taken
    closing       the broker is about to end
    rejected      published events were not accepted
    disagreement  a subscription may match nothing: its attributes do not go with events or advertisements
    lost          published events could not be passed on to everybody, and are given up
    """

    kind: str
    text: str
    count: int = 0
