"""Carries out what the broker core asks for, on reliable links. Knows no sockets and reads no clock.

Events are kept by whoever sent them until everybody further on has dealt with them (see
`penstock.wire.sessions`). When a link fails for good, those who sent what was on it are told so (Returned),
up to the broker of the publisher, which sends it again by the ways that there are then. Clients drop what
they have had.
"""

import secrets
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from penstock.broker.clients import Limits as ClientLimits
from penstock.broker.core import Broker
from penstock.broker.effects import Deliver, DeliverBlock, Effect, Refuse, RefuseBlock, Send, SendBlock
from penstock.errors import EventError, FilterError, LimitError, PenstockError, WireError
from penstock.net.asking import check_key, message_of
from penstock.net.config import Limits, Times
from penstock.net.links import Link, LinkPhase
from penstock.net.meters import Meters
from penstock.net.naming import link_name, origin_of
from penstock.net.tokens import Identity
from penstock.net.tracing import Tracing
from penstock.net.watching import Watch
from penstock.wire.blocks import Block
from penstock.wire.codec import Returned, Spoken, read_spoken, write_spoken
from penstock.wire.frames import Kind
from penstock.wire.greetings import Hello, read_refused
from penstock.wire.messages import (
    LinkDown,
    LinkUp,
    Message,
    Tick,
)
from penstock.wire.requests import (
    Answer,
    Ask,
    Bye,
    Denied,
    Done,
    Notify,
    Offer,
    Rejected,
    Request,
    Traced,
    Unoffer,
    Unwant,
    Want,
    read_request,
    write_answer,
)
from penstock.wire.sessions import Custody, Session

_ATTEMPTS_MAX: Final = 5
"""Times that events are sent again before they are given up."""


class _Again(NamedTuple):
    """Events of a client that have to be sent again, at a time."""

    due: float
    link: Link
    number: int
    block: Block
    attempts: int


