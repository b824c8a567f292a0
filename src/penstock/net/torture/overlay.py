"""Brokers as processes, a proxy on every link between them, and one before every broker of every client."""

import asyncio
from pathlib import Path
from typing import Final

from penstock.errors import PenstockError
from penstock.net.torture import strangers
from penstock.net.torture.faults import ENDING, STRANGERS, Fault
from penstock.net.torture.networks import Network
from penstock.net.torture.processes import BrokerProcess, broker_command, free_ports
from penstock.net.torture.proxy import Proxy

KEEP_S: Final = 10.0
"""Seconds that brokers keep events for, and then tell who has missed some: before a round is judged."""


class Overlay:
    """A network that can be made to suffer."""

    def __init__(self, network: Network, folder: Path, scheme: str = "covering") -> None:
        self._network = network
        self._folder = folder
        self._scheme = scheme
        self.brokers: list[BrokerProcess] = []
        self.links: list[Proxy] = []
        """As the network's links are."""
        self.doors: dict[tuple[int, int], Proxy] = {}
        """By client and broker."""
        self._ports: list[int] = []
        self._locks = [asyncio.Lock() for _ in range(network.brokers)]
        self._harms: dict[Proxy, list[Fault]] = {}
        """The faults that each proxy suffers from now: one that is mended leaves the others."""

    async def start(self) -> None:
        """Start proxies and brokers; everybody listens afterwards."""
        network = self._network
        self._ports = ports = free_ports(network.brokers)
        self.links = [Proxy(ports[listener]) for _dialer, listener in network.links]
        self.doors = {
            (number, home): Proxy(ports[home])
            for number, client in enumerate(network.clients)
            for home in client.homes
        }
        for proxy in (*self.links, *self.doors.values()):
            await proxy.start()
        config = self._folder / "brokers.toml"
        config.write_text(f"[times]\nkeep = {KEEP_S}\n")
        for broker, port in enumerate(ports):
            peers = [
                proxy.url
                for proxy, (dialer, _listener) in zip(self.links, network.links, strict=True)
                if dialer == broker
            ]
            name = f"b{broker}"
            command = broker_command(name, port, peers, self._scheme, config)
            self.brokers.append(BrokerProcess(name, command, self._folder))
        # The first one compiles what has to be compiled, once.
        await self.brokers[0].start()
        await asyncio.gather(*(broker.start() for broker in self.brokers[1:]))

    def end(self) -> None:
        """End all brokers at once; this works without an event loop, too."""
        for broker in self.brokers:
            broker.kill()

    async def close(self) -> None:
        """End all brokers and close all proxies."""
        self.end()
        for proxy in (*self.links, *self.doors.values()):
            await proxy.close()

    def urls(self, client: int) -> list[str]:
        """Where a client connects to."""
        return [self.doors[client, home].url for home in self._network.clients[client].homes]

    def crashed(self) -> list[str]:
        """Brokers that ended though nobody asked them to, with what they said last."""
        return [
            f"crashed: {broker.name} ended by itself; it said:\n{broker.last_words()}"
            for broker in self.brokers
            if broker.has_crashed
        ]

    async def suffer(self, fault: Fault) -> list[str]:
        """Have a fault happen, wait, and mend it; say what went wrong that should not have."""
        if fault.kind in STRANGERS:
            return await self._suffer_stranger(fault)
        if fault.on == "broker":
            # One after the other: a broker that drains takes longer to end than is planned.
            async with self._locks[fault.target]:
                return await self._suffer_process(self.brokers[fault.target], fault)
        proxies = self._proxies(fault)
        for proxy in proxies:
            self._harms.setdefault(proxy, []).append(fault)
            _harm(proxy, fault)
        try:
            await asyncio.sleep(fault.length)
        finally:
            for proxy in proxies:
                self._mend(proxy, fault)
        return []

    async def _suffer_process(self, broker: BrokerProcess, fault: Fault) -> list[str]:
        if fault.kind in ENDING:
            return await self._end_and_restart(broker, fault)
        return await self._pause(broker, fault)

    def _mend(self, proxy: Proxy, fault: Fault) -> None:
        """Mend this fault only."""
        harms = self._harms[proxy]
        harms.remove(fault)
        proxy.heal()
        for other in harms:
            _harm(proxy, other, again=True)

    async def _suffer_stranger(self, fault: Fault) -> list[str]:
        port = self._ports[fault.target]
        try:
            if fault.kind == "manual":
                await strangers.never_acknowledge(port, fault.length)
            else:
                await strangers.attack(port, fault.length, fault.amount)
        except (PenstockError, OSError):
            # Its broker suffers from something else at the same time.
            return []
        return []

    async def _pause(self, broker: BrokerProcess, fault: Fault) -> list[str]:
        broker.pause()
        try:
            await asyncio.sleep(fault.length)
        finally:
            if broker.pid is not None:
                broker.go_on()
        return []

    async def _end_and_restart(self, broker: BrokerProcess, fault: Fault) -> list[str]:
        wrong = []
        if fault.kind != "term":
            broker.kill()
        else:
            status = await broker.terminate()
            if status != 0:
                wrong.append(
                    f"ending: {broker.name} ended with status {status} when asked to (SIGTERM), not with 0; "
                    f"it said:\n{broker.last_words()}"
                )
        await asyncio.sleep(fault.length)
        await broker.start()
        return wrong

    def _proxies(self, fault: Fault) -> list[Proxy]:
        """Those that a fault is about. Whoever has to go elsewhere loses the broker that it talks to."""
        if fault.kind == "split":
            return [
                proxy
                for proxy, (a, b) in zip(self.links, self._network.links, strict=True)
                if (a in fault.side) != (b in fault.side)
            ]
        if fault.on == "network":
            return [*self.links, *self.doors.values()]
        if fault.on == "link":
            return [self.links[fault.target]]
        homes = self._network.clients[fault.target].homes
        doors = [self.doors[fault.target, home] for home in homes]
        if fault.kind != "failover":
            return doors
        return [door for door in doors if door.connections][:1] or doors[:1]


def _harm(proxy: Proxy, fault: Fault, *, again: bool = False) -> None:
    if fault.kind in ("short", "long", "failover", "storm", "split"):
        # Some ends look like errors, some like good-byes; which one, the plan's figures say.
        proxy.cut(reset=int(fault.length * 100) % 2 == 1)
    elif fault.kind == "stall":
        proxy.stall()
    elif fault.kind == "oneway":
        proxy.stall("up" if fault.amount < 0.5 else "down")
    elif fault.kind == "flip" and not again:
        # Half of them one way, half the other; within each half, some bit of what passes.
        proxy.flip(fault.amount * 2 % 1, "up" if fault.amount < 0.5 else "down")
    elif fault.kind == "dead":
        proxy.stall("down")
    elif fault.kind == "lag":
        proxy.delay(fault.amount)
    elif fault.kind == "slow":
        proxy.throttle(fault.amount, "down")
