"""What the faults of a scenario do to a network."""

from collections.abc import Iterator

import msgspec

from penstock.sim.network import Network
from penstock.sim.scenario import Crash, Cut, Delay, Duplicate, Fault, Heal, Loss, Partition, Reorder, Restart


def inject(network: Network, fault: Fault) -> int:
    """Have a fault happen, now; say how many brokers or links it changed."""
    if isinstance(fault, Crash):
        running = network.is_running(f"b{fault.broker}")
        if running:
            network.crash(f"b{fault.broker}")
        return int(running)
    if isinstance(fault, Restart):
        down = not network.is_running(f"b{fault.broker}")
        if down:
            network.restart(f"b{fault.broker}", with_state=fault.state)
        return int(down)
    if isinstance(fault, Cut | Partition | Heal):
        up = isinstance(fault, Heal)
        links = [link for link in _links(network, fault) if network.direction(*link).up != up]
        for a, b in links:
            if up:
                network.heal(a, b)
            else:
                network.cut(a, b)
        return len(links)
    return _degrade(network, fault)


def _degrade(network: Network, fault: Delay | Duplicate | Reorder | Loss) -> int:
    links = list(network.links()) if fault.link is None else list(_links(network, fault))
    field = type(fault).__name__.lower()
    much = fault.ms / 1000 if isinstance(fault, Delay) else fault.share
    for a, b in links:
        model = network.direction(a, b).model
        network.set_model(a, b, msgspec.structs.replace(model, **{field: much}))
    return len(links)


def _links(network: Network, fault: Fault) -> Iterator[tuple[str, str]]:
    """The link that a fault is about, or those between its side and the rest."""
    link = getattr(fault, "link", None)
    if link is not None:
        yield f"b{link[0]}", f"b{link[1]}"
        return
    side = {f"b{broker}" for broker in getattr(fault, "side", None) or ()}
    # Written down before any changes: links come in the order in which they were added.
    yield from [(a, b) for a, b in network.links() if (a in side) != (b in side)]
