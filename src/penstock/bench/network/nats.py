"""NATS as a party. Its filters are patterns of subjects: attributes become the tokens of a subject."""

import asyncio
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec

from penstock.bench.network.party import Broker, Publisher, Take, find_program, lacks, require
from penstock.bench.network.servers import Process, answers, free_ports
from penstock.bench.network.workload import TOPIC, Job, Topic, Workload

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

_SERVER: Final = "nats-server"


class Nats:
    """An event goes to each subscription whose pattern its subject fits."""

    name: ClassVar[str] = "nats"
    jobs: ClassVar[tuple[Job, ...]] = ("equalities",)
    once: ClassVar[bool] = False
    batching: ClassVar[str] = "publish, flush at the end; a callback for each subscription"

    def missing(self) -> str | None:
        """Whether server and client are there."""
        return lacks(find_program(_SERVER), _SERVER, "nats")

    def start(self, folder: Path) -> Broker:
        """Start a server that keeps nothing on disk."""
        program = require(find_program(_SERVER), _SERVER)
        (port,) = free_ports(1)
        process = Process("nats-server", (program, "-a", "127.0.0.1", "-p", str(port)), folder, {})
        return _Broker(process, program, port)

    async def publisher(self, url: str) -> Publisher:
        """Connect a client that publishes."""
        return _Publisher(await _connect(url))

    async def receive(self, url: str, workload: Workload, take: Take, ready: asyncio.Event) -> None:
        """Subscribe to all patterns on one connection."""
        decode = msgspec.msgpack.Decoder().decode

        async def on_message(message: "Msg") -> None:
            event = decode(message.data)
            take(event["seq"], event["sent"])

        client = await _connect(url)
        try:
            for topic in workload.topics:
                await client.subscribe(subject(topic), cb=on_message)
            await client.flush()
            ready.set()
            await asyncio.Event().wait()
        finally:
            await client.close()


def subject(topic: Topic) -> str:
    """The pattern of subjects for what a subscription asks for."""
    return ".".join("*" if token is None else token for token in topic)


class _Broker:
    def __init__(self, process: Process, program: str, port: int) -> None:
        self._process = process
        self.url = f"nats://127.0.0.1:{port}"
        try:
            process.wait_for(lambda: answers(port))
            self.version = _version(program)
        except BaseException:
            process.stop()
            raise

    def stop(self) -> None:
        self._process.stop()


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
