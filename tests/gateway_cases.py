"""A broker in memory, which compares every event with every subscription; gateways; CloudEvents."""

import asyncio
import base64
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from hypothesis import strategies as st
from starlette.types import ASGIApp

from penstock.errors import AccessError, FilterError, LimitError, NetworkError
from penstock.filters.parsing import parse
from penstock.filters.predicate import Predicate
from penstock.filters.relations import covers
from penstock.model.events import Event
from penstock.model.values import Time
from penstock.net.gateway.app import build_app
from penstock.net.gateway.context import Context
from penstock.net.gateway.ports import GatewayLimits
from penstock.net.gateway.server import Gateway

EVERYTHING = parse("true")
MINIMAL = {"specversion": "1.0", "id": "a1", "source": "/s", "type": "t"}

context_texts = st.text(st.characters(exclude_categories=("Cc", "Cs", "Cn")), min_size=1, max_size=12)
extension_names = st.from_regex(r"[a-z0-9]{1,12}", fullmatch=True).filter(
    lambda n: n not in (*MINIMAL, "data", "time", "subject", "dataschema", "datacontenttype")
)
extensions = st.dictionaries(
    extension_names,
    st.one_of(st.booleans(), st.integers(-(2**31), 2**31 - 1), context_texts),
    max_size=3,
)
texts = st.text(max_size=12)
scalars = st.one_of(
    st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False), texts
)
undotted = texts.filter(lambda n: n and "." not in n)
objects = st.recursive(
    st.dictionaries(undotted, scalars, min_size=1, max_size=3),
    lambda inner: st.dictionaries(undotted, st.one_of(scalars, inner), min_size=1, max_size=3),
    max_leaves=6,
)
times = st.integers(-(2**63), 2**63 - 1).map(Time)
dotted_names = st.text(st.sampled_from("ab.é"), min_size=1, max_size=12)
flat_events = st.dictionaries(dotted_names, scalars, min_size=1, max_size=8)


@st.composite
def cloudevents(draw: st.DrawFn) -> dict[str, Any]:
    document: dict[str, Any] = dict(MINIMAL, id=draw(context_texts), source=draw(context_texts))
    document["type"] = draw(context_texts)
    for name in draw(st.sets(st.sampled_from(("subject", "dataschema", "datacontenttype")))):
        document[name] = draw(context_texts)
    if draw(st.booleans()):
        document["time"] = str(draw(times))
    document.update(draw(extensions))
    kind = draw(st.sampled_from(("none", "scalar", "object", "bytes")))
    if kind == "bytes":
        document["data_base64"] = base64.b64encode(draw(st.binary(max_size=20))).decode()
    elif kind != "none":
        document["data"] = draw(scalars if kind == "scalar" else objects)
    return document


@dataclass
class Rights:
    """What a token allows."""

    subscribe: Predicate = EVERYTHING
    advertise: Predicate = EVERYTHING
    monitor: bool = True


@dataclass
class FakeDelivery:
    event: Event
    origin: str
    number: int


class FakeSubscription:
    def __init__(self, connection: "FakeConnection", predicate: Predicate) -> None:
        self.connection = connection
        self.predicate = predicate
        self.queue: asyncio.Queue[FakeDelivery | None] = asyncio.Queue()
        if connection.broker.ends_at_once:
            # One event, so that who waits for it does not have to.
            self.queue.put_nowait(FakeDelivery(Event({"x": 1}), "p", 1))
            self.queue.put_nowait(None)

    async def __aiter__(self) -> AsyncIterator[FakeDelivery]:
        while (delivery := await self.queue.get()) is not None:
            yield delivery

    async def change(self, text: str, /) -> None:
        predicate = await self.connection.parsed(text)
        self.connection.check(predicate, self.connection.rights.subscribe)
        self.predicate = predicate

    async def unsubscribe(self) -> None:
        self.connection.broker.subscriptions.remove(self)
        self.queue.put_nowait(None)


class FakeAdvertisement:
    def __init__(self, connection: "FakeConnection", predicate: Predicate) -> None:
        self.connection = connection
        self.predicate = predicate

    async def withdraw(self) -> None:
        self.connection.broker.advertisements.remove(self)


