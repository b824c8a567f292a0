"""What the gateway needs from the broker's process, and its bounds.

The protocols are the part of the client's verbs that it uses; whoever has these can have a gateway.
"""

from collections.abc import AsyncIterator, Sequence
from os import PathLike
from typing import Any, Protocol

import msgspec

from penstock.broker.grants import Verb
from penstock.model.events import Event
from penstock.model.limits import REQUEST_LENGTH_MAX
from penstock.node.client.outlet import Ack


class Delivery(Protocol):
    """An event as a subscription delivers it; `origin` and `number` together name it."""

    @property
    def event(self) -> Event:
        """The event itself."""

    @property
    def origin(self) -> str:
        """Who published it."""

    @property
    def number(self) -> int:
        """The how-manieth of that publisher's it is."""


class Subscription(Protocol):
    """An interest that the broker has taken. Its iteration ends when the connection does."""

    def __aiter__(self) -> AsyncIterator[Delivery]:
        """The events that match, as they come."""

    async def change(self, text: str, /) -> object:
        """Put another filter in the place of the present one, without a gap."""

    async def unsubscribe(self) -> object:
        """Give the interest up."""


class Advertisement(Protocol):
    """What a connection has said that it may publish."""

    async def withdraw(self) -> object:
        """Take it back."""


class Connection(Protocol):
    """A client connection of the broker, with the rights of the token that it was made with.

    Filters are given as texts, which nobody but the broker parses: it does so apart from everything else, and
    counts what it costs to whoever sends it. Verbs raise FilterError for a text that is no filter,
    AccessError for what the token does not allow, LimitError for a quota that is used up, NetworkError for a
    connection that has ended.
    """

    @property
    def is_connected(self) -> bool:
        """Whether it can still be used."""

    async def publish_many(self, events: Sequence[Event], /, *, ack: Ack = "accepted") -> object:
        """Publish events; returns when the broker has acknowledged all of them."""

    async def subscribe(self, text: str, /) -> Subscription:
        """Subscribe to a filter; returns when the broker has taken the subscription."""

    async def advertise(self, text: str, /) -> Advertisement:
        """Advertise a filter; returns when the broker has taken the advertisement."""

    async def close(self) -> object:
        """End the connection and all that hangs on it."""


class Connector(Protocol):
    """The door to the broker, for one gateway."""

    @property
    def broker(self) -> str:
        """The broker's name."""

    async def connect(self, token: str | None, name: str, address: str = "") -> Connection:
        """Connect as whoever the token says; AccessError when it is bad, or missing where needed.

        `address` is where the request comes from: what somebody without a token costs is counted to it.
        """

    def may(self, token: str | None, verb: Verb) -> bool:
        """Whether the token grants anything of this kind; AccessError when it is bad, or missing."""

    def status(self) -> dict[str, Any]:
        """What the broker says of itself."""

    def is_ready(self) -> bool:
        """Whether the broker takes clients: it has started and is not draining."""

    def may_monitor(self, token: str | None) -> bool:
        """Whether the token allows to see the status; true for all where no token is required."""


class GatewayConfig(Protocol):
    """Where the gateway listens, and which web pages may use it."""

    @property
    def listen(self) -> str:
        """A URL: `http://127.0.0.1:7480`; port 0 is any free one; `https:` needs `cert` and `key`."""

    @property
    def origins(self) -> Sequence[str]:
        """The origins of web pages that may use it, as browsers write them; `*` is all of them."""

    @property
    def cert(self) -> str | PathLike[str] | None:
        """The path of a certificate chain in PEM."""

    @property
    def key(self) -> str | PathLike[str] | None:
        """The path of its private key."""


class GatewayLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of the gateway itself; those of the broker hold as well."""

    body_bytes: int = 4 * 2**20
    """Bytes of a request's body."""

    batch_events: int = 10_000
    """Events of one request."""

    message_bytes: int = 2**20
    """Bytes of one message over a WebSocket."""

    subscriptions_per_socket: int = 1_000
    """Subscriptions of one WebSocket, and as many advertisements."""

    streams: int = 1_000
    """Streams, requests that wait for events, and WebSockets: each holds a connection of the broker."""

    publishers: int = 1_000
    """Connections kept for publishing, one a token."""

    connections: int = 10_000
    """Sockets open at once. Beyond that there is room for looks at the gateway's health only."""

    connections_per_address: int = 1_000
    """Of these, from one address."""

    head_bytes: int = 2**16
    """Bytes of a request's line and headers."""

    headers: int = 200
    """Headers of one request: browsers send some thirty."""

    filter_length: int = REQUEST_LENGTH_MAX
    """Characters of a filter."""

    publisher_age_s: float = 60.0
    """How long a connection for publishing is kept: so long may a token be used after it has expired."""

    heartbeat_s: float = 15.0
    """The pause between two signs of life on an event stream."""

    head_s: float = 10.0
    """How long a connection may take to make a request, from its first byte to the last of its headers."""

    read_s: float = 30.0
    """How long a request's body may take to arrive."""

    act_s: float = 30.0
    """How long the broker may take to answer."""

    send_s: float = 30.0
    """How long a client may leave what it is sent unread before it is cut off."""

    grace_s: int = 5
    """How long requests under way may take when the gateway stops."""
