"""How much others may take of a node, and for how long it waits for them. Each has its reason."""

from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from penstock.broker.publishers import ANSWERED_KEEPS

_MIB: Final = 2**20
_LENGTH_MAX: Final = 2**32 - 1
"""Bytes that the length before a frame can say."""

Bytes: TypeAlias = Annotated[int, Meta(ge=2**16, le=_LENGTH_MAX)]
"""Room for bytes. Below 64 KiB a filter of ordinary length would not fit."""
Count: TypeAlias = Annotated[int, Meta(ge=1, le=1_000_000_000)]
Rate: TypeAlias = Annotated[int, Meta(ge=0, le=2**53)]
Seconds: TypeAlias = Annotated[float, Meta(gt=0, le=86_400)]


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Refuses keys that it does not know."""


class Limits(Settings, frozen=True, kw_only=True):
    """What others may take of a broker, so that none of them takes all of it."""

    clients: Count = 10_000
    """Connections. Below what a process may open where the system allows many; far above a demo."""
    connections_per_address: Count = 1_000
    """Connections from one address: a large office behind one, and a tenth of all."""
    unfinished_bytes: Bytes = 512 * _MIB
    """Of frames that are not whole, over all connections: a large one of a broker and dozens of clients'."""
    frame_bytes: Bytes = 16 * _MIB
    """One frame of a client: the longest filter or string fits, and hundreds at once fit memory."""
    peer_frame_bytes: Bytes = 256 * _MIB
    """One frame of a broker, which is trusted more and carries the events of many clients at once."""
    window_bytes: Bytes = 8 * _MIB
    """Sent and not acknowledged: a gigabit a second, where an answer takes 60 ms."""
    queue_bytes: Bytes = 64 * _MIB
    """Waiting for one connection: several seconds of a fast one; more only makes what comes late later."""
    keep_bytes: Bytes = 64 * _MIB
    """Published lately, and kept for those who could not be reached, with 1 KiB for each block: a minute of
    7,000 events a second in blocks of some dozens."""
    subscriptions_per_client: Count = 100_000
    """Enough for a gateway that subscribes for many; ten such clients fit the matcher easily."""
    advertisements_per_client: Count = 1_000
    """Each is a tree through the whole network, so much dearer than a subscription."""
    attributes_per_client: Count = 10_000
    """Named in subscriptions. Each new name makes every event of everybody a little slower to read."""
    bytes_per_second: Rate = 0
    """From one client; 0 is no limit. None, as what is much depends on the machines."""
    events_per_second: Rate = 0
    """From one client; 0 is no limit. None, see above."""


PINGS_MISSED: Final = 3
"""Pings without any answer after which the other side is taken for dead."""


class Times(Settings, frozen=True, kw_only=True):
    """For how long a broker waits for others, in seconds."""

    lease: Seconds = 30.0
    """What a neighbour has said stays so long unless it is heard of: longer than most outages of a line."""
    greet: Seconds = 5.0
    """Who connects says so soon who it is. Over the slowest lines that takes a second."""
    frame: Seconds = 10.0
    """A frame that has begun is whole so soon, or has come at 128 KiB a second since."""
    join: Seconds = 1.5
    """A broker that has just started holds events so long: its neighbours try to reach it every second."""
    resume: Seconds = 2.0
    """A link that broke may be taken up again so long as if nothing had been: most are back at once, and
    ways around the others should not wait."""
    linger: Seconds = 30.0
    """The same for a client, whose subscriptions stay: as long as a laptop changes its network."""
    grace: Seconds = 2.0
    """After `resume`, other ways are looked for, and what was for those behind the link is kept so long until
    they are found: more than the advertisements take to go through the network."""
    keep: Seconds = 60.0
    """What was published is kept so long for those who cannot be reached, and for up to three times `keep`
    while there is room (`Limits.keep_bytes`): who is back by then misses nothing. Longer than a machine takes
    to start again."""
    settle: Seconds = 0.5
    """Events wait so long after their advertisement, or after a failure that returned them to where they were
    published, before they are sent: by then all who want them have said so."""
    patience: Seconds = 10.0
    """A reader whose queue is full is waited for so long, before the rest no longer waits for it."""
    ping: Seconds = 5.0
    """After so much silence a connection is tried: a few times in a lease."""
    drain: Seconds = 10.0
    """When a broker ends, what it has taken goes out first, for so long: supervisors wait 10 or more."""

    @property
    def kept(self) -> float:
        """How long events are kept: who is back within `keep` asks from when it last heard anything."""
        return self.keep + PINGS_MISSED * self.ping + self.resume

    @property
    def kept_at_most(self) -> float:
        """How long events are kept while there is room for them: as long as they can be asked for."""
        return max(self.kept, ANSWERED_KEEPS * self.keep)