class FakeConnection:
    def __init__(self, broker: "FakeBroker", rights: Rights, name: str) -> None:
        self.broker = broker
        self.rights = rights
        self.name = f"{name}-{len(broker.connections)}"
        self.number = 0
        self.is_connected = True

    def check(self, predicate: Predicate, granted: Predicate) -> None:
        if not self.is_connected:
            raise NetworkError("the connection is closed")
        if not covers(granted, predicate):
            raise AccessError("this token does not allow that")

    async def publish_many(self, events: Sequence[Event], /, *, ack: str = "accepted") -> None:
        await self.broker.gate.wait()
        if not self.is_connected:
            raise NetworkError("the connection is closed")
        if self.broker.quota is not None and len(self.broker.events) + len(events) > self.broker.quota:
            raise LimitError("too many events", "events_per_second", self.broker.quota)
        if any(not self.rights.advertise.matches(event) for event in events):
            raise AccessError("this token does not allow to publish that")
        for event in events:
            self.number += 1
            self.broker.publish(FakeDelivery(event, self.name, self.number))

    async def parsed(self, text: str) -> Predicate:
        self.broker.parsed.append(text)
        try:
            return await asyncio.to_thread(parse, text)
        except LimitError as error:
            # As a broker answers it.
            raise FilterError(str(error)) from None

    async def subscribe(self, text: str, /) -> FakeSubscription:
        predicate = await self.parsed(text)
        self.check(predicate, self.rights.subscribe)
        subscription = FakeSubscription(self, predicate)
        self.broker.subscriptions.append(subscription)
        return subscription

    async def advertise(self, text: str, /) -> FakeAdvertisement:
        predicate = await self.parsed(text)
        self.check(predicate, self.rights.advertise)
        advertisement = FakeAdvertisement(self, predicate)
        self.broker.advertisements.append(advertisement)
        return advertisement

    async def close(self) -> None:
        self.is_connected = False
        for subscription in [s for s in self.broker.subscriptions if s.connection is self]:
            await subscription.unsubscribe()
        ours = [a for a in self.broker.advertisements if a.connection is self]
        for advertisement in ours:
            await advertisement.withdraw()


@dataclass
class FakeBroker:
    """The connector. With `tokens`, one of these is needed; `gate` holds what is published back."""

    broker: str = "b1"
    tokens: dict[str, Rights] | None = None
    quota: int | None = None
    ends_at_once: bool = False
    ready: bool = True
    events: list[Event] = field(default_factory=list)
    connections: list[FakeConnection] = field(default_factory=list)
    subscriptions: list[FakeSubscription] = field(default_factory=list)
    advertisements: list[FakeAdvertisement] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    links: list[dict[str, Any]] = field(default_factory=list)
    parsed: list[str] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.gate.set()

    async def connect(self, token: str | None, name: str, address: str = "") -> FakeConnection:
        self.addresses.append(address)
        if self.tokens is not None and token not in self.tokens:
            raise AccessError("the token is no good")
        rights = Rights() if self.tokens is None else self.tokens[token or ""]
        connection = FakeConnection(self, rights, name)
        self.connections.append(connection)
        return connection

    def may(self, token: str | None, verb: str) -> bool:
        if self.tokens is not None and token not in self.tokens:
            raise AccessError("the token is no good")
        granted = EVERYTHING if self.tokens is None else getattr(self.tokens[token or ""], verb)
        return bool(granted.satisfiable)

    def publish(self, delivery: FakeDelivery) -> None:
        self.events.append(delivery.event)
        for subscription in self.subscriptions:
            if subscription.predicate.matches(delivery.event):
                subscription.queue.put_nowait(delivery)

    def open_connections(self) -> list[FakeConnection]:
        return [connection for connection in self.connections if connection.is_connected]

    def status(self) -> dict[str, Any]:
        return {
            "name": self.broker,
            "version": "0.1.0",
            "uptime_s": 1.5,
            "scheme": "covering",
            "urls": ["penstock://127.0.0.1:7400"],
            "draining": not self.ready,
            "links": self.links,
            "clients": [{"name": c.name, "slow": False} for c in self.open_connections()],
            "table": {"subscriptions": len(self.subscriptions), "filters": 0, "trees": 0},
            "counts": {"events_in": len(self.events), "events_out": 0},
        }

    def is_ready(self) -> bool:
        return self.ready

    def may_monitor(self, token: str | None) -> bool:
        return self.tokens is None or (token in self.tokens and self.tokens[token].monitor)


@dataclass
class FakeConfig:
    listen: str = "http://127.0.0.1:0"
    origins: Sequence[str] = ()
    cert: str | None = None
    key: str | None = None


def app_of(
    broker: FakeBroker, limits: GatewayLimits | None = None, *, listen: str = "", origins: Iterable[str] = ()
) -> ASGIApp:
    """A gateway without a socket."""
    return build_app(Context(broker, limits or GatewayLimits()), listen, list(origins))


def client_of(app: ASGIApp, base_url: str = "http://127.0.0.1:7480") -> httpx.AsyncClient:
    """A client of a gateway without a socket."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=base_url)


async def ask(app: ASGIApp, method: str, path: str, **request: Any) -> httpx.Response:
    """One request to a gateway without a socket."""
    async with client_of(app) as client:
        return await client.request(method, path, **request)


def post(
    app: ASGIApp, content: Any, content_type: str | None, headers: dict[str, str] | None = None
) -> httpx.Response:
    """One POST to /events, from outside any loop."""
    types = {} if content_type is None else {"content-type": content_type}
    return asyncio.run(ask(app, "POST", "/events", content=content, headers={**types, **(headers or {})}))


def get(app: ASGIApp, path: str, headers: dict[str, str] | None = None) -> httpx.Response:
    """One GET, from outside any loop."""
    return asyncio.run(ask(app, "GET", path, headers=headers or {}))


@asynccontextmanager
async def serving(
    broker: FakeBroker, config: FakeConfig | None = None, limits: GatewayLimits | None = None
) -> AsyncIterator[str]:
    """A gateway on a socket, and its URL."""
    gateway = Gateway(config or FakeConfig(), broker, limits)
    url = await gateway.start()
    try:
        yield url
    finally:
        await gateway.stop()
