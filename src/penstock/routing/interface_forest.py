"""The poset-derived forest with multiple interfaces: Salo 2010, section 5.2, the last paragraphs.

A node has the interfaces through which its filter was received, and counts those of its whole subtree; this
index tells which parts of the forest to pass over. A filter F that comes through i is not added where a
filter with i covers it; where it is added, i is taken away from all descendants of F.

balanced        of several children that cover a filter, it goes below the one in whose subtree are the
                fewest other interfaces; the paper asks for similar ones, not saying how that is measured
non_redundant   i is taken away from all filters that F covers, wherever in the forest they stand

What differs from the paper: it does not say what an unsubscription does. Here it is Siena's (section
5.1.2): all filters with i that F covers lose i. Since what is covered is dropped when it comes, whoever
takes a covering filter back has to send again what that one covered.

A node that has lost its last interface is deleted.
"""

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

from penstock.routing.forest import Forest, ForestNode
from penstock.routing.shape import Shape
from penstock.routing.table import Change, T, in_order

I = TypeVar("I", bound=Hashable)  # noqa: E741 - the papers' letter for an interface


class InterfaceForest(Forest[T], Generic[T, I]):
    """A poset-derived forest of filters received through interfaces."""

    def __init__(
        self,
        *,
        balanced: bool = False,
        non_redundant: bool = False,
        covers: Callable[[T, T], bool] | None = None,
        shape: Callable[[T], Shape] | None = None,
    ) -> None:
        super().__init__(covers=covers, shape=shape)
        self.balanced = balanced
        self.non_redundant = non_redundant

    def subscribe(self, item: T, interface: I) -> Change[T]:
        """Add a filter that came through an interface, unless it is redundant."""
        node = self._nodes.get(item)
        probe = node or ForestNode(item, self.covering.shape(item), -1)
        if self._is_redundant(probe, interface):
            return Change()
        if node is None:
            node = self._new(item)
            node.interfaces = {interface: None}
            node.within = {interface: 1}
            self._place(node, self._imaginary)
        else:
            node.references += 1
            node.interfaces[interface] = None
            self._count(node, {interface: 1}, 1)
        start = self._imaginary if self.non_redundant else node
        self._withdraw([n for n in self._covered_with(node, interface, start) if n is not node], interface)
        return self._change()

    def unsubscribe(self, item: T, interface: I) -> Change[T]:
        """Take an interface away from all filters that the item covers; the item need not be there itself."""
        probe = self._nodes.get(item) or ForestNode(item, self.covering.shape(item), -1)
        self._withdraw(list(self._covered_with(probe, interface, self._imaginary)), interface)
        return self._change()

    def interfaces(self, item: T) -> frozenset[I]:
        """The interfaces of a filter."""
        return frozenset(self._known(item).interfaces)

    def interfaces_within(self, item: T) -> dict[I, int]:
        """The index: how often each interface occurs at the filter and below it."""
        return dict(self._known(item).within)

    def _is_redundant(self, probe: ForestNode[T], interface: I) -> bool:
        """Whether a filter with the interface covers the probe, or is it."""
        stack = [self._imaginary]
        while stack:
            at = stack.pop()
            for child in at.children.may_cover(probe.shape) if at.children is not None else ():
                if interface not in child.within:
                    continue
                if child is probe or self.covering.confirms(child, probe):
                    if interface in child.interfaces:
                        return True
                    stack.append(child)
        return False

    def _covered_with(
        self, probe: ForestNode[T], interface: I, start: ForestNode[T]
    ) -> Iterator[ForestNode[T]]:
        """The nodes in a subtree that have the interface and that the probe, perhaps its top, covers."""
        sure = start is probe
        stack = [start]
        while stack:
            node = stack.pop()
            if interface in node.interfaces and (sure or node is probe or self.covering.holds(probe, node)):
                yield node
            if node.children is not None:
                stack += [child for child in node.children if interface in child.within]

    def _withdraw(self, nodes: list[ForestNode[T]], interface: I) -> None:
        for node in in_order(nodes):
            del node.interfaces[interface]
            node.references -= 1
            self._count(node, {interface: 1}, -1)
            if not node.references:
                self._delete(node)

    def _choose(self, candidates: list[ForestNode[T]], node: ForestNode[T]) -> ForestNode[T] | None:
        if not self.balanced or len(candidates) < 2:
            return super()._choose(candidates, node)
        near = sorted(candidates, key=lambda candidate: (_strangers(candidate, node), candidate.number))
        return super()._choose(near, node)

    def _attach(self, node: ForestNode[T], at: ForestNode[T]) -> None:
        super()._attach(node, at)
        self._count(at, node.within, 1)

    def _detach(self, node: ForestNode[T]) -> None:
        at = node.parent
        super()._detach(node)
        if at is not None:
            self._count(at, node.within, -1)

    def _count(self, node: ForestNode[T], interfaces: dict[I, int], sign: int) -> None:
        """Count interfaces in or out, at a node and all above it."""
        at: ForestNode[T] | None = node
        changes = list(interfaces.items())
        while at is not None:
            within = at.within
            for interface, number in changes:
                left = within.get(interface, 0) + sign * number
                if left:
                    within[interface] = left
                else:
                    del within[interface]
            at = at.parent


def _strangers(candidate: ForestNode[T], node: ForestNode[T]) -> int:
    """How many interfaces a subtree has that the node has not, less those they share."""
    shared = len(candidate.within.keys() & node.within.keys())
    return len(candidate.within) - 2 * shared
