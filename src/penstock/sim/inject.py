"""The faults of a scenario, as `penstock.sim.faults` has them happen."""

from penstock.sim import faults
from penstock.sim.scenario import Crash, Cut, Delay, Duplicate, Fault, Heal, Loss, Partition, Reorder, Restart


def inject(network: faults.AnyNetwork, fault: Fault) -> int:
    """Have a fault happen, now; say how many brokers or links it changed."""
    if isinstance(fault, Crash):
        return faults.crash(network, _broker(fault.broker))
    if isinstance(fault, Restart):
        return faults.restart(network, _broker(fault.broker), with_state=fault.state)
    if isinstance(fault, Partition):
        return faults.partition(network, _side(fault))
    if isinstance(fault, Cut):
        return faults.cut(network, _links(network, fault))
    if isinstance(fault, Heal):
        return faults.heal(network, _links(network, fault))
    return _degrade(network, fault)


def _degrade(network: faults.AnyNetwork, fault: Delay | Duplicate | Reorder | Loss) -> int:
    links = _links(network, fault)
    if isinstance(fault, Delay):
        return faults.degrade(network, links, "delay", fault.ms / 1000)
    if isinstance(fault, Duplicate):
        return faults.degrade(network, links, "duplicate", fault.share)
    return faults.degrade(network, links, "reorder" if isinstance(fault, Reorder) else "loss", fault.share)


def _links(
    network: faults.AnyNetwork, fault: Cut | Heal | Delay | Duplicate | Reorder | Loss
) -> list[faults.Link]:
    """The link that a fault is about; or those between its side and the rest; or all."""
    if fault.link is not None:
        return [(_broker(fault.link[0]), _broker(fault.link[1]))]
    return faults.between(network, _side(fault)) if isinstance(fault, Heal) else list(network.links())


def _side(fault: Heal | Partition) -> set[str]:
    return {_broker(number) for number in fault.side or ()}


def _broker(number: int) -> str:
    return f"b{number}"
