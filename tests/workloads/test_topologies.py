"""Overlays are connected, simple, and of the kind that was asked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.workloads.topologies import KINDS, Edge, topology


def reached(edges: list[Edge], brokers: int) -> set[int]:
    """The brokers that can be reached from the first."""
    found, left = {0}, [0]
    while left:
        at = left.pop()
        near = {b for edge in edges if at in edge for b in edge} - found
        found |= near
        left += near
    return found & set(range(brokers))


@pytest.mark.property
@given(
    st.sampled_from(KINDS),
    st.integers(1, 40),
    st.integers(0, 1000),
    st.floats(0, 6),
    st.integers(1, 5),
    st.integers(1, 8),
)
def test_overlays_are_connected_and_of_their_kind(
    kind: str, brokers: int, seed: int, degree: float, fan_out: int, cluster: int
) -> None:
    edges = topology(kind, brokers, seed, degree=degree, fan_out=fan_out, cluster=cluster)
    assert edges == topology(kind, brokers, seed, degree=degree, fan_out=fan_out, cluster=cluster)
    assert all(0 <= a < b < brokers for a, b in edges)
    assert len(set(edges)) == len(edges)
    assert reached(edges, brokers) == set(range(brokers))
    if kind in ("hierarchical", "acyclic"):
        assert len(edges) == brokers - 1
    if kind == "hierarchical":
        assert max((sum(a == broker for a, _b in edges) for broker in range(brokers)), default=0) <= fan_out
    if kind == "general":
        most = brokers * (brokers - 1) // 2
        assert len(edges) == min(most, max(brokers - 1, round(degree * brokers / 2)))
    if kind == "hybrid":
        # One link between clusters for each but the first: together they are a tree.
        clusters = -(-brokers // cluster)
        assert sum(a // cluster != b // cluster for a, b in edges) == clusters - 1


@pytest.mark.parametrize(
    ("kind", "brokers", "more", "message"),
    [
        ("ring", 3, {}, "no topology 'ring'; there are hierarchical"),
        ("acyclic", 0, {}, "at least one broker, not 0"),
        ("hybrid", 3, {"cluster": 0}, "at least 1"),
    ],
)
def test_overlays_that_cannot_be_are_refused(
    kind: str, brokers: int, more: dict[str, int], message: str
) -> None:
    with pytest.raises(PenstockError, match=message):
        topology(kind, brokers, 1, **more)
