"""What a broker and its clients have to offer to be measured: each party is a class in a module of its own.

A broker is started by the process that measures; its clients are opened in processes of their own, which
get the party by its name, and the address of the broker.
"""

import asyncio
import os
import shutil
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, Final, Protocol

from penstock.bench.network.workload import Job, Workload
from penstock.errors import MissingExtraError

CHAIN_MAX: Final = 9
"""Brokers in a chain: more would only share the processors of one machine."""

Take = Callable[[int, int], None]
"""Told of each delivery: the event's `seq` and `sent`."""


class Brokers(Protocol):
    """Brokers that run: one, or several in a chain."""

    url: str
    """The first, where the publisher connects."""
    far_url: str
    """The last, where the subscriber does."""
    version: str

    def stop(self) -> None:
        """End them, and all that was started for them."""


class Publisher(Protocol):
    """A client that publishes."""

    async def publish(self, events: list[dict[str, str | int | float]]) -> None:
        """Hand over events; when this returns they need not have arrived."""

    async def flush(self) -> None:
        """Return when the broker has all, as far as its protocol tells."""

    async def close(self) -> None:
        """Say goodbye."""


class Party(Protocol):
    """One of those that are measured."""

    name: ClassVar[str]
    jobs: ClassVar[tuple[Job, ...]]
    """Which filters it has."""
    once: ClassVar[bool]
    """Whether an event comes once where several subscriptions of one client match it."""
    brokers_max: ClassVar[int]
    """How many of its brokers can be in a chain."""
    batching: ClassVar[str]
    """How its clients publish and receive, in a few words."""

    def missing(self) -> str | None:
        """What to install, where something is missing."""

    def start(self, folder: Path, brokers: int) -> Brokers:
        """Start brokers in a chain, on the loopback interface, that write nowhere but to this folder."""

    async def publisher(self, url: str) -> Publisher:
        """Connect a client that publishes, and wait until the subscriptions are known there."""

    async def receive(self, url: str, workload: Workload, take: Take, ready: asyncio.Event) -> None:
        """Connect a client, subscribe to all, say so, and receive until cancelled."""


def parties() -> dict[str, Party]:
    """All that there are, by name; Penstock is the first, which the others are compared with."""
    from penstock.bench.network.nats import Nats
    from penstock.bench.network.ours import Penstock
    from penstock.bench.network.rabbitmq import RabbitMQ

    found: tuple[Party, ...] = (Penstock(), Nats(), RabbitMQ())
    return {party.name: party for party in found}


def find_program(name: str, first: tuple[str, ...] = ()) -> str | None:
    """Where a program is: in one of the folders given, on the path, or where servers usually are."""
    usual = ("/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/opt/homebrew/sbin", "/opt/homebrew/bin")
    return shutil.which(name, path=os.pathsep.join((*first, os.environ.get("PATH", ""), *usual)))


def lacks(program: str | None, package: str, module: str) -> str | None:
    """What to say where the server or the client's module is missing."""
    if program is None:
        return f"not installed: apt install {package}"
    if find_spec(module) is None:
        return "not installed: pip install 'penstock[bench]'"
    return None


def require(program: str | None, package: str) -> str:
    """The program, or an error that says how to install it."""
    if program is None:
        raise MissingExtraError(f"{package} is not installed: apt install {package}")
    return program
