"""A client under virtual time: the core that programs use, what it is given, and what it is told."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from penstock.broker.local import LinkUp
from penstock.filters.predicate import Predicate
from penstock.model.events import Event
from penstock.model.names import Key
from penstock.model.packed import decode_event, encode_event
from penstock.node.client.core import ClientCore
from penstock.node.client.notices import Notice
from penstock.node.naming import client_link, client_origin
from penstock.sim.clients import Client
from penstock.sim.whole.process import Process
from penstock.wire.blocks import Block, Header
from penstock.wire.messages import Publish
from penstock.wire.sessions import Custody, Stage

if TYPE_CHECKING:
    from penstock.sim.whole.network import WholeNetwork

_TRY_AGAIN: Final = 1.0
"""A program whose first broker does not answer tries again after so long."""


class _Core(ClientCore):
    """Tells when a frame of events has been handed out, so that an event is seen once for all its keys."""

    after_receiving: Callable[[], None]
    after_failing: Callable[[], None]

    def receive(self, number: int, block: Block) -> None:
        """Hand out the events of a block."""
        super().receive(number, block)
        self.after_receiving()

    def fail(self, error: Exception) -> None:
        """It is over."""
        super().fail(error)
        self.after_failing()


class _Sink:
    """Where the events of one subscription go."""

    def __init__(self, client: "WholeClient", key: Key) -> None:
        self._client = client
        self._key = key

    def put(self, data: bytes, header: Header, number: int, late: bool, custody: Custody) -> None:
        self._client.take_event(self._key, data, header, number, late, custody)

    def end(self, error: Exception | None = None) -> None:
        """The core is over, which its owner knows."""


class WholeClient(Client):
    """A program with a client in it.

    `brokers` are those of its list. `lag`: for how long it keeps each event before it acknowledges it. With
    `hold` it acknowledges by hand, as with `ack="manual"`: late, some events, or none. A client of a gateway
    lives in its broker's process, makes no second connection, and is dropped if slow.
    """

    def __init__(
        self,
        network: "WholeNetwork",
        name: str,
        brokers: list[str],
        process: Process,
        *,
        is_gateway: bool = False,
    ) -> None:
        self.brokers = brokers
        super().__init__(name, brokers[0])
        self.process = process
        self.is_gateway = is_gateway
        self.lag = 0.0
        self.waits_for = Stage(3 - len(network.clients) % 3)
        """What acknowledges its events. All stages are in use among a few clients."""
        self.held_share: float | None = None
        """The share of events that it acknowledges, of a reader that does so by hand."""
        self.hold_seconds = 0.0
        """How long it holds those that it does acknowledge."""
        self._holds: list[Custody] = []
        """Events that it does not acknowledge."""
        self.since = network.now
        """When it became the client that it is."""
        self.made_at: dict[Key, float] = {}
        """When it last subscribed under each key."""
        self.advertised_at = 0.0
        """When it last changed what it advertises."""
        self._homes: list[tuple[float, str]] = []
        self._network = network
        self._keys: dict[tuple[str, Key], int] = {}
        self._got: dict[tuple[str, int], tuple[bytes, Header, bool, list[Key]]] = {}
        self.asked_at: dict[Key, float] = {}
        """When it last asked for a subscription."""
        self._implied = ""
        self.core = self._new_core()

    def _new_core(self) -> ClientCore:
        core = _Core(
            self.process,
            self.brokers,
            name=self.name,
            when_slow="drop" if self.is_gateway else "pause",
            reconnect=not self.is_gateway,
            timeout=5.0,
            on_notice=self._noticed,
        )
        core.after_receiving = self._received
        core.after_failing = self._over
        core.open(self._opened, self._failed)
        return core

    def _opened(self) -> None:
        self._homes.append((self._network.now, self.home))
        if not self._network.settings.advertisements:
            self.core.advertise_granted(self._imply, self._broken)

    def _imply(self, key: str) -> None:
        self._implied = key

    def _failed(self, _error: Exception) -> None:
        """No broker answers: a program would be started again."""
        self.process.call_later(_TRY_AGAIN, self._reopen)

    def _reopen(self) -> None:
        self.core.open(self._opened, self._failed)

    def _over(self) -> None:
        """The connection is lost for good: whoever uses a gateway connects anew."""
        self.process.call_later(_TRY_AGAIN, self.come_back, self.process)

    def _broken(self, _error: Exception) -> None:
        """It is over."""

    def brokers_since(self, time: float) -> list[str]:
        """The brokers that it has been connected to since a time, the one at that time among them."""
        before = [broker for at, broker in self._homes if at <= time][-1:]
        return list(dict.fromkeys([*before, *(broker for at, broker in self._homes if at > time)]))

    def home_after(self, time: float, broker: str) -> tuple[float, str]:
        """Where it was at a time; if with this broker, then when and where it was next."""
        before = [home for at, home in self._homes if at <= time][-1:]
        if before and before[0] != broker:
            return time, before[0]
        after = ((at, home) for at, home in self._homes if at > time)
        return next(after, (float("inf"), broker))

    def moves(self, begin: float, end: float) -> list[tuple[float, str]]:
        """When it went to another broker in a time, and to which."""
        moved = [
            (at, broker)
            for (at, broker), (_at, before) in zip(self._homes[1:], self._homes, strict=False)
            if broker != before
        ]
        return [(at, broker) for at, broker in moved if begin <= at <= end]

    def _noticed(self, notice: Notice) -> None:
        if notice.kind == "reconnected":
            self._homes.append((self._network.now, self.home))
        self._network.noticed(self, notice)

    # Who it is

    @property
    def home(self) -> str:
        """The broker that it is connected to, or was last."""
        return (self.core.line.broker if hasattr(self, "core") else "") or self.brokers[0]

    @home.setter
    def home(self, _broker: str) -> None:
        """It goes where it can."""

    @property
    def is_connected(self) -> bool:
        """Whether it has a connection."""
        return self.core.line.is_connected

    @property
    def link(self) -> str:
        """What brokers call it."""
        return client_link(self.core.line.identity)

    def origin(self, key: str) -> str:
        """Who numbers the events that it publishes under a key, as brokers call it."""
        return f"{client_origin('', self.core.line.identity)}/{key}"

    def introduction(self) -> LinkUp:
        """Its broker makes one from its greeting."""
        raise NotImplementedError

    def come_back(self, process: Process) -> None:
        """Be another client, in another process, that wants the same: what a gateway's user makes anew."""
        self.process = process
        self.since = self._network.now
        self.who += "'"
        self._keys.clear()
        self._numbers.clear()
        self._holds.clear()
        self._implied = ""
        self.core = self._new_core()
        for key, predicate in self.advertisements.items():
            self.say_advertise(key, predicate)
        for key, predicate in self.subscriptions.items():
            self.say_subscribe(key, predicate)

    # What it does

    def say_advertise(self, key: Key, predicate: Predicate) -> None:
        """Advertise, or have another filter under the same key."""
        if self.core.line.is_closed:
            # It says everything when it comes back.
            return
        number = self._keys.setdefault(("a", key), self.core.new_key())
        self.core.advertise(number, predicate.to_sql(), lambda: None, self._broken)

    def say_unadvertise(self, key: Key) -> None:
        """Publish no more of it, once all that was published is acknowledged."""
        number = self._keys.pop(("a", key), None)
        if number is not None:
            self.core.take_back(number)

    def say_subscribe(self, key: Key, predicate: Predicate) -> None:
        """Subscribe, or have another filter under the same key."""
        if self.core.line.is_closed:
            return
        self.asked_at[key] = self._network.now
        known = self._keys.get(("s", key))
        text = predicate.to_sql()

        def done() -> None:
            self._network.subscribed(self, key)

        if known is not None:
            self.core.change(known, text, done, self._broken)
        else:
            number = self._keys["s", key] = self.core.new_key()
            self.made_at[key] = self._network.now
            self.core.subscribe(number, text, _Sink(self, key), done, self._broken)

    def say_unsubscribe(self, key: Key) -> None:
        """Want it no more."""
        number = self._keys.pop(("s", key), None)
        if number is not None:
            self.core.unsubscribe(number)

    def say_publish(self, event: Event, on_settled: Callable[[Exception | None], object]) -> Publish | None:
        """Publish an event; return it with the name that the network knows it by. None if it cannot be."""
        key = self._implied
        if self._network.settings.advertisements:
            if not self.advertisements:
                return None
            number = self._keys.get(("a", self.key_for(event)), 0)
            if number not in self.core.advertised:
                return None
            key = str(number)
        if not key or self.core.line.is_closed:
            return None
        self.core.outlet.put(key, encode_event(event), on_settled, self.waits_for)
        return Publish(event, Header("", self.origin(key)), self.next_number(key))

    # What comes

    def take_event(
        self, key: Key, data: bytes, header: Header, number: int, late: bool, custody: Custody
    ) -> None:
        """An event has come for a subscription."""
        if self.held_share is not None:
            custody.hold()
            if self.process.share() < self.held_share:
                self.process.call_later(self.hold_seconds, self._release, custody)
            else:
                self._holds.append(custody)
        elif self.lag:
            custody.hold()
            self.process.call_later(self.lag, self._release, custody)
        known = self._got.get((header.origin, number))
        if known is None:
            self._got[header.origin, number] = data, header, late, [key]
        else:
            known[3].append(key)

    def _release(self, custody: Custody) -> None:
        custody.release()
        self.core.line.acknowledge_soon()

    def hold(self, share: float, seconds: float) -> None:
        """Acknowledge by hand from now on: such a share of events, so long after they came."""
        self.held_share, self.hold_seconds = share, seconds

    def let_go(self) -> None:
        """Acknowledge all that was not, and from now on what comes."""
        self.held_share = None
        self.process.take(self._let_go)

    def _let_go(self) -> None:
        holds, self._holds = self._holds, []
        for custody in holds:
            self._release(custody)

    @property
    def holds_events(self) -> bool:
        """Whether it has events that it does not acknowledge."""
        return bool(self._holds)

    def _received(self) -> None:
        got, self._got = self._got, {}
        for (_origin, number), (data, header, late, keys) in got.items():
            publish = Publish(decode_event(data), header, number)
            self._network.delivered(self, publish, tuple(keys), late)
