"""Keeps a connection to another broker, making it again when it is lost."""

from typing import Final, Protocol

from penstock.node.connection import FrameConnection, Owner
from penstock.node.logs import LOG
from penstock.node.opening import Opening, RefusedError, Way
from penstock.node.world import Timer, World
from penstock.wire.greetings import Hello, Welcome

_WAIT_FIRST: Final = 0.05
_WAIT_MAX: Final = 1.0
"""Seconds between two tries, the first and the longest."""

_WAIT_LINKED: Final = 0.25
"""Seconds between two looks at a connection that the other broker has made."""

_WARN_AFTER: Final = 5.0
"""Seconds that a peer may be missing before that is told: brokers of a network start one by one."""


class Home(Owner, Protocol):
    """What owns the connections of a broker: see `penstock.node.hub`."""

    def hello(self, session_id: str, received: int) -> Hello:
        """How this broker greets another."""

    def session_with(self, peer: str | None) -> tuple[str, int]:
        """The session to go on with, and the last frame that came in it; or a new one."""

    def waits_for(self, peer: str | None) -> bool:
        """Whether there is a connection to a neighbour, or one that the neighbour has to make again."""

    def welcomed(self, connection: FrameConnection, hello: Hello, welcome: Welcome) -> object:
        """Another broker has taken our connection. Raises RefusedError or WireError."""


class Dialer:
    """One peer that was named by its address. `name` is the peer's own, once it has answered."""

    def __init__(self, hub: Home, address: object, way: Way, world: World, timeout: float) -> None:
        self.address = address
        """As people write it: only its text is used."""
        self.name: str | None = None
        self.error = "not tried yet"
        """Why there is no connection."""
        self._hub = hub
        self._way = way
        self._world = world
        self._timeout = timeout
        self._wait = _WAIT_FIRST
        self._failing_since: float | None = None
        self._warned = ""
        self._is_stopped = False
        self._opening: Opening | None = None
        self._next: Timer | None = None

    def start(self) -> None:
        """Connect, and again when it is lost, until `stop`."""
        self._is_stopped = False
        self._try()

    def stop(self) -> None:
        """Try no more. A connection that was made stays the hub's."""
        self._is_stopped = True
        if self._next is not None:
            self._next.cancel()
        opening, self._opening = self._opening, None
        if opening is not None:
            opening.cancel()

    def _try(self) -> None:
        self._next = None
        if self._hub.waits_for(self.name):
            # The other broker has made a connection itself.
            self._wait = _WAIT_LINKED
            self._try_later()
            self._wait = _WAIT_FIRST
            return
        hello = self._hub.hello(*self._hub.session_with(self.name))

        def on_welcome(connection: FrameConnection, welcome: Welcome) -> Owner:
            self.name = welcome.broker
            self._hub.welcomed(connection, hello, welcome)
            return self._hub

        self._opening = Opening(
            self._world,
            self._way,
            hello,
            self._timeout,
            on_welcome=on_welcome,
            on_open=self._opened,
            on_failed=self._failed,
        )
        self._opening.start()

    def _try_later(self) -> None:
        if self._is_stopped:
            return
        # Not all at the same moment after an outage.
        seconds = self._wait * (1 + self._world.share()) / 2
        self._wait = min(_WAIT_MAX, self._wait * 2)
        self._next = self._world.call_later(seconds, self._try)

    def _opened(self, connection: FrameConnection) -> None:
        self._opening = None
        self.error, self._wait = "", _WAIT_FIRST
        self._failing_since, self._warned = None, ""
        LOG.info("linked to %s at %s", self.name, self.address)
        connection.when_closed.append(self._lost)

    def _lost(self) -> None:
        self.error = "the connection was lost"
        self._try_later()

    def _failed(self, error: Exception) -> None:
        self._opening = None
        self._note(error)
        self._try_later()

    def _note(self, error: Exception) -> None:
        """Note why there is no link; tell it when it has been so for a while, or for another reason."""
        self.error = said = str(error).removeprefix(f"{self.address}: ")
        now = self._world.time()
        if self._failing_since is None:
            self._failing_since = now
        if isinstance(error, RefusedError) and error.code == "linked":
            return
        is_final = isinstance(error, RefusedError) and error.code == "version"
        if said != self._warned and (is_final or now - self._failing_since > _WARN_AFTER):
            self._warned = said
            LOG.warning("no link to %s: %s", self.address, said)
