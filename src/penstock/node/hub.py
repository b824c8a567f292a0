"""Connections of a broker: who they are, which link each belongs to, and when what waits is written."""

import logging
from collections import Counter
from functools import partial
from typing import Final

import msgspec

from penstock.errors import AccessError, EventError, LimitError, WireError
from penstock.node.admission import Admission
from penstock.node.connection import FrameConnection
from penstock.node.identity import Identity
from penstock.node.links import Link, LinkPhase
from penstock.node.logs import LOG
from penstock.node.opening import RefusedError
from penstock.node.runtime import Runtime
from penstock.node.settings import PINGS_MISSED
from penstock.node.world import World
from penstock.wire.frames import Kind
from penstock.wire.greetings import (
    GRANTED_LENGTH_MAX,
    VERSION,
    Hello,
    Welcome,
    read_hello,
    write_refused,
    write_welcome,
)

_SLOWEST: Final = 128 * 2**10
"""Bytes a second at which a frame comes at least, after a while: 1 Mbit/s."""


class Hub:
    """Owns the connections of a broker, those that came and those that it made."""

    def __init__(
        self,
        name: str,
        protocol: str,
        runtime: Runtime,
        admission: Admission,
        incarnation: int,
        world: World,
    ) -> None:
        self.admission = admission
        self.is_draining = False
        self._name = name
        self._protocol = protocol
        self._limits, self._times = runtime.limits, runtime.times
        self._runtime = runtime
        self._incarnation = incarnation
        self._world = world
        self._clock = world.time
        self._links: dict[FrameConnection, Link] = {}
        self._strangers: dict[FrameConnection, float] = {}
        self._addresses: Counter[str] = Counter()
        """Connections that others made, by where they come from."""
        self._held = 0
        """Bytes of frames that are not whole."""
        self._ticked_at = world.time()

    # Connections

    def accept(self, behind: str = "") -> FrameConnection:
        """A connection that somebody else makes; `behind`: the address of whoever acts through it."""
        # Of one whose TLS comes to nothing, nobody is told: it is a stranger from when it is open.
        connection = FrameConnection(self, self._world, on_open=self._opened)
        connection.behind = behind
        return connection

    def _opened(self, connection: FrameConnection) -> None:
        self._strangers[connection] = self._clock()
        connection.on_held = self._on_held
        address, most = connection.address, self._limits.connections_per_address
        if address:
            self._addresses[address] += 1
            connection.when_closed.append(partial(self._left, address))
            if self._addresses[address] > most and not self.turn_away(address, but=connection):
                reason = f"no more than {most:,} connections are taken from one address here"
                LOG.info("%s: a connection from %s is refused: %s", self._name, address, reason)
                connection.close("busy", reason)
        if len(self._strangers) > self._limits.clients:
            self.turn_away(but=connection)

    def turn_away(self, address: str | None = None, *, but: FrameConnection | None = None) -> bool:
        """Have whoever has said nothing for longest make room, of one address or of all; whether one does."""
        for connection in self._strangers:
            if connection is not but and not connection.is_closing and address in (None, connection.address):
                connection.abort()
                return True
        return False

    def _left(self, address: str) -> None:
        self._addresses[address] -= 1
        if not self._addresses[address]:
            del self._addresses[address]

    def _on_held(self, change: int) -> None:
        """More has come, or less is left, of frames that are not whole."""
        self._held += change
        if change > 0 and self._held > self._limits.unfinished_bytes:
            self._shed()

    def _shed(self) -> None:
        """End connections until unfinished frames are within their bound: clients that hold most first."""

        def rank(connection: FrameConnection) -> tuple[bool, int]:
            link = self._links.get(connection)
            return link is not None and not link.is_client, -connection.held

        for connection in sorted([*self._strangers, *self._links], key=rank):
            if self._held <= self._limits.unfinished_bytes:
                return
            if connection.held:
                LOG.warning(
                    "%s: a connection is cut off: frames that are not whole take more than %s bytes in all",
                    self._name,
                    f"{self._limits.unfinished_bytes:,}",
                )
                connection.let_go()
                connection.close("busy", "too many unfinished frames are under way here")

    def on_frames(self, connection: FrameConnection, frames: list[tuple[Kind, memoryview]]) -> None:
        """Frames have come. What is wrong with them ends the link, and nothing else."""
        link = self._links.get(connection)
        if link is None:
            link = self._greet(connection, frames)
            if link is None:
                return
            frames = frames[1:]
        now = self._clock()
        try:
            for kind, payload in frames:
                if link.connection is not connection:
                    break
                self._runtime.on_frame(link, kind, payload, now)
        except (WireError, EventError, LimitError) as error:
            self._fail(link, connection, str(error), now)
        except Exception:
            # A mistake of ours must not take the broker down, nor be repeated by whoever led to it.
            LOG.exception("%s: the link to %s led to an error", self._name, link.peer)
            self._fail(link, connection, "internal error", now)
        self.flush()

    def _fail(self, link: Link, connection: FrameConnection, reason: str, now: float) -> None:
        LOG.warning("%s: %s is cut off: %s", self._name, link.peer, reason)
        connection.close("protocol", reason)
        self._runtime.give_up(link, now)

    def on_lost(self, connection: FrameConnection) -> None:
        """A connection is gone."""
        self._strangers.pop(connection, None)
        link = self._links.pop(connection, None)
        if link is not None and link.connection is connection:
            self._runtime.on_cut(link, self._clock())
            self.flush()

    def on_writable(self, connection: FrameConnection) -> None:
        """There is room again for more."""
        link = self._links.get(connection)
        if link is not None:
            link.flush()

    def flush(self) -> None:
        """Write what waits."""
        self._runtime.flush()

    def close_all(self, code: str, reason: str) -> list[FrameConnection]:
        """End all connections; return them, because they end a little later, when all is written."""
        ending = [*self._links, *self._strangers]
        for connection in ending:
            connection.close(code, reason)
        return ending

    def tick(self) -> None:
        """See who is silent."""
        now = self._clock()
        times = self._times
        for connection, since in list(self._strangers.items()):
            if now - since > times.greet:
                connection.close("protocol", "who connects has to say who it is")
        was_away = now - self._ticked_at > times.ping
        self._ticked_at = now
        for connection in [] if was_away else [*self._links, *self._strangers]:
            begun = connection.unfinished_since
            if begun is not None and now - begun > times.frame + connection.held / _SLOWEST:
                connection.close(
                    "protocol", f"a frame is not whole after {now - begun:.0f} s, and comes too slowly"
                )
        for connection in [] if was_away else list(self._links):
            # If this process stood still itself, nobody has been pinged: they are given until the next time.
            silent = now - connection.heard_at
            if silent > PINGS_MISSED * times.ping:
                connection.abort()
            elif silent > times.ping:
                connection.ping()

    # Greetings

    def _greet(self, connection: FrameConnection, frames: list[tuple[Kind, memoryview]]) -> Link | None:
        kind, payload = frames[0]
        if kind is not Kind.HELLO:
            raise WireError("the first frame says who is there")
        hello = read_hello(payload)
        try:
            return self._let_in(connection, hello)
        except RefusedError as refusal:
            level = logging.WARNING if hello.role == "broker" and refusal.code != "linked" else logging.INFO
            LOG.log(level, "%s: %s %s is refused: %s", self._name, hello.role, hello.name, refusal)
            connection.write([write_refused(refusal.code, str(refusal))])
            connection.close()
            return None

    def _let_in(self, connection: FrameConnection, hello: Hello) -> Link:
        if hello.version != VERSION:
            raise RefusedError(
                "version", f"this broker speaks version {VERSION} of the protocol, not {hello.version}"
            )
        is_broker = hello.role == "broker"
        now = self._clock()
        identity = self._until(self._identify(connection, hello), now)
        if is_broker and hello.protocol != self._protocol:
            raise RefusedError(
                "version", f"this broker runs the protocol {self._protocol!r}, not {hello.protocol!r:.40}"
            )
        if self.is_draining:
            raise RefusedError("draining", "the broker is about to end")
        known = self._runtime.known(hello)
        if known is not None and known.subject != identity.subject:
            raise RefusedError("access", "the session is somebody else's")
        link = self._runtime.find(hello)
        resumed = link is not None and self._runtime.may_go_on(link, identity)
        again: list[bytes] = []
        if link is not None and resumed:
            try:
                again = link.session.resume(hello.received)
            except WireError:
                resumed = False
        if link is None or not resumed:
            if is_broker:
                self._check_neighbour(hello)
                link = self._runtime.add_neighbour(
                    hello.name, hello.session, hello.incarnation, now, dialed=False
                )
            else:
                self._check_room(now)
                link = self._runtime.add_client(hello, identity, now)
        limit = self._limits.peer_frame_bytes if is_broker else self._limits.frame_bytes
        proof = self.admission.proof("welcome", hello.session, self._name)
        connection.write(
            [
                write_welcome(
                    Welcome(
                        self._name,
                        self._incarnation,
                        resumed,
                        link.session.received,
                        self._limits.window_bytes,
                        limit,
                        proof if is_broker else "",
                        _granted(identity),
                    )
                ),
                *again,
            ]
        )
        self.bind(connection, link, limit)
        return link

    def bind(self, connection: FrameConnection, link: Link, limit: int) -> None:
        """From now on this connection is that of the link."""
        self._strangers.pop(connection, None)
        old, link.connection = link.connection, connection
        if isinstance(old, FrameConnection):
            self._links.pop(old, None)
            old.close()
        if link.is_client:
            link.payer = _payer(link, connection)
        connection.reader.limit = limit
        if connection.on_held is None:
            self._held += connection.held
            connection.on_held = self._on_held
        self._links[connection] = link
        self._runtime.on_resumed(link, self._clock())

    def _identify(self, connection: FrameConnection, hello: Hello) -> Identity:
        try:
            if hello.role == "broker":
                self.admission.check_broker(hello, connection.names, is_tls=connection.is_tls)
                return self.admission.nobody
            return self.admission.identify(hello.token)
        except AccessError as error:
            raise RefusedError("access", str(error)) from None

    def _check_room(self, now: float) -> None:
        most = self._limits.clients
        if len(self._links) >= most:
            raise RefusedError("busy", f"no more than {most:,} connections are taken here")
        self._runtime.make_room(most, now)

    def _check_neighbour(self, hello: Hello) -> None:
        """Of two connections between the same two brokers, both keep the one that the lesser name made."""
        name = self._name
        if hello.name == name:
            raise RefusedError("name", f"two brokers are called {name!r:.80}")
        known = self._runtime.links.get(hello.name)
        if known is None or known.phase is not LinkPhase.UP or known.connection is None:
            return
        if hello.incarnation != known.incarnation and self._is_alive(known):
            # Had it been started anew, its old connection would be closed, or at least silent.
            raise RefusedError("name", f"another broker called {hello.name!r:.80} is linked here")
        if hello.incarnation == known.incarnation and known.dialed and self._is_settled(known, hello.name):
            raise RefusedError("linked", "these two brokers are linked already")

    def _is_settled(self, link: Link, peer: str) -> bool:
        """Whether a link is by the connection that both sides keep: see `_check_neighbour`."""
        return link.phase is LinkPhase.UP and link.dialed == (self._name < peer)

    def _is_alive(self, link: Link) -> bool:
        """Whether something was heard lately over the connection of a link."""
        connection = link.connection
        if not isinstance(connection, FrameConnection) or connection.is_closing:
            return False
        connection.ping()
        return self._clock() - connection.heard_at < 2 * self._times.ping

    # Dialing

    def hello(self, session_id: str, received: int) -> Hello:
        """How this broker greets another."""
        return Hello(
            VERSION,
            "broker",
            self._name,
            self.admission.proof("hello", session_id, self._name),
            session_id,
            received,
            self._incarnation,
            protocol=self._protocol,
        )

    def welcomed(self, connection: FrameConnection, hello: Hello, welcome: Welcome) -> Link:
        """Another broker has taken our connection. Raises RefusedError or WireError."""
        now = self._clock()
        if welcome.broker == self._name:
            raise RefusedError("name", "a broker is linked to itself, or two have the same name")
        try:
            self.admission.check_answer(welcome, hello.session, connection.names, is_tls=connection.is_tls)
        except AccessError as error:
            raise RefusedError("access", str(error)) from None
        link = self._runtime.links.get(welcome.broker)
        is_other = link is not None and link.incarnation != welcome.incarnation
        if link is not None and is_other and link.phase is LinkPhase.UP and self._is_alive(link):
            raise RefusedError("name", f"another broker called {welcome.broker!r:.80} is linked here")
        if link is not None and not is_other and self._is_settled(link, welcome.broker):
            raise RefusedError("linked", "these two brokers are linked already")
        if welcome.resumed:
            # While the answer was on its way, this side may have given up the session.
            if link is None or link.session_id != hello.session or link.phase is not LinkPhase.CUT:
                raise RefusedError("protocol", "the session that should go on is over")
            again = link.session.resume(welcome.received)
            if again:
                connection.write(again)
        else:
            link = self._runtime.add_neighbour(
                welcome.broker, hello.session, welcome.incarnation, now, dialed=True
            )
        self.bind(connection, link, self._limits.peer_frame_bytes)
        self.flush()
        return link

    def is_linked(self, peer: str | None) -> bool:
        """Whether there is a connection to a neighbour."""
        link = None if peer is None else self._runtime.links.get(peer)
        return link is not None and link.phase is LinkPhase.UP

    def waits_for(self, peer: str | None) -> bool:
        """Whether there is a connection to a neighbour, or one that the neighbour has to make again."""
        link = None if peer is None else self._runtime.links.get(peer)
        if link is None:
            return False
        return link.phase is LinkPhase.UP or (link.phase is LinkPhase.CUT and not link.dialed)

    def session_with(self, peer: str | None) -> tuple[str, int]:
        """The session to go on with, and the last frame that came in it; or a new one."""
        link = None if peer is None else self._runtime.links.get(peer)
        if link is not None and link.dialed and link.phase is LinkPhase.CUT:
            return link.session_id, link.session.received
        return self._world.secret(), 0

    def _until(self, identity: Identity, now: float) -> Identity:
        """The same with the end of its token by the broker's own clock."""
        if identity.expires_at is None:
            return identity
        return msgspec.structs.replace(
            identity, expires_at=now + identity.expires_at - self._world.wall_time()
        )


def _payer(link: Link, connection: FrameConnection) -> str:
    """To whom it is counted what a client's filters cost.

    Its subject; without one, where it comes from. On this machine that says nothing: there it is the link.
    """
    address = connection.behind or connection.address
    if link.subject:
        return f"subject\t{link.subject}"
    if address and not (address.startswith("127.") or address == "::1"):
        return f"address\t{address}"
    return link.name


def _granted(identity: Identity) -> str:
    """What a client may advertise, so that it need not be told again; everything, where that is too long."""
    granted = identity.grants.advertise
    text = "true" if granted is None else granted.to_sql()
    return text if len(text) <= GRANTED_LENGTH_MAX else "true"
