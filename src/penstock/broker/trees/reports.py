"""What publishers report of a broker that cannot be reached, where brokers advertise and publishers do not.

Without advertisements all that is published at a broker comes along one tree, the broker's own. If the broker
is gone for good, each of its publishers knows how many of its events were acknowledged there. So publishers
have trees all the same: *silent* ones, which no events come along and nothing is bound to. They carry where a
publisher is, and what its earlier brokers have acknowledged (`penstock.broker.publishers`).
"""

from typing import Final

from penstock.broker.trees.trees import Branch, Stump, Trees
from penstock.filters.predicate import Predicate
from penstock.model.names import Tree

SILENT: Final = Predicate([])
"""What is advertised by whoever only reports."""


def reported(trees: Trees, tree: Tree, since: float, waited: float, apart_since: float) -> int | None:
    """How many events may have been missed of a broker's own tree since a time, by what publishers say.

    The broker waited so long for who was away. None as long as a publisher is yet to be heard of: one that
    was there, or that cannot be reached itself since a time at which it may have gone there. Who is out of
    reach for longer would have been heard of from there before the broker was lost.
    """
    life = _life(tree)
    count = 0
    for known in trees.origins():
        turns = {trees.publisher(name).turn: name for name in known}
        there = {turn for turn, name in turns.items() if _life(name) == life}
        last = turns[max(turns)]
        branch, stump = trees.get(last), trees.stump(last)
        if _life(last) == life:
            if stump is None or not stump.unadvertised or stump.since >= since:
                return None
        elif _out_of_reach_since(branch, stump) >= apart_since:
            return None
        else:
            count += trees.publisher(last).acked_since(since, there, waited, turns.keys() - there)
    return count


def _out_of_reach_since(branch: Branch | None, stump: Stump | None) -> float:
    """Since when a publisher cannot be reached; -inf if it can, or has left."""
    if branch is not None:
        return float("-inf") if branch.way is not None else branch.orphan_since
    return float("-inf") if stump is None or stump.unadvertised else stump.since


def _life(tree: Tree) -> str:
    """Which life of which broker a tree was planted in."""
    return tree.rpartition(".")[0]