class Runtime:
    """A broker with its links. `status` is asked for when a client wants to know about the broker."""

    def __init__(
        self,
        broker: Broker,
        limits: Limits,
        times: Times,
        status: Callable[[], bytes] = lambda: b"{}",
    ) -> None:
        self.broker = broker
        self.links: dict[str, Link] = {}
        self.counts: Counter[str] = Counter()
        self.dirty: set[Link] = set()
        """Links that have something to write."""
        self._limits = limits
        self._times = times
        self._status = status
        self._again: list[_Again] = []
        self._tracing = Tracing(broker.name)
        self._watch = Watch(self, limits, times)
        self._now = 0.0
        self._joined_until = 0.0
        self._is_alone = False
        """Whether the broker had neighbours, and has lost the last of them."""
        self._meters = Meters()

    # Links

    def begin(self, now: float) -> None:
        """The broker takes connections from now on; its neighbours will find it in a moment."""
        self._joined_until = now + self._times.join

    def known(self, hello: Hello) -> Link | None:
        """The link of whoever greets, with this session or with an earlier one."""
        return self.links.get(link_name(hello))

    def find(self, hello: Hello) -> Link | None:
        """The link that a greeting wants to go on with."""
        link = self.known(hello)
        if link is None or link.session_id != hello.session or link.is_client != (hello.role == "client"):
            return None
        return link if link.phase in (LinkPhase.UP, LinkPhase.CUT) else None

    def add_neighbour(
        self, name: str, session_id: str, incarnation: int, now: float, *, dialed: bool
    ) -> Link:
        """A neighbour is there, with a new session."""
        self._replace(name, now)
        self._joined_until = max(self._joined_until, now + self._times.settle)
        if self._is_alone:
            self._is_alone = False
            for client in self.links.values():
                if client.is_client and self.broker.client(client.name).subscriptions:
                    self.notify(client, "missed", "the broker was cut off: events may have been missed")
        link = Link(name, session_id, Session(self._limits.window_bytes), False, name, dialed, incarnation)
        return self._add(link, LinkUp(), now)

    def add_client(self, hello: Hello, identity: Identity, now: float) -> Link:
        """A client is there, with a new session."""
        name = link_name(hello)
        self._replace(name, now)
        link = Link(name, hello.session, Session(self._limits.window_bytes), True, hello.name)
        link.subject, link.may_monitor = identity.subject, identity.grants.monitor
        link.identity = identity
        link.when_slow = hello.when_slow
        link.expires_at = identity.expires_at
        quotas = identity.quotas
        link.meter = self._meters.of(identity, now)
        self._add(link, LinkUp(client=True), now)
        limits = ClientLimits(quotas.subscriptions or 2**62, quotas.advertisements or 2**62)
        self.broker.admit(name, origin_of(hello, identity), identity.grants, limits)
        return link

    def may_go_on(self, link: Link, identity: Identity) -> bool:
        """Whether a client that comes back may do what it might before; if so, for as long as it may now."""
        if link.identity is not None:
            if (identity.grants, identity.quotas) != (link.identity.grants, link.identity.quotas):
                return False
            link.expires_at = identity.expires_at
        return True

    def make_room(self, most: int, now: float) -> None:
        """Of those who have left, and may come back, wait for no more than there is room for."""
        if len(self.links) >= most:
            away = [link for link in self.links.values() if link.is_client and link.phase is LinkPhase.CUT]
            if away:
                self.end(min(away, key=lambda link: link.since), now, failed=True)

    def _add(self, link: Link, up: LinkUp, now: float) -> Link:
        link.since = link.moved_at = now
        self.links[link.name] = link
        self._handle(up, link.name, now)
        return link

    def _replace(self, name: str, now: float) -> None:
        """A link comes with a new session: what the old one had is not going to be acknowledged.

        What a neighbour has asked for stays until it says all of it anew: until then, events are not to be
        taken for unwanted.
        """
        old = self.links.get(name)
        if old is not None:
            self.give_up(old, now)
            self.end(old, now, failed=True, replaced=not old.is_client)

    def on_cut(self, link: Link, now: float) -> None:
        """The connection of a link is lost."""
        link.connection = None
        if link.phase is LinkPhase.UP:
            link.phase, link.since = LinkPhase.CUT, now

    def on_resumed(self, link: Link, now: float) -> None:
        """There is a connection again, and the session goes on."""
        link.phase, link.since, link.moved_at = LinkPhase.UP, now, now
        self.dirty.add(link)

    def give_up(self, link: Link, now: float) -> None:
        """A link does not work: look for ways around a neighbour, and keep what is for it meanwhile."""
        if link.is_client:
            self.end(link, now, failed=True)
        elif link.phase in (LinkPhase.UP, LinkPhase.CUT):
            link.phase, link.since = LinkPhase.AWAY, now
            self._handle(LinkDown(keep=True), link.name, now)
            connection, link.connection = link.connection, None
            if connection is not None:
                connection.close()
            neighbours = (other for other in self.links.values() if not other.is_client)
            self._is_alone = all(other.phase is LinkPhase.AWAY for other in neighbours)

    def end(self, link: Link, now: float, *, failed: bool, replaced: bool = False) -> None:
        """A link is over. What it had not acknowledged has failed, or is given up."""
        if link.phase is LinkPhase.GONE:
            return
        link.phase = LinkPhase.GONE
        if self.links.get(link.name) is link:
            del self.links[link.name]
        self.dirty.discard(link)
        if not replaced:
            self._handle(LinkDown(), link.name, now)
        events = link.session.abandon(failed=failed)
        self.counts["stranded" if failed else "dropped"] += events
        connection, link.connection = link.connection, None
        if connection is not None:
            connection.close()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way: all that was sent on is acknowledged."""
        return not self._again and all(
            link.session.is_idle and not link.held
            for link in self.links.values()
            if link.phase is LinkPhase.UP
        )

    # What comes

    def on_frame(self, link: Link, kind: Kind, payload: memoryview, now: float) -> None:
        """Take a frame of a link that is up. Raises WireError where it cannot be."""
        self._now = now
        session = link.session
        if kind is Kind.ACK:
            session.on_ack(payload)
            link.moved_at = now
            self.dirty.add(link)
            return
        if kind is Kind.REFUSED:
            # The other side ends the connection, and says why: there is no use in waiting for it.
            read_refused(payload)
            self.give_up(link, now)
            return
        if kind not in (Kind.MESSAGE, Kind.EVENTS):
            raise WireError(f"a frame of kind {kind.name} has no place here")
        taken = session.take(payload)
        if taken is None:
            return
        number, content = taken
        link.counts["bytes_in"] += len(payload)
        self.dirty.add(link)
        if link.is_client and session.undealt_bytes > self._limits.window_bytes + self._limits.frame_bytes:
            raise WireError("more was sent than may be unacknowledged")
        if kind is Kind.EVENTS:
            self._on_events(link, number, Block.decode(content), now)
            return
        session.dealt_with(number)
        if link.is_client:
            self._on_request(link, read_request(content), now)
        else:
            self._on_spoken(link, read_spoken(content), now)

    def _on_events(self, link: Link, number: int, block: Block, now: float) -> None:
        link.counts["events_in"] += len(block)
        self.counts["events_in"] += len(block)
        if link.is_client:
            check_key(block.header.tree)
        if block.header.trace:
            if link.is_client and not link.may_monitor:
                custody = Custody(lambda _succeeded: link.session.dealt_with(number))
                self._reject(link, block, "access", "tracing needs the right to monitor", custody)
                custody.release()
                return
            self._tracing.begin(link.name, number, now)
        wait = 0.0 if link.meter is None else link.meter.take(len(block.data), len(block), now)
        if not wait:
            self._arrive(link, number, block, now)
            return
        # Who sends more than it may waits, and what it has sent.
        self._again.append(_Again(now + wait, link, number, block, 0))
        if link.connection is not None:
            link.connection.pause_reading(wait)

    def _arrive(self, link: Link, number: int, block: Block, now: float) -> None:
        """Pass on events, or hold them until their advertisement is known."""
        if link.is_client and self._is_young(link, block.header.tree, now):
            link.held.setdefault(block.header.tree, []).append((number, block))
        else:
            self._pass_on_later(link, number, block, now, 0)

    def _is_young(self, link: Link, key: str, now: float) -> bool:
        """Whether others may not have asked yet for the events of an advertisement.

        Because it is new, or this broker is, or a neighbour has just come: all of them have to be told, and
        to answer.
        """
        if now < self._joined_until:
            return True
        if key in link.born and now - link.born[key] >= self._times.settle:
            del link.born[key]
        return key in link.held or (key in link.born and self._has_neighbours)

    @property
    def _has_neighbours(self) -> bool:
        return any(not link.is_client for link in self.links.values())

    def _pass_on_held(self, link: Link, now: float) -> None:
        """Send off what waited for an advertisement to be known."""
        for key in list(link.held):
            held = link.held.pop(key)
            if self._is_young(link, key, now):
                link.held[key] = held
            else:
                for number, block in held:
                    if link.phase is not LinkPhase.GONE:
                        self._pass_on_later(link, number, block, now, 0)

    def _pass_on_later(self, link: Link, number: int, block: Block, now: float, attempts: int) -> None:
        """Pass on events that came a while ago; what is wrong with them ends the link that they came by."""
        if block.header.trace:
            # What is measured is the way, not the wait before it.
            self._tracing.begin(link.name, number, now)
        try:
            self._pass_on(link, number, block, now, attempts)
        except (WireError, EventError, LimitError) as error:
            if link.connection is not None:
                link.connection.close("protocol", str(error))
            self.end(link, now, failed=True)

    def _pass_on(self, link: Link, number: int, block: Block, now: float, attempts: int) -> None:
        def done(succeeded: bool) -> None:
            self._dealt_with(link, number, block, attempts, succeeded)

        custody = Custody(done)
        self._carry_out(self.broker.handle_block(block, link.name, now), now, custody, (link.name, number))
        custody.release()

    def _dealt_with(self, link: Link, number: int, block: Block, attempts: int, succeeded: bool) -> None:
        """Everybody further on has dealt with a frame of events, or somebody could not."""
        session = link.session
        if not succeeded and link.is_client:
            if link.phase is LinkPhase.GONE or attempts >= _ATTEMPTS_MAX:
                self.counts["lost"] += len(block)
                if link.phase is not LinkPhase.GONE:
                    text = f"{len(block):,} events could not be passed on to everybody, and are given up"
                    self.notify(link, "lost", text, len(block))
            else:
                again = block.with_header(
                    msgspec.structs.replace(block.header, rescued=secrets.randbits(62) | 1)
                )
                due = self._now + self._times.settle
                self._again.append(_Again(due, link, number, again, attempts + 1))
                self.counts["rescued"] += len(block)
                return
        if link.phase is LinkPhase.GONE:
            return
        self.dirty.add(link)

        def acknowledge(_succeeded: bool = True) -> None:
            session.dealt_with(number)
            self.dirty.add(link)

        first: bytes | None = None
        if block.header.trace:
            traced = Traced(block.header.trace, self._tracing.report(block.header.trace, (link.name, number)))
            first = write_answer(traced) if link.is_client else write_spoken(traced)
        if not succeeded and not link.is_client:
            first = write_spoken(Returned(number))
        if first is None:
            acknowledge()
            return
        # It must be there before the acknowledgement.
        custody = Custody(acknowledge)
        session.push_message(first, custody, urgent=link.is_client)
        custody.release()

    def _on_spoken(self, link: Link, message: Spoken, now: float) -> None:
        if isinstance(message, Returned):
            link.session.fail(message.number)
        elif isinstance(message, Traced):
            self._tracing.add(message.trace, link.name, message.json)
        else:
            self._handle(message, link.name, now)

    def _handle(self, message: Message, link: str, now: float) -> list[Effect]:
        self._now = now
        effects = self.broker.handle(message, link, now)
        self._carry_out(effects, now, None)
        return effects

    # Requests of clients

    def _on_request(self, link: Link, request: Request, now: float) -> None:
        if isinstance(request, Bye):
            self._answer(link, Done(request.request))
            link.flush()
            self.end(link, now, failed=False)
        elif isinstance(request, Ask):
            if link.may_monitor:
                self._answer(link, Done(request.request, self._status()))
            else:
                self._answer(link, Denied(request.request, "access", "the token has no right to monitor"))
        else:
            self._answer(link, self._change(link, request, now))

    def _change(self, link: Link, request: Want | Unwant | Offer | Unoffer, now: float) -> Answer:
        """Carry out a change of what a client wants or offers; the answer to it."""
        try:
            effects = self._handle(message_of(request), link.name, now)
        except (FilterError, LimitError) as error:
            return Denied(request.request, "filter", str(error))
        refused = [effect for effect in effects if isinstance(effect, Refuse)]
        if refused:
            self.counts["refused"] += 1
            return Denied(request.request, "access", refused[0].reason)
        if isinstance(request, Offer):
            link.born[str(request.key)] = now
        return Done(request.request)

    def _answer(self, link: Link, answer: Answer) -> None:
        if link.session.message_bytes > self._limits.queue_bytes:
            raise WireError("answers are not taken, and more is asked")
        self._say(link, answer)

    def _say(self, link: Link, answer: Answer) -> None:
        link.session.push_message(write_answer(answer), urgent=True)
        self.dirty.add(link)

    def notify(self, link: Link, kind: str, text: str, count: int = 0) -> None:
        """Tell a client something."""
        self._say(link, Notify(kind, text, count))

    # Effects

    def _carry_out(
        self,
        effects: list[Effect],
        now: float,
        custody: Custody | None,
        traced: tuple[str, int] | None = None,
    ) -> None:
        for effect in effects:
            link = self.links.get(effect.link)
            if link is None:
                continue
            if isinstance(effect, SendBlock | DeliverBlock):
                self._send_block(link, effect.block, custody, now)
                if effect.block.header.trace and traced is not None:
                    self._tracing.sent(traced, link.name, len(effect.block), is_client=link.is_client)
            elif isinstance(effect, Send):
                link.session.push_message(write_spoken(effect.message))  # type: ignore[arg-type]
                self.dirty.add(link)
            elif isinstance(effect, RefuseBlock):
                self._reject(link, effect.block, "event", effect.reason, custody)
            elif isinstance(effect, Deliver):
                raise PenstockError("events are delivered by the block here")

    def _send_block(self, link: Link, block: Block, custody: Custody | None, now: float) -> None:
        if link.is_client and link.is_paused:
            link.missed += len(block)
            self.counts["dropped"] += len(block)
            return
        if link.session.is_idle:
            link.moved_at = now
        link.session.push_block(block, custody)
        link.counts["events_out"] += len(block)
        self.counts["delivered" if link.is_client else "events_out"] += len(block)
        self.dirty.add(link)

    def _reject(self, link: Link, block: Block, code: str, reason: str, custody: Custody | None) -> None:
        """Tell a client that events of it are not accepted; it must know before they are acknowledged."""
        self.counts["refused"] += len(block)
        rejected = Rejected(int(block.header.tree), block.numbers.tolist(), code, reason)
        told: Custody | None = None
        if custody is not None:
            custody.hold()
            told = Custody(lambda _succeeded: custody.release())
        link.session.push_message(write_answer(rejected), told, urgent=True)
        self.dirty.add(link)
        if told is not None:
            told.release()

    # Time

    def tick(self, now: float) -> None:
        """Time has passed: see who has been away too long, or is too slow."""
        self._now = now
        for link in list(self.links.values()):
            self._pass_on_held(link, now)
        self._watch.look(now)
        self._carry_out(self.broker.let_go(now), now, None)
        self._send_again(now)

    def core_tick(self, now: float) -> None:
        """Have the core renew its leases: a few times in the time of one."""
        self._handle(Tick(), "", now)

    def _send_again(self, now: float) -> None:
        due = [again for again in self._again if again.due <= now]
        if not due:
            return
        self._again = [again for again in self._again if again.due > now]
        for again in due:
            link = again.link
            if link.phase is LinkPhase.GONE:
                # Should the client come again it has a new session, and publishes them again itself.
                self.counts["lost"] += len(again.block)
            elif not again.attempts:
                self._arrive(link, again.number, again.block, now)
            else:
                self._pass_on_later(link, again.number, again.block, now, again.attempts)
