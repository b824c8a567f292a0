"""NATS as a party. Its filters are patterns of subjects: attributes become the tokens of a subject."""

import asyncio
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec

from penstock.bench.network.party import (
    CHAIN_MAX,
    Brokers,
    Publisher,
    Take,
    find_program,
    lacks,
    require,
)
from penstock.bench.network.servers import Process, answers, free_ports
from penstock.bench.network.workload import TOPIC, Job, Topic, Workload

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

_SERVER: Final = "nats-server"
_LAST: Final = "penstock-bench-last"
"""The subject that is subscribed to after all others: where it is known, all of them are."""
_LOOK_S: Final = 0.2


class Nats:
    """An event goes to each subscription whose pattern its subject fits."""

    name: ClassVar[str] = "nats"
    jobs: ClassVar[tuple[Job, ...]] = ("equalities",)
    once: ClassVar[bool] = False
    brokers_max: ClassVar[int] = CHAIN_MAX
    batching: ClassVar[str] = "publish, flush at the end; a callback for each subscription"

    def missing(self) -> str | None:
        """Whether server and client are there."""
        return lacks(find_program(_SERVER), _SERVER, "nats")

    def start(self, folder: Path, brokers: int) -> Brokers:
        """Start servers that keep nothing on disk. In a chain, each is a leaf node of the one before.

        Routes would make a full mesh of them, through which everything takes one hop.
        """
        return _Brokers(folder, brokers)

    async def publisher(self, url: str) -> Publisher:
        """Connect a client that publishes, once the last subscription has come to its server."""
        from nats.errors import NoRespondersError
        from nats.errors import TimeoutError as LateError

        client = await _connect(url)
        while True:
            try:
                await client.request(_LAST, b"", timeout=_LOOK_S)
            except (NoRespondersError, LateError):
                await asyncio.sleep(_LOOK_S)
            else:
                return _Publisher(client)

    async def receive(self, url: str, workload: Workload, take: Take, ready: asyncio.Event) -> None:
        """Subscribe to all patterns on one connection."""
        decode = msgspec.msgpack.Decoder().decode

        async def on_message(message: "Msg") -> None:
            event = decode(message.data)
            take(event["seq"], event["sent"])

        async def on_last(message: "Msg") -> None:
            await message.respond(b"")

        client = await _connect(url)
        try:
            for topic in workload.topics:
                await client.subscribe(subject(topic), cb=on_message)
            await client.subscribe(_LAST, cb=on_last)
            await client.flush()
            ready.set()
            await asyncio.Event().wait()
        finally:
            await client.close()


def subject(topic: Topic) -> str:
    """The pattern of subjects for what a subscription asks for."""
    return ".".join("*" if token is None else token for token in topic)


class _Brokers:
    def __init__(self, folder: Path, brokers: int) -> None:
        program = require(find_program(_SERVER), _SERVER)
        free = free_ports(2 * brokers)
        ports, joins = free[:brokers], free[brokers:]
        self._running: list[Process] = []
        try:
            self.version = _version(program)
            for number, port in enumerate(ports):
                settings = folder / f"nats-{number}.conf"
                settings.write_text(_settings(port, joins[number], joins[number - 1] if number else None))
                process = Process(f"nats-server-{number}", (program, "-c", str(settings)), folder, {})
                self._running.append(process)
                process.wait_for(lambda port=port: answers(port))  # type: ignore[misc]
        except BaseException:
            self.stop()
            raise
        self.url, self.far_url = (f"nats://127.0.0.1:{port}" for port in (ports[0], ports[-1]))

    def stop(self) -> None:
        for process in self._running:
            process.stop()


def _settings(port: int, joins: int, before: int | None) -> str:
    """The settings of a server; `joins`: where leaf nodes come in, `before`: where this one is to go."""
    remotes = "" if before is None else f', remotes: [{{url: "nats://127.0.0.1:{before}"}}]'
    return (
        f'server_name: "bench-{port}", host: "127.0.0.1", port: {port}\n'
        f'leafnodes {{host: "127.0.0.1", port: {joins}{remotes}}}\n'
    )


def _version(program: str) -> str:
    command = (program, "--version")
    told = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)  # noqa: S603
    return told.stdout.strip().rpartition(" ")[2].removeprefix("v")


class _Publisher:
    def __init__(self, client: "Client") -> None:
        self._client = client
        self._encode = msgspec.msgpack.Encoder().encode

    async def publish(self, events: list[dict[str, str | int | float]]) -> None:
        region, kind, symbol = TOPIC
        for event in events:
            where = f"{event[region]}.{event[kind]}.{event[symbol]}"
            await self._client.publish(where, self._encode(event))
        # The client writes when the event loop has time.
        await asyncio.sleep(0)

    async def flush(self) -> None:
        await self._client.flush()

    async def close(self) -> None:
        await self._client.close()


async def _connect(url: str) -> "Client":
    import nats

    return await nats.connect(url, allow_reconnect=False)
