"""What fails in a network, and is mended. The steps of plans and the faults of scenarios both come to this.

Each function has something happen now, where it makes sense: what is down does not crash, and a link that is
not there is not cut. It returns how many brokers or links it has changed.
"""

from collections.abc import Collection, Iterable
from typing import Literal, TypeAlias

import msgspec

from penstock.sim.links import LinkModel
from penstock.sim.network import Network
from penstock.sim.whole.network import WholeNetwork

AnyNetwork: TypeAlias = Network | WholeNetwork

Link: TypeAlias = tuple[str, str]
Degree: TypeAlias = Literal["loss", "duplicate", "reorder", "delay"]
"""What a link can be degraded by: shares of messages, or more latency in seconds."""


def crash(network: AnyNetwork, broker: str) -> int:
    """A broker stops."""
    if not network.is_running(broker):
        return 0
    network.crash(broker)
    return 1


def restart(network: AnyNetwork, broker: str, *, with_state: bool) -> int:
    """A broker that is down comes back, with the state that it had or without."""
    if network.is_running(broker):
        return 0
    network.restart(broker, with_state=with_state)
    return 1


def cut(network: AnyNetwork, links: Iterable[Link]) -> int:
    """Links that are up go down."""
    up = [link for link in links if network.has_link(*link) and not network.is_cut(*link)]
    for a, b in up:
        network.cut(a, b)
    return len(up)


def heal(network: AnyNetwork, links: Iterable[Link]) -> int:
    """Links that are down come up again."""
    down = [link for link in links if network.has_link(*link) and network.is_cut(*link)]
    for a, b in down:
        network.heal(a, b)
    return len(down)


def flap(network: AnyNetwork, link: Link) -> int:
    """A link goes down, and comes up at once; one that is down comes up."""
    return cut(network, [link]) + heal(network, [link])


def between(network: AnyNetwork, side: Collection[str]) -> list[Link]:
    """The links between one side and the rest."""
    return [(a, b) for a, b in network.links() if (a in side) != (b in side)]


def partition(network: AnyNetwork, side: Collection[str]) -> int:
    """All links between one side and the rest go down."""
    return cut(network, between(network, side))


def degrade(network: AnyNetwork, links: Iterable[Link], by: Degree, much: float) -> int:
    """Links lose, repeat, reorder or delay messages from now on."""
    there = [link for link in links if network.has_link(*link)]
    for a, b in there:
        model = network.model(a, b)
        network.set_model(a, b, msgspec.structs.replace(model, **{by: much}))
    return len(there)


def restore(network: AnyNetwork) -> int:
    """All links carry messages as they should again: none is lost, repeated, overtaken or delayed."""
    links = list(network.links())
    for a, b in links:
        model = network.model(a, b)
        network.set_model(a, b, LinkModel(latency=model.latency, bandwidth=model.bandwidth))
    return len(links)


# What happens to processes and bytes: only whole nodes have them. Names are those of brokers and clients.


def vanish(network: WholeNetwork, broker: str) -> int:
    """A broker's machine is gone without a word."""
    if not network.is_running(broker):
        return 0
    network.crash(broker, silent=True)
    return 1


def pause(network: WholeNetwork, name: str) -> int:
    """A process stands still, as by SIGSTOP."""
    return network.pause(name)


def go_on(network: WholeNetwork, name: str) -> int:
    """It goes on."""
    return network.go_on(name)


def unplug(network: WholeNetwork, client: str, broker: str) -> int:
    """A client cannot reach a broker any more."""
    network.cut(client, broker)
    return 1


def plug(network: WholeNetwork, client: str, broker: str) -> int:
    """It can again."""
    network.heal(client, broker)
    return 1


def sever(network: WholeNetwork, a: str, b: str) -> int:
    """The connections between two processes break in the middle of what is under way."""
    network.sever(a, b)
    return 1


def stall(network: WholeNetwork, a: str, b: str) -> int:
    """Nothing that one process says gets to the other, and neither is told."""
    network.stall(a, b)
    return 1


def flow(network: WholeNetwork, a: str, b: str) -> int:
    """It gets there again."""
    network.flow(a, b)
    return 1


def flip(network: WholeNetwork, a: str, b: str) -> int:
    """A bit of the length of the next frame from one process to the other is flipped."""
    network.flip(a, b)
    return 1


def slow(network: WholeNetwork, a: str, b: str, latency: float) -> int:
    """Bytes between two processes take so long from now on."""
    network.set_latency(a, b, latency)
    return 1


def lag(network: WholeNetwork, client: str, seconds: float) -> int:
    """A client keeps each event for so long before it acknowledges it."""
    network.burdens.lag(network.clients[client], seconds)
    return 1


def manual(network: WholeNetwork, client: str, share: float, seconds: float) -> int:
    """A client acknowledges by hand: a share of events, so long after they came, and the others never."""
    network.burdens.manual(network.clients[client], share, seconds)
    return 1


def auto(network: WholeNetwork, client: str) -> int:
    """A client acknowledges all that it holds, and from now on what comes."""
    return network.burdens.auto(network.clients[client])


def attack(network: WholeNetwork, broker: str, kind: str) -> int:
    """A hostile client connects to a broker."""
    network.burdens.attack(broker, kind)
    return 1


def drain(network: WholeNetwork, broker: str, seconds: float) -> int:
    """A broker ends, as by SIGTERM, and is started again so long after that."""
    return network.drain(broker, seconds)


def leave_for_good(network: WholeNetwork, client: str) -> int:
    """A client's process dies, and its program is started again, as another client."""
    network.exit(network.clients[client])
    return 1


def mend(network: WholeNetwork) -> int:
    """All lines work again, and all processes go on."""
    network.mend()
    return 1
