"""Carries out what the core asks for, on reliable links. Knows no sockets and reads no clock.

Events are kept by whoever sent them until everybody further on has dealt with them (see
`penstock.wire.sessions`, and `passing` for what becomes of them here).
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from penstock.broker.core import Core
from penstock.broker.effects import Behind, Deliver, Effect, Keep, Missed, Refuse, Replay, Send, Wake
from penstock.broker.local import Ending, LinkDown, LinkUp, Load, Tick, Woken
from penstock.broker.local import Limits as ClientLimits
from penstock.errors import AccessError, FilterError, LimitError, WireError
from penstock.filters.predicate import Predicate
from penstock.model.schema import Schema
from penstock.node.asking import MisfitError, Prepared, message_of, why_not_asked
from penstock.node.history import Frame, History
from penstock.node.identity import Identity
from penstock.node.intake import Intake
from penstock.node.links import Link, LinkPhase
from penstock.node.logs import LOG
from penstock.node.meters import Meters
from penstock.node.naming import link_name, origin_of
from penstock.node.passing import Passing
from penstock.node.replaying import Replaying
from penstock.node.settings import Limits, Times
from penstock.node.standstill import Standstill
from penstock.node.telling import Telling
from penstock.node.tracing import Tracing
from penstock.node.turns import Turns
from penstock.node.watching import Watch
from penstock.node.world import Timer, World
from penstock.wire import requests
from penstock.wire.blocks import Block
from penstock.wire.codec import Codec, Returned, TraceReport
from penstock.wire.frames import Kind
from penstock.wire.greetings import Hello, read_refused
from penstock.wire.messages import Message
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
    Unoffer,
    Unwant,
    Want,
    read_request,
    write_answer,
)
from penstock.wire.sessions import Custody, Session, Stage
from penstock.wire.stamps import Transit, stamped, unstamped

_NO_WINDOW: Final = 2**62

_TRANSITS_MAX: Final = 1_000
"""Neighbours of which it is remembered how long their messages take."""

_WAITED_S: Final = 0.1
"""Seconds that a message has waited from which on what it says of the past is corrected."""

TICK: Final = 0.25
"""Seconds between looks at who is away or slow."""


class Runtime:
    """A core with its links. `status` is asked for when a client wants to know about the broker."""

    def __init__(
        self,
        core: Core,
        codec: Codec,
        limits: Limits,
        times: Times,
        world: World,
        status: Callable[[], bytes] = lambda: b"{}",
        prepare: Callable[[Predicate], object] = lambda _predicate: None,
        schema: Schema | None = None,
    ) -> None:
        """`prepare`: see `penstock.broker.needs.Matching`. `schema`: what clients' filters have to fit."""
        self.core = core
        self.codec = codec
        self.limits = limits
        self.times = times
        self.world = world
        self.links: dict[str, Link] = {}
        self.counts: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        """Acknowledged events that did not reach somebody who was known, at most so many, by reason."""
        self.dirty: dict[Link, None] = {}
        """Links that have something to write, in the order in which they came to have it."""
        self.tracing = Tracing(core.name)
        self.standstill = Standstill(world.time(), TICK)
        self.history = History(times.kept_at_most, limits.keep_bytes)
        self.replaying = Replaying(self, self.history)
        self._telling = Telling(self)
        self.passing = Passing(self)
        self.turns = Turns(self, world, prepare, schema)
        self.intake = Intake(self, world)
        self._status = status
        self._watch = Watch(self, limits, times)
        self._meters = Meters()
        self._transits: dict[tuple[str, int], Transit] = {}
        self._wakes: dict[float, Timer] = {}
        """When the core wants to be woken."""

    # Links

    def begin(self, now: float) -> None:
        """The broker takes connections from now on; its neighbours will find it in a moment."""
        self.passing.wait_until(now + self.times.join)

    def end_all(self, now: float) -> None:
        """The node ends: say what has to be said, and let nothing more happen by itself."""
        self.handle(Ending(), "", now)
        self._telling.tell_all()
        self.flush()
        for timer in self._wakes.values():
            timer.cancel()
        self._wakes.clear()
        self.turns.stop()
        self.intake.stop()

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
        self.passing.wait_until(now + self.times.settle)
        # What is under way is bounded by the windows of clients. If brokers waited for each other as well,
        # they might do so in a circle, and one slow reader would hold up all that goes over the same link.
        link = Link(name, session_id, Session(_NO_WINDOW), False, name, dialed, incarnation)
        link.transit = self._transit_of(name, incarnation)
        return self._add(link, LinkUp(incarnation=incarnation), now)

    def _transit_of(self, name: str, incarnation: int) -> Transit:
        """What is known of how long messages of a neighbour take, in this life of its."""
        known = self._transits.pop((name, incarnation), None) or Transit()
        self._transits[name, incarnation] = known
        if len(self._transits) > _TRANSITS_MAX:
            del self._transits[next(iter(self._transits))]
        return known

    def add_client(self, hello: Hello, identity: Identity, now: float) -> Link:
        """A client is there, with a new session."""
        name = link_name(hello)
        self._replace(name, now)
        link = Link(name, hello.session, Session(self.limits.window_bytes), True, hello.name)
        link.subject, link.may_monitor = identity.subject, identity.grants.monitor
        link.identity = identity
        link.when_slow = hello.when_slow
        link.expires_at = identity.expires_at
        quotas = identity.quotas
        link.meter = self._meters.of(identity, now)
        limits = ClientLimits(
            quotas.subscriptions or 2**62, quotas.advertisements or 2**62, quotas.attributes or 2**62
        )
        up = LinkUp(client=True, origin=origin_of(hello, identity), grants=identity.grants, limits=limits)
        return self._add(link, up, now)

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
        link.clock = self.world.time
        self.links[link.name] = link
        self.handle(up, link.name, now)
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
        link.heard_at = link.last_heard(now)
        link.connection = None
        if link.phase is LinkPhase.UP:
            link.phase, link.since = LinkPhase.CUT, now

    def on_resumed(self, link: Link, now: float) -> None:
        """There is a connection again, and the session goes on."""
        link.phase, link.since, link.moved_at = LinkPhase.UP, now, now
        self.dirty[link] = None

    def give_up(self, link: Link, now: float, *, ended: bool = False) -> None:
        """A link does not work: look for ways around a neighbour, and keep what is for it meanwhile.

        `ended`: the neighbour has said that it ends.
        """
        if link.is_client:
            self.end(link, now, failed=True)
        elif link.phase in (LinkPhase.UP, LinkPhase.CUT):
            link.phase, link.since = LinkPhase.AWAY, now
            self.intake.forget(link)
            silent = now - link.last_heard(now) + self.standstill.seconds(now)
            if not ended:
                LOG.warning("no link to %s any more; nothing heard of it for %.1f s", link.peer, silent)
            self.handle(LinkDown(keep=True, silent=silent, ended=ended), link.name, now)
            connection, link.connection = link.connection, None
            if connection is not None:
                connection.close()

    def end(self, link: Link, now: float, *, failed: bool, replaced: bool = False) -> int:
        """A link is over. What it had not acknowledged has failed, or is given up: so many events."""
        if link.phase is LinkPhase.GONE:
            return 0
        link.phase = LinkPhase.GONE
        self.turns.forget(link)
        self.intake.forget(link)
        if self.links.get(link.name) is link:
            del self.links[link.name]
        self.dirty.pop(link, None)
        self._telling.forget(link)
        if not replaced:
            self.handle(LinkDown(), link.name, now)
        events = link.session.abandon(failed=failed)
        if failed:
            self.counts["stranded"] += events
        connection, link.connection = link.connection, None
        if connection is not None:
            connection.close()
        return events

    @property
    def has_neighbours(self) -> bool:
        """Whether there is anybody else to pass events on to."""
        return any(not link.is_client for link in self.links.values())

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way: all that was sent on is acknowledged."""
        return self.passing.is_idle and all(
            link.session.is_idle and not link.held and not link.requests and not link.inbox
            for link in self.links.values()
            if link.phase is LinkPhase.UP
        )

    # What comes

    def on_frame(self, link: Link, kind: Kind, payload: memoryview, now: float) -> None:
        """Take a frame of a link that is up. Raises WireError where it cannot be."""
        session = link.session
        if kind is Kind.ACK:
            link.on_ack(payload, now)
            self.dirty[link] = None
            return
        if kind is Kind.REACHED:
            session.on_reached(payload)
            return
        if kind is Kind.REFUSED:
            # The other side ends the connection, and says why: there is no use in waiting for it.
            self.give_up(link, now, ended=read_refused(payload).code == "draining")
            return
        if kind not in (Kind.MESSAGE, Kind.EVENTS):
            raise WireError(f"a frame of kind {kind.name} has no place here")
        taken = session.take(payload)
        if taken is None:
            return
        number, content = taken
        link.counts["bytes_in"] += len(payload)
        self.dirty[link] = None
        if link.is_client and session.undealt_bytes > self.limits.window_bytes + self.limits.frame_bytes:
            raise WireError("more was sent than may be unacknowledged")
        if not link.is_client:
            self.intake.take(link, kind, number, content, now)
        elif kind is Kind.EVENTS:
            self.take_events(link, number, content, now)
        else:
            self.turns.take(link, number, read_request(content), len(content), now)

    def take_events(self, link: Link, number: int, content: memoryview, now: float) -> None:
        """Events have come."""
        self.passing.on_events(link, number, Block.decode(content), now)

    def take_message(self, link: Link, number: int, content: memoryview, now: float) -> None:
        """A neighbour says something."""
        link.session.dealt_with(number)
        self.dirty[link] = None
        at, content = unstamped(content)
        message = self.codec.read(content)
        waited = link.transit.waited(at, now)
        if isinstance(message, Returned):
            link.session.fail(message.number)
        elif isinstance(message, TraceReport):
            self.tracing.add(message.trace, link.name, message.json)
        else:
            self.handle(message.aged(waited) if waited > _WAITED_S else message, link.name, now)

    def say(self, link: Link, message: Any, custody: Custody | None = None) -> None:
        """Send a neighbour a message."""
        data = stamped(self.codec.write(message), self.world.time())
        link.session.push_message(data, custody)
        self.dirty[link] = None

    def handle(self, message: Message, link: str, now: float) -> list[Effect]:
        """Have the core take a message, and carry out what it leads to."""
        effects = self.core.handle(message, link, now)
        self.carry_out(effects, now)
        return effects

    # Requests of clients

    def serve(self, link: Link, number: int, request: Request, found: Prepared | None, now: float) -> None:
        """Do what a client asks for, and answer; `found`: what its filter is, if that has been found out."""
        link.session.dealt_with(number)
        self.dirty[link] = None
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
            self._answer(link, self._change(link, request, found, now))

    def cut_off(self, link: Link, reason: str, now: float) -> None:
        """End a link that has made a mistake."""
        if link.connection is not None:
            link.connection.close("protocol", reason)
        self.end(link, now, failed=True)

    def decided(self, link: Link, now: float) -> None:
        """An advertisement that events waited for is decided."""
        if link.held:
            self.passing.send_held(now)

    def _change(
        self, link: Link, request: Want | Unwant | Offer | Unoffer, found: Prepared | None, now: float
    ) -> Answer:
        """Carry out a change of what a client wants or offers; the answer to it."""
        why_not = why_not_asked(request, link.identity)
        if why_not is not None:
            self.counts["refused"] += 1
            return Denied(request.request, "access", why_not)
        if isinstance(found, AccessError):
            self.counts["refused"] += 1
            return Denied(request.request, "access", str(found))
        try:
            if isinstance(found, Exception):
                raise found
            message = found or message_of(request)
            effects = self.handle(message, link.name, now)
        except (FilterError, LimitError) as error:
            self.counts["refused"] += isinstance(error, MisfitError)
            return Denied(request.request, "filter", str(error))
        refused = [effect for effect in effects if isinstance(effect, Refuse)]
        if refused:
            self.counts["refused"] += 1
            return Denied(request.request, "access", refused[0].reason)
        if isinstance(request, Offer):
            link.born[str(request.key)] = now
        return Done(request.request)

    def _answer(self, link: Link, answer: Answer) -> None:
        if link.session.message_bytes > self.limits.queue_bytes:
            raise WireError("answers are not taken, and more is asked")
        self._say(link, answer)

    def _say(self, link: Link, answer: Answer) -> None:
        link.session.push_message(write_answer(answer), urgent=True)
        self.dirty[link] = None

    def notify(self, link: Link, kind: str, text: str, count: int = 0) -> None:
        """Tell a client something."""
        self._say(link, Notify(kind, text, count))

    # Effects

    def carry_out(
        self,
        effects: list[Effect],
        now: float,
        custody: Custody | None = None,
        frame: Frame | None = None,
    ) -> None:
        """Do all that the core asks for. Events are held in custody until others have dealt with them.

        `frame` is the one that they came in.
        """
        for effect in effects:
            if isinstance(effect, Wake):
                self._wake_at(effect.at, now)
            elif isinstance(effect, Replay):
                self.replaying.ask(effect, now)
            elif isinstance(effect, Keep):
                if frame is not None:
                    self.history.keep(effect.events.as_block(), frame, now)
            else:
                self._carry_out_on(effect, now, custody, frame)

    def _carry_out_on(
        self,
        effect: Send | Deliver | Refuse | Missed | Behind,
        now: float,
        custody: Custody | None,
        frame: Frame | None,
    ) -> None:
        """Do what has to be done on a link, if it is still there."""
        link = self.links.get(effect.link)
        if link is None:
            return
        if isinstance(effect, Missed):
            # Where nobody knows how many, it is one at least.
            self.lost[effect.reason] += max(1, effect.count)
            LOG.warning("%s may have missed events (%s): %d at most", link.peer, effect.reason, effect.count)
            self._telling.gather(link, effect)
        elif isinstance(effect, Behind):
            # Not urgent: that all has come is true only behind what has.
            self._telling.tell(link)
            link.session.push_message(write_answer(requests.Behind(effect.seconds, effect.unheard)))
            self.dirty[link] = None
        elif isinstance(effect, Deliver):
            self._send_block(link, effect.events.as_block(), custody, now, frame)
        elif isinstance(effect, Refuse):
            # What is not about events is answered by whoever asked the core (`_change`).
            if effect.events is not None and not link.is_client:
                if custody is not None:
                    custody.fail()
            elif effect.events is not None:
                self.reject(link, effect.events.as_block(), "event", effect.reason, custody)
        elif isinstance(effect.message, Block):
            self._send_block(link, effect.message, custody, now, frame)
        else:
            self.say(link, effect.message)

    def _send_block(
        self,
        link: Link,
        block: Block,
        custody: Custody | None,
        now: float,
        frame: Frame | None,
    ) -> None:
        if block.header.trace and frame is not None:
            self.tracing.sent((frame[0].name, frame[1]), link.name, len(block), is_client=link.is_client)
        if link.is_client and link.is_paused:
            link.missed += len(block)
            self.lost["slow"] += len(block)
            return
        if not link.session.has_events:
            link.moved_at = now
        if link.is_given_up and not link.session.is_waiting:
            custody = None
        # What is for a client is in the hands of its broker, which is all that has to be reached at first.
        link.session.push_block(block, custody, Stage.ACCEPTED if link.is_client else Stage.NONE)
        if link.is_late and custody is not None:
            custody.is_late = True
        link.counts["events_out"] += len(block)
        self.counts["delivered" if link.is_client else "events_out"] += len(block)
        self.dirty[link] = None

    def reject(self, link: Link, block: Block, code: str, reason: str, custody: Custody | None) -> None:
        """Tell a client that events of it are not accepted; it must know before they are acknowledged."""
        self.counts["refused"] += len(block)
        rejected = Rejected(int(block.header.tree), block.numbers.tolist(), code, reason)
        told: Custody | None = None
        if custody is not None:
            custody.hold()
            told = Custody(lambda _succeeded: custody.release())
        link.session.push_message(write_answer(rejected), told, urgent=True)
        self.dirty[link] = None
        if told is not None:
            told.release()

    def flush(self) -> None:
        """Write what waits."""
        dirty = self.dirty
        while dirty:
            link = next(iter(dirty))
            del dirty[link]
            link.flush()

    # Time

    def tick(self, now: float) -> None:
        """Time has passed: see who has been away too long, or is too slow."""
        self.standstill.tick(now)
        self._telling.tell_all()
        self.passing.send_held(now)
        self.passing.tell_stages(now)
        # What waits only to be written is not in the way of anybody.
        self.flush()
        self._watch.look(now)
        self.passing.send_again(now)

    def core_tick(self, now: float) -> None:
        """Have the core renew its leases: a few times in the time of one."""
        self.handle(Tick(), "", now)

    def tell_load(self, now: float) -> None:
        """Tell a core that wants to know how busy its links are."""
        if self.core.hears_load:
            links = [link for link in self.links.values() if not link.is_client]
            self.handle(Load(tuple(link.load(now) for link in links)), "", now)

    def _wake_at(self, at: float, now: float) -> None:
        """The core wants to be woken: once at each time that it has asked for."""
        if at not in self._wakes:
            self._wakes[at] = self.world.call_later(max(0.0, at - now), self._wake, at)

    def _wake(self, at: float) -> None:
        del self._wakes[at]
        self.handle(Woken(), "", self.world.time())
        self.flush()
