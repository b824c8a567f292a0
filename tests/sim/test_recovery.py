"""What failed and came back ends in the same state as what never failed."""

from random import Random

import pytest

from penstock.filters.parsing import as_predicate
from penstock.routing.schemes.catalog import SCHEMES
from penstock.sim.checkers.trees import tree_broker
from penstock.sim.network import Network
from penstock.workloads.topologies import topology

LEASE = 2.0


def network(scheme: str, seed: int, *, advertisements: bool) -> Network:
    """A tree of brokers, in which there is one way only, with clients that want things."""
    random = Random(seed)
    made = Network(scheme, advertisements=advertisements, lease=LEASE, seed=seed)
    for broker in range(8):
        made.add_broker(f"b{broker}")
    for a, b in topology("acyclic", 8, seed):
        made.add_link(f"b{a}", f"b{b}")
    for number in range(12):
        client = made.add_client(f"c{number}", f"b{random.randrange(8)}")
        if number % 3 == 0:
            made.advertise(client, "a", as_predicate(f"x between {random.randrange(10)} and 20"))
        low = random.randrange(20)
        made.subscribe(client, "s", as_predicate(f"x between {low} and {low + random.randrange(10)}"))
        made.run(made.now + 0.3)
    made.run(made.now + 5 * LEASE)
    return made


def state(made: Network) -> object:
    """What all brokers know, but for the names and epochs of trees, which are new after a failure."""
    origins = {
        tree: f"{name}: {branch.filter}"
        for name in made.nodes
        for tree, branch in tree_broker(made, name).trees.items()
        if branch.way == ""
    }
    return {
        name: (
            sorted(
                (origins[tree], str(branch.way)) for tree, branch in tree_broker(made, name).trees.items()
            ),
            sorted(
                (source.link, str(entry.filter), sorted(origins[tree] for tree in entry.trees))
                for source, entry in tree_broker(made, name).table.entries()
            ),
        )
        for name in made.nodes
    }


# Lazy covering depends on the order in which filters came, by its nature.
@pytest.mark.parametrize("scheme", sorted(set(SCHEMES) - {"lazy", "imperfect", "merging"}))
@pytest.mark.parametrize("advertisements", [True, False])
@pytest.mark.parametrize("fault", ["crash", "crash with state", "cut", "partition", "long cut"])
def test_what_failed_and_came_back_is_as_if_it_never_had(
    scheme: str, fault: str, *, advertisements: bool
) -> None:
    for seed in range(3):
        made = network(scheme, seed, advertisements=advertisements)
        before = state(made)
        links = list(made.links())
        if fault.startswith("crash"):
            made.crash(f"b{seed}")
            made.run(made.now + 0.7)
            made.restart(f"b{seed}", with_state="with" in fault)
        else:
            cut = links if fault == "partition" else links[:2]
            for a, b in cut:
                made.cut(a, b)
            made.run(made.now + (6 * LEASE if "long" in fault else 0.1))
            for a, b in cut:
                made.heal(a, b)
        made.run(made.now + 5 * LEASE)
        assert state(made) == before
