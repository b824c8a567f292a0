"""Overlays of brokers, from a seed (seed paper 000, section 2.5): which brokers are linked.

hierarchical   a tree in which each broker but the first has one above it, as full as can be
acyclic        a tree at random: one path between any two brokers
general        that, and more links, so that there are several paths
hybrid         clusters that are general inside, joined by an acyclic backbone
"""

from random import Random
from typing import Final, TypeAlias

from penstock.errors import PenstockError

Edge: TypeAlias = tuple[int, int]

KINDS: Final = ("hierarchical", "acyclic", "general", "hybrid")


def topology(
    kind: str, brokers: int, seed: int, *, degree: float = 3.0, fan_out: int = 3, cluster: int = 5
) -> list[Edge]:
    """The links of so many brokers, numbered from 0, each link once, the lower number first.

    `degree` is the mean number of links of a broker in general overlays and in clusters, `fan_out` the
    number of brokers below one in hierarchical ones, `cluster` the number of brokers of a cluster.
    """
    if brokers < 1:
        raise PenstockError(f"a network has at least one broker, not {brokers}")
    if fan_out < 1 or cluster < 1 or degree < 0:
        raise PenstockError("fan_out and cluster are at least 1, and degree is not below 0")
    random = Random(f"{kind} {seed}")
    if kind == "hierarchical":
        return [((i - 1) // fan_out, i) for i in range(1, brokers)]
    if kind == "acyclic":
        return _tree(range(brokers), random)
    if kind == "general":
        return _general(range(brokers), degree, random)
    if kind == "hybrid":
        clusters = [range(at, min(at + cluster, brokers)) for at in range(0, brokers, cluster)]
        inside = [edge for members in clusters for edge in _general(members, degree, random)]
        backbone = _tree(range(len(clusters)), random)
        between = [(random.choice(clusters[a]), random.choice(clusters[b])) for a, b in backbone]
        return sorted(inside + [(min(edge), max(edge)) for edge in between])
    raise PenstockError(f"no topology {kind!r}; there are {', '.join(KINDS)}")


def _tree(brokers: range, random: Random) -> list[Edge]:
    return [(random.choice(brokers[:i]), broker) for i, broker in enumerate(brokers) if i]


def _general(brokers: range, degree: float, random: Random) -> list[Edge]:
    edges = set(_tree(brokers, random))
    most = len(brokers) * (len(brokers) - 1) // 2
    wanted = min(most, max(len(edges), round(degree * len(brokers) / 2)))
    while len(edges) < wanted:
        a, b = random.sample(brokers, 2)
        edges.add((min(a, b), max(a, b)))
    return sorted(edges)
