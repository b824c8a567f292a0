"""What neighbours send, in slices: a large state is taken while everything else goes on.

A neighbour that comes back may have a hundred thousand subscriptions to tell, which take seconds to
understand, to compare and to pass on. It tells them in messages of bounded length. Of these, a slice is
handled at a time; then whoever else has something to do has a turn. What a link sends behind a message that
waits waits too, events included, so that its order is kept. Acknowledgements and pings do not wait.

A frame that waits is not acknowledged. If its link fails, its sender still has it.
"""

from typing import Final, Protocol

from penstock.errors import EventError, LimitError, WireError
from penstock.node.links import Link, Waited
from penstock.node.logs import LOG
from penstock.node.world import Timer, World
from penstock.wire.frames import Kind

SLICE_BYTES: Final = 16 * 2**10
"""Bytes of messages that are handled before anything else has its turn: about 150 subscriptions."""


class Broker(Protocol):
    """Who handles what has come."""

    def take_message(self, link: Link, number: int, content: memoryview, now: float) -> None:
        """A neighbour says something."""

    def take_events(self, link: Link, number: int, content: memoryview, now: float) -> None:
        """Events have come."""

    def give_up(self, link: Link, now: float) -> None:
        """A link does not work."""

    def flush(self) -> None:
        """Write what waits."""


class Intake:
    """Frames of neighbours, from when they come until they are handled."""

    def __init__(self, broker: Broker, world: World) -> None:
        self.slice_bytes = SLICE_BYTES
        self.pause = 0.0
        """Seconds between slices. More than none only where somebody wants to see what happens meanwhile."""
        self._broker = broker
        self._world = world
        self._order: dict[Link, None] = {}
        """Links with frames that wait, whose turn is next first."""
        self._turn = 0.0
        self._left = SLICE_BYTES
        self._timer: Timer | None = None

    def take(self, link: Link, kind: Kind, number: int, content: memoryview, now: float) -> None:
        """A numbered frame has come. Raises what handling it does, if that is at once."""
        if now != self._turn and not self._order:
            self._turn, self._left = now, self.slice_bytes
        if not link.inbox and (kind is Kind.EVENTS or self._left > 0):
            self._handle(link, Waited(kind, number, content), now)
            return
        # The buffer that it came in is used again.
        link.inbox.append(Waited(kind, number, memoryview(bytes(content))))
        self._order.setdefault(link)
        self._go_on_later()

    def forget(self, link: Link) -> None:
        """A link is over: whoever sent what waits sends it again, another way."""
        link.inbox.clear()
        self._order.pop(link, None)

    def stop(self) -> None:
        """Nothing more is to happen by itself."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _go_on_later(self) -> None:
        if self._timer is None:
            self._timer = self._world.call_later(self.pause, self._go_on)

    def _go_on(self) -> None:
        """Handle a slice: links take turns, a frame each."""
        self._timer = None
        now = self._world.time()
        self._left = self.slice_bytes
        while self._order and self._left > 0:
            link = next(iter(self._order))
            del self._order[link]
            waited = link.inbox.popleft()
            if link.inbox:
                self._order[link] = None
            self._handle_safely(link, waited, now)
        if self._order:
            self._go_on_later()
        self._broker.flush()

    def _handle_safely(self, link: Link, waited: Waited, now: float) -> None:
        """Handle a frame that waited; what is wrong with it ends its link, and nothing else."""
        try:
            self._handle(link, waited, now)
        except (WireError, EventError, LimitError) as error:
            self._fail(link, str(error), now)
        except Exception:
            # A mistake of ours must not keep others from being handled, nor be repeated.
            LOG.exception("what %s sent led to an error", link.peer)
            self._fail(link, "internal error", now)

    def _handle(self, link: Link, waited: Waited, now: float) -> None:
        kind, number, content = waited
        if kind is Kind.EVENTS:
            self._broker.take_events(link, number, content, now)
        else:
            self._left -= len(content)
            self._broker.take_message(link, number, content, now)

    def _fail(self, link: Link, reason: str, now: float) -> None:
        LOG.warning("%s is cut off: %s", link.peer, reason)
        if link.connection is not None:
            link.connection.close("protocol", reason)
        self._broker.give_up(link, now)
