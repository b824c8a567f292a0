"""The delivery contract of docs/OPERATIONS.md, held against whole nodes and clients, event by event.

An event that is acknowledged was taken by every client that was known to want it, once and for all its
subscriptions; or that client was told that it missed something; or nobody is left who could tell, which is
worked out from what really happened (`penstock.sim.whole.timeline`).
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from typing import ClassVar, Final, cast

from penstock.broker.clients import CLOCKS_SHARE
from penstock.broker.publishers import ANSWERED_KEEPS
from penstock.filters.predicate import Predicate
from penstock.model.names import Key
from penstock.node.client.notices import Notice
from penstock.node.links import LinkPhase
from penstock.oracle import Finding, Ledger, Name, Who
from penstock.sim.checkers.checker import Checker
from penstock.sim.clients import Client
from penstock.sim.whole.clients import WholeClient
from penstock.sim.whole.network import WholeNetwork
from penstock.sim.whole.timeline import Fault
from penstock.wire.messages import Publish

_TELLING: Final = ("missed", "paused", "resumed", "dropped")
"""Notices that tell a subscriber that something does not come. One that is paused is told how much when it is
resumed; if it never takes what it has, that is never."""

_SPREAD: Final = 2.0
"""Seconds in which a subscription has gone through a network in which nothing is wrong."""

_REJOINING: Final = 5.0
"""Seconds in which brokers that can reach each other again have told each other everything."""

_JUST: Final = 0.5
"""Seconds by which what brokers measure may be shorter than what was: their clocks tick, and go wrong."""


_ENDING: Final = ("crash", "vanish", "stop", "drain")
"""Faults that end a broker."""

_REASONS: Final = {"missed": ("expired", "unreachable"), "resumed": ("slow",), "lost": ("retries",)}
"""The notices by which clients are told of what is lost, and the reasons by which brokers count it."""

_HOLDING_UP: Final = ("stall", "pause", "sleep")
"""Faults during which what was sent may be on its way for long."""

_FOREVER: Final = float("inf")

_IN_TIME: Final = 1.0
"""Seconds before events are sent again, by which a client must have found another broker."""


class Sent:
    """An event, from when it was published."""

    __slots__ = ("at", "client", "error", "event", "homes", "known_at", "known_home", "name", "settled_at")

    def __init__(self, client: WholeClient, publish: Publish, at: float) -> None:
        self.client = client
        self.name = publish.name
        self.event = publish.event
        self.at = at
        self.homes = [client.home]
        """Where its publisher was."""
        self.known_home = ""
        """Where it was when it was certain who is known."""
        self.known_at = 0.0
        """When it was last certain who is known."""
        self.settled_at: float | None = None
        self.error: Exception | None = None


class WholeChecker(Checker):
    """A checker of whole nodes."""

    network: WholeNetwork  # type: ignore[assignment]


class Kept(WholeChecker):
    """Acknowledged means taken by everybody who was known, or told. Nothing comes twice."""

    holds: ClassVar[tuple[str, ...]] = (
        "An acknowledged event reaches every client whose subscription the publisher's broker knew.",
        "A client that missed an acknowledged event is told, unless all are dead who knew of it, "
        "or nobody at the publisher's new broker ever knew of the client.",
        "No client gets an event twice for one subscription.",
        "Every published event is acknowledged, rejected, or reported as failed in the end.",
        "Who is away for less than `keep` misses nothing, within `keep_bytes`.",
        "A killed broker loses nothing if another path exists and its clients reach another broker in time.",
        "Brokers count what was acknowledged and missed.",
        "A subscription gets no event that was acknowledged before it was made, unless a stall held it up.",
    )

    def __init__(self, network: WholeNetwork) -> None:
        super().__init__(network)  # type: ignore[arg-type]
        self.checked = 0
        """Deliveries that had to be, or had to be excused."""
        self.excused: Counter[str] = Counter()
        """Deliveries that were not made, by why that is allowed; and how often clients were told."""
        self._lost: set[tuple[str, Name]] = set()
        """Events that clients missed and were told of."""
        self.missed: Counter[str] = Counter()
        self.missed_in_vain: Counter[str] = Counter()
        self.missed_with_count: Counter[str] = Counter()
        """How often clients were told that they missed something, how often in vain, and how often of these
        with a number, by the kind of fault that led to it. Whoever said the number knows of events that were
        dropped, or acknowledged at a broker that is lost; not who wanted them."""
        self._missed: list[tuple[str, float, str, int]] = []
        self._missing: dict[str, float] = {}
        """The clients that were told so, when, after which kind of fault, of how many events; and those that
        did miss something, with when the first event was published that they missed."""
        self._hoped: dict[Hashable, list[tuple[Who, str, Key]]] = {}
        """Of each event, the subscriptions that it matches and that its publisher's broker need not know."""
        self._void = 0
        self._sent: dict[Hashable, Sent] = {}
        self._judged: set[Hashable] = set()
        """The events of which it is settled who got them."""
        self._ledger = Ledger()
        """Who was known to want each event, and who had it: a client, and the key of a subscription."""
        self._taken: dict[tuple[str, Key], tuple[float, Predicate]] = {}
        """When a client's broker has taken a subscription, and what it was."""
        self._filters: dict[tuple[str, Key], list[tuple[float, Predicate]]] = {}
        """All that a subscription has been, and since when."""
        self._told: dict[str, list[tuple[float, str]]] = {}
        self._numbers: list[tuple[float, str, int]] = []
        """What clients were told, when, and of how many events."""
        self._last_calm = 0.0
        self._homes: dict[str, str] = {}
        self._reach: dict[str, frozenset[str]] = {}
        """Where each client was when nothing was wrong, and which brokers could be reached from there."""
        self._wrong: list[str] = []
        times = network.times
        self._recovered = times.lease + _REJOINING
        self._patience = times.resume + times.grace
        self._is_reported = network.settings.advertisements or network.protocol_name == "flood"
        """Whether publishers say what brokers that died had acknowledged, so that somebody knows of it."""

    # What is known

    def _look(self) -> None:
        """Note that nothing is wrong, if so."""
        timeline, now = self.network.timeline, self.network.now
        if timeline.is_quiet and now >= timeline.last_end + self._recovered:
            self._last_calm = now
            parts = timeline.parts
            self._reach = {client.name: parts.get(client.home, frozenset()) for client in self._clients()}
            self._homes = {client.name: client.home for client in self._clients()}

    def _clients(self) -> Iterable[WholeClient]:
        return self.network.clients.values()

    def _is_known(self, publisher: WholeClient, client: WholeClient, key: Key, predicate: Predicate) -> bool:
        """Whether a subscription has had the time to reach its publisher's broker while nothing was wrong."""
        if not self._is_taken(client, key, predicate):
            return False
        at, _predicate = self._taken[client.name, key]
        if max(at, publisher.advertised_at) + _SPREAD > self._last_calm:
            return False
        return self._homes.get(client.name) in self._reach.get(publisher.name, frozenset())

    def _is_taken(self, client: WholeClient, key: Key, predicate: Predicate) -> bool:
        """Whether a client's own broker has taken a subscription."""
        at, taken = self._taken.get((client.name, key), (0.0, None))
        return taken == predicate and at >= client.since

    # Looking on

    def on_fault(self, what: str, broker: str, link: str, about: dict[str, object], now: float) -> None:  # noqa: D102
        self._look()

    def on_subscribed(self, client: Client, key: Key, now: float) -> None:  # noqa: D102
        predicate = client.subscriptions.get(key)
        if predicate is not None:
            self._taken[client.name, key] = now, predicate
            self._filters.setdefault((client.name, key), []).append((now, predicate))

    def on_publish(self, client: Client, publish: Publish, now: float) -> None:  # noqa: D102
        self._look()
        assert isinstance(client, WholeClient)  # noqa: S101 - for the type checker
        self._sent[publish.name] = sent = Sent(client, publish, now)
        sent.known_at = self._last_calm
        sent.known_home = self._homes.get(client.name, "")
        wanted: list[Who] = []
        hoped = self._hoped[publish.name] = []
        for other in self._clients():
            for key, predicate in other.subscriptions.items():
                if not predicate.matches(publish.event):
                    continue
                if self._is_known(client, other, key, predicate):
                    wanted.append((other.who, key))
                elif self._is_taken(other, key, predicate):
                    hoped.append(((other.who, key), other.name, key))
        self._ledger.publish(publish.name, wanted)

    def on_settled(  # noqa: D102
        self, client: Client, name: tuple[str, int], error: Exception | None, now: float
    ) -> None:
        sent = self._sent.get(name)
        if sent is not None:
            sent.settled_at, sent.error = now, error
            sent.homes.append(sent.client.home)

    def on_notice(self, client: Client, notice: Notice, now: float) -> None:  # noqa: D102
        self._told.setdefault(client.name, []).append((now, notice.kind))
        self._numbers.append((now, notice.kind, notice.count))
        if notice.kind == "missed":
            self._look_at_missed(client, notice.count, now)

    def _look_at_missed(self, client: Client, count: int, now: float) -> None:
        """A connection that breaks and can be made again at once loses nothing, so that nothing is missed."""
        times = self.network.times
        window = self._recovered + times.linger + ANSWERED_KEEPS * times.kept
        faults = list(self.network.timeline.during(now - window, now))
        kinds = {fault.kind for fault in faults} - {"drain"}
        cause = "nothing" if not kinds else kinds.pop() if len(kinds) == 1 else "several kinds"
        self._missed.append((client.name, now, cause + self._circumstance(faults), count))
        if not self._last_calm:
            # Brokers of a network that begins are still finding each other.
            return
        if all(fault.kind == "sever" and client.name in fault.about for fault in faults):
            why = "its connection broke, and could be made again at once" if faults else "nothing had failed"
            self._wrong.append(f"{client.name} was told at {now:.3f} that it missed something, though {why}")

    def _circumstance(self, faults: list[Fault]) -> str:
        """What else matters: the protocol, or that publishers cannot report what was acknowledged."""
        if self.network.protocol_name == "flood":
            return ", under flood"
        ended = {name for fault in faults if fault.kind in _ENDING for name in fault.about}
        if any(client.is_gateway and client.home in ended for client in self._clients()):
            return ", with clients over HTTP"
        return "" if self.network.settings.advertisements else ", without advertisements"

    def on_deliver(  # noqa: D102
        self, client: Client, publish: Publish, keys: tuple[Key, ...], now: float, late: bool
    ) -> None:
        for key in keys:
            self._ledger.deliver((client.who, key), publish.name, late=late)
        sent = self._sent.get(publish.name)
        if sent is not None and sent.event != publish.event:
            self._wrong.append(f"{client.name} got {publish.event} in place of {_called(sent)}")
        if sent is not None and sent.settled_at is not None:
            assert isinstance(client, WholeClient)  # noqa: S101 - for the type checker
            self._look_at_old(sent, sent.settled_at, client, keys, now)

    def _look_at_old(
        self, sent: Sent, settled_at: float, client: WholeClient, keys: tuple[Key, ...], now: float
    ) -> None:
        """What was settled before a subscription was made comes only if it was still on its way."""
        on_its_way = self.network.times.resume + _SPREAD + CLOCKS_SHARE * (now - sent.at)
        old = [key for key in keys if client.made_at[key] > settled_at + on_its_way]
        if old and not any(fault.kind in _HOLDING_UP for fault in self.network.timeline.during(sent.at, now)):
            called = f"{_called(sent)}, acknowledged at {settled_at:.3f}"
            self._wrong.append(f"{client.name} got {called}, for {old}, which it asked for later")

    # Judging

    def at_rest(self) -> Iterator[str]:
        """Say what is wrong with events that were published since the network was last at rest."""
        yield from self._wrong
        self._wrong = []
        for sent in self._sent.values():
            if sent.settled_at is None and not self._is_another(sent.client, sent.at):
                yield f"{_called(sent)} was never acknowledged"
        self._void = 0
        self._look_at_hoped()
        tally, found = self._ledger.judge(self._excuses)
        self.checked += tally.expected - self._void
        for finding in found:
            yield from self._told_of(finding)
        yield from self._uncounted()
        self.excused["missed, told"] += len(self._missed)
        # Whoever was told before it missed anything was told in vain.
        in_vain = [
            (cause, count)
            for name, at, cause, count in self._missed
            if at < self._missing.get(name, _FOREVER)
        ]
        self.excused["missed, told in vain"] += len(in_vain)
        self.missed.update(cause for _name, _at, cause, _count in self._missed)
        self.missed_in_vain.update(cause for cause, _count in in_vain)
        self.missed_with_count.update(cause for cause, count in in_vain if count)
        self._missed, self._missing, self._hoped = [], {}, {}
        self._judged |= self._sent.keys()
        self._sent.clear()

    def _look_at_hoped(self) -> None:
        """Note what clients missed that nobody had to send them: to be told of it is not in vain."""
        for name, hoped in self._hoped.items():
            sent, got = self._sent[name], set(self._ledger.got(cast(Name, name)))
            if sent.settled_at is None or sent.error is not None:
                continue
            for who, called, key in hoped:
                client = self.network.clients[called]
                is_same = who == (client.who, key)
                if is_same and who not in got and self._is_wanted_still(sent, client, key):
                    self._note_missing(client, sent)

    def _note_missing(self, client: WholeClient, sent: Sent) -> None:
        self._missing[client.name] = min(sent.at, self._missing.get(client.name, _FOREVER))

    def _told_of(self, finding: Finding) -> Iterator[str]:
        """A finding in words. That somebody got what was not known to be wanted is no mistake as such."""
        who, key = cast(tuple[str, Key], finding.who)
        sent = self._sent.get(finding.name)
        if sent is None:
            if finding.name not in self._judged:
                yield f"{who} got {finding.name}, which nobody has published"
            else:
                yield f"{who} got {finding.name} when the network should long have been at rest"
        elif finding.sort == "twice":
            yield f"{who} got {_called(sent)} twice for {key}"
        elif finding.sort == "missed":
            acked = f"acknowledged at {sent.settled_at:.3f}"
            yield f"{who} did not get {_called(sent)} for {key}, {acked}, and was not told"

    def _excuses(self, name: Name, who: Who) -> bool:
        """Whether an event need not have come, by the contract."""
        sent = self._sent[name]
        called, key = cast(tuple[str, Key], who)
        client = self.network.clients[called.rstrip("'")]
        if sent.settled_at is None or sent.error is not None or client.who != called:
            self._void += 1
            return True
        # What was taken back meanwhile, or wanted no more, may have come or not.
        if not self._is_wanted_still(sent, client, key):
            self._void += 1
            return True
        excuse = self._excuse(sent, sent.settled_at, client)
        if excuse:
            self.excused[excuse] += 1
            self._note_missing(client, sent)
        if excuse == "told":
            self._lost.add((client.name, name))
        return bool(excuse)

    def _is_wanted_still(self, sent: Sent, client: WholeClient, key: Key) -> bool:
        """Whether a subscription was there all the time since an event, and its filters have matched that."""
        if key not in client.subscriptions or client.made_at[key] > sent.at:
            return False
        if client.subscriptions[key] != self._taken[client.name, key][1]:
            return False
        return all(
            predicate.matches(sent.event)
            for at, predicate in self._filters[client.name, key]
            if at >= sent.at
        )

    def _uncounted(self) -> Iterator[str]:
        """What was acknowledged and missed is counted by a broker, unless the broker is no more."""
        nodes = [whole.node for whole in self.network.nodes.values() if whole.node]
        counted: Counter[str] = Counter()
        for node in nodes:
            counted.update(node.runtime.lost)
        yield from self._told_and_uncounted(counted)
        died = any(fault.kind in _ENDING for fault in self.network.timeline.faults)
        # Of those who stayed out of reach, nobody knows how many it was.
        if len(self._lost) > counted.total() and not died and not counted["unreachable"]:
            missed = f"{len(self._lost)} acknowledged events were missed"
            yield f"{missed}, and brokers count {counted.total()} as lost"

    def _told_and_uncounted(self, counted: Counter[str]) -> Iterator[str]:
        """By reason: of as many events as brokers have told clients, since one of them last ended."""
        drain = self.network.times.drain + _REJOINING
        faults = [fault for fault in self.network.timeline.faults if fault.kind in _ENDING]
        ends = (fault.ended if fault.ended < _FOREVER else fault.began + drain for fault in faults)
        ended = max(ends, default=-_FOREVER)
        for kind, reasons in _REASONS.items():
            told = sum(count for at, one, count in self._numbers if at > ended and one == kind)
            found = sum(counted[reason] for reason in reasons)
            if told > found:
                yield f"clients were told `{kind}` of {told} events, and brokers count {found} as lost"

    def _excuse(self, sent: Sent, settled_at: float, client: WholeClient) -> str:
        """Why the contract lets a client miss an event; "" if it does not."""
        if self._is_rescued(sent, settled_at, client):
            return ""
        if self._is_told(client, sent):
            return "told"
        if any(at >= sent.at and kind == "lost" for at, kind in self._told.get(sent.client.name, ())):
            return "publisher told"
        if self._is_nobody_left(sent, client):
            return "nobody left"
        return "moved apart" if self._is_apart_for_good(sent, settled_at, client) else ""

    def _is_told(self, client: WholeClient, sent: Sent) -> bool:
        """Whether a client was told after an event that something was missed, or was paused at that time."""
        told = self._told.get(client.name, [])
        before = [kind for at, kind in told if at < sent.at and kind in _TELLING]
        return before[-1:] == ["paused"] or any(at >= sent.at and kind in _TELLING for at, kind in told)

    def _is_rescued(self, sent: Sent, settled_at: float, client: WholeClient) -> bool:
        """Whether nothing may be lost even so: only one broker died, and the client went on in time."""
        timeline = self.network.timeline
        faults = [f for f in timeline.during(sent.at, settled_at, self._recovered) if f.kind != "drain"]
        if len(faults) != 1 or faults[0].kind not in ("crash", "stop"):
            return False
        died, (broker,) = faults[0].began, faults[0].about
        if faults[0].ended - died < self._patience + self._recovered:
            # It was back while it was still missed.
            return False
        homes = []
        for one in (sent.client, client):
            at, home = one.home_after(died, broker)
            if home == broker or at > died + self._patience - _IN_TIME:
                return False
            homes.append(home)
        return not any(
            began <= settled_at and ended >= died for began, ended in timeline.apart(homes[0], homes[1])
        )

    def _is_nobody_left(self, sent: Sent, client: WholeClient) -> bool:
        """Whether all are dead who knew of an event: publisher, its broker, and the broker of the client.

        Without advertisements some of what publishers say may come too late; one of the gateway ends with
        its broker.
        """
        publisher = sent.client
        speaks = self._is_reported and not publisher.is_gateway
        if speaks and not self._is_another(publisher, sent.at):
            return False
        died = {
            broker
            for fault in self.network.timeline.faults
            if fault.kind in _ENDING and fault.began >= sent.at - self._patience
            for broker in fault.about
        }
        if sent.homes[-1] not in died:
            return False
        at_home = client.brokers_since(sent.at - self._patience)
        return not died.isdisjoint(at_home) or self._was_dead_before(sent, client)

    def _was_dead_before(self, sent: Sent, client: WholeClient) -> bool:
        """Whether the client's broker was dead when an event was published, and until its publisher's died.

        Meanwhile the client was nowhere else.
        """
        deaths = [fault for fault in self.network.timeline.faults if fault.kind in _ENDING]
        home = sent.homes[-1]
        lost_at = min((f.began for f in deaths if home in f.about and f.began >= sent.at), default=_FOREVER)
        own = client.brokers_since(sent.at)[:1]
        return not client.moves(sent.at, lost_at) and any(
            list(fault.about) == own and fault.began <= sent.at and fault.ended >= lost_at for fault in deaths
        )

    def _is_apart_for_good(self, sent: Sent, settled_at: float, client: WholeClient) -> bool:
        """Whether the publisher went to another broker, which nobody could ever tell of this client."""
        home = sent.homes[-1]
        return home != sent.known_home and all(
            any(began <= settled_at and ended == _FOREVER for began, ended in apart)
            for broker in client.brokers_since(settled_at)
            for apart in [list(self.network.timeline.apart(home, broker))]
        )

    def _is_another(self, client: WholeClient, since: float) -> bool:
        """Whether a client is another one than then."""
        return client.since >= since


class Idle(WholeChecker):
    """At rest nothing is under way: every frame is acknowledged, and nothing waits to be sent again."""

    holds: ClassVar[tuple[str, ...]] = (
        "At rest, every frame of events is acknowledged that no reader holds, "
        "and nothing waits to be sent again.",
    )

    def at_rest(self) -> Iterator[str]:
        """Say where something is left."""
        for name, whole in self.network.nodes.items():
            node = whole.node
            if node is None or whole.broker is None:
                continue
            runtime = node.runtime
            if not runtime.passing.is_idle:
                yield f"{name} still has events to send again"
            for link in runtime.links.values():
                reader = self.network.clients.get(link.peer) if link.is_client else None
                if reader is not None and reader.holds_events:
                    continue
                left = link.session.queued_bytes - link.session.message_bytes
                if link.phase is LinkPhase.UP and (left or link.held):
                    yield f"{name} has {left} bytes of events for {link.peer} that are not acknowledged"


def _called(sent: Sent) -> str:
    origin, number = sent.name
    return f"{sent.event!s:.80} ({sent.client.name}, {origin[-8:]} {number}, published at {sent.at:.3f})"
