"""RabbitMQ as a party. Its filters are bindings of a headers exchange, which tries them one by one."""

import asyncio
import re
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec

from penstock.bench.network.party import Brokers, Publisher, Take, find_program, lacks, require
from penstock.bench.network.servers import Process, answers, free_ports
from penstock.bench.network.workload import TOPIC, Job, Topic, Workload
from penstock.errors import PenstockError

_SERVER: Final = "rabbitmq-server"
_FOLDERS: Final = ("/usr/lib/rabbitmq/bin",)
"""Looked in first: what Debian has on the path changes user, and with it all our settings."""
_EXCHANGE: Final = "penstock-bench"
_GOODBYE: Final = 200
"""The code of a connection that was closed as it should be."""
_VERSION: Final = re.compile(r"RabbitMQ (\d[\w.+-]*)")


class RabbitMQ:
    """All bindings lead to one queue, in which an event that several of them match stands once."""

    name: ClassVar[str] = "rabbitmq"
    jobs: ClassVar[tuple[Job, ...]] = ("equalities",)
    once: ClassVar[bool] = True
    brokers_max: ClassVar[int] = 1
    batching: ClassVar[str] = (
        "basic_publish of transient messages; one queue, automatic acks, no prefetch limit"
    )

    def missing(self) -> str | None:
        """Whether server and client are there."""
        return lacks(find_program(_SERVER, _FOLDERS), _SERVER, "pika")

    def start(self, folder: Path, brokers: int) -> Brokers:
        """Start a node of its own, without plugins, with a port mapper of its own."""
        return _Broker(folder)

    async def publisher(self, url: str) -> Publisher:
        """Connect a client that publishes."""
        client = await _connect(url)
        await client.call(client.channel.exchange_declare, _EXCHANGE, "headers")
        return _Publisher(client)

    async def receive(self, url: str, workload: Workload, take: Take, ready: asyncio.Event) -> None:
        """Bind a queue for each subscription, and consume it."""
        decode = msgspec.msgpack.Decoder().decode

        def on_message(_channel: object, _method: object, _properties: object, body: bytes) -> None:
            event = decode(body)
            take(event["seq"], event["sent"])

        client = await _connect(url)
        try:
            channel = client.channel
            await client.call(channel.exchange_declare, _EXCHANGE, "headers")
            declared = await client.call(channel.queue_declare, "", exclusive=True)
            queue = declared.method.queue
            for topic in workload.topics:
                # Without waiting for each; they are taken in order.
                channel.queue_bind(queue, _EXCHANGE, arguments=binding(topic))
                await asyncio.sleep(0)
            await client.call(channel.basic_consume, queue, on_message, auto_ack=True)
            ready.set()
            await client.closed
        finally:
            await client.close()


def binding(topic: Topic) -> dict[str, str]:
    """The arguments of a binding for what a subscription asks for."""
    asked = {name: value for name, value in zip(TOPIC, topic, strict=True) if value is not None}
    return {"x-match": "all", **asked}


class _Broker:
    def __init__(self, folder: Path) -> None:
        port, between, mapper = free_ports(3)
        self.url = self.far_url = f"amqp://guest:guest@127.0.0.1:{port}/%2F"
        self._running: list[Process] = []
        settings = _settings(folder, port, between, mapper)
        try:
            # Started by us, in the foreground: the one that a node starts by itself outlives the node.
            epmd = require(find_program("epmd", ("/usr/lib/erlang/bin",)), "erlang-base")
            names = Process("epmd", (epmd, "-port", str(mapper), "-address", "127.0.0.1"), folder, settings)
            self._running.append(names)
            names.wait_for(lambda: answers(mapper))
            server = require(find_program(_SERVER, _FOLDERS), _SERVER)
            node = Process("rabbitmq-server", (server,), folder, settings)
            self._running.append(node)
            node.wait_for(lambda: "Starting broker... completed" in node.said() or None)
            node.wait_for(lambda: answers(port))
            found = _VERSION.search(node.said())
            self.version = found[1] if found else "of unknown version"
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        for process in reversed(self._running):
            process.stop()


def _settings(folder: Path, port: int, between: int, mapper: int) -> dict[str, str]:
    """The environment of a node that shares nothing with another one on this machine."""
    for name, content in (("rabbitmq.conf", ""), ("plugins", "[]."), ("environment", "")):
        (folder / name).write_text(content)
    return {
        "HOME": str(folder),
        "RABBITMQ_NODENAME": "penstock-bench@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(between),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": str(mapper),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_PID_FILE": str(folder / "rabbitmq.pid"),
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_CONF_ENV_FILE": str(folder / "environment"),
    }


class _Publisher:
    def __init__(self, client: "_Client") -> None:
        import pika

        self._client = client
        self._properties = pika.BasicProperties
        self._encode = msgspec.msgpack.Encoder().encode

    async def publish(self, events: list[dict[str, str | int | float]]) -> None:
        for event in events:
            properties = self._properties(headers={name: event[name] for name in TOPIC}, delivery_mode=1)
            self._client.channel.basic_publish(_EXCHANGE, "", self._encode(event), properties)
        # The client writes when the event loop has time.
        await asyncio.sleep(0)

    async def flush(self) -> None:
        """Ask for something that is answered after all that was sent before."""
        await self._client.call(self._client.channel.exchange_declare, _EXCHANGE, "headers")

    async def close(self) -> None:
        await self._client.close()


class _Client:
    """A connection with one channel: pika's callbacks as futures."""

    def __init__(self, connection: Any, channel: Any, closed: "asyncio.Future[None]") -> None:
        self._connection = connection
        self.channel = channel
        self.closed = closed

    async def call(self, method: Any, *arguments: object, **more: object) -> Any:
        """Call a method of the channel, and wait for the broker's answer."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        method(*arguments, **more, callback=lambda frame: _resolve(answer, frame))
        await asyncio.wait((answer, self.closed), return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            await self.closed
        return answer.result()

    async def close(self) -> None:
        """Close the connection, if it is not closed yet."""
        if not self.closed.done():
            self._connection.close()
            await asyncio.wait((self.closed,), timeout=5)


def _resolve(future: "asyncio.Future[Any]", value: object) -> None:
    if not future.done():
        future.set_result(value)


async def _connect(url: str) -> _Client:
    import pika
    from pika.adapters.asyncio_connection import AsyncioConnection

    loop = asyncio.get_running_loop()
    opened: asyncio.Future[Any] = loop.create_future()
    closed: asyncio.Future[None] = loop.create_future()
    # Whoever does not wait for it need not be told of it.
    closed.add_done_callback(lambda done: done.cancelled() or done.exception())

    def fail(_connection: object, error: object) -> None:
        for future in (opened, closed):
            if not future.done():
                future.set_exception(PenstockError(f"RabbitMQ's connection was closed: {error!r:.200}"))

    def on_close(_connection: object, error: Any) -> None:
        if getattr(error, "reply_code", 0) == _GOODBYE:
            _resolve(closed, None)
        fail(_connection, error)

    parameters = pika.URLParameters(url)
    connection = AsyncioConnection(
        parameters,
        on_open_callback=lambda made: made.channel(on_open_callback=lambda c: _resolve(opened, c)),
        on_open_error_callback=fail,
        on_close_callback=on_close,
        custom_ioloop=loop,
    )
    channel = await asyncio.wait_for(opened, 30)
    return _Client(connection, channel, closed)
