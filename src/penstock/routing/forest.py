"""The poset-derived forest: each filter below one that covers it. Salo 2010, section 5.2, after [TK06].

Of all covering relations a forest keeps one for each filter, which has at most one parent. It is maximal
(its roots are the root set) and sibling-pure: children of one node, the imaginary root among them, are
unrelated.

What differs from the paper:

- Of a node's children those that cover the filter are looked for first. Where one does, none can be covered
  by it but an identical one, below which the filter then goes; so an identical filter changes no roots.
  Identical filters in different representation are not recognised otherwise, as in the paper.
- The paper tests one child after the other. Here shapes tell which children are worth a test (see `shape`),
  and for many children at once (see `bag`).
- A filter that is there already gets one more reference, and remains until all are removed.
- Nodes that have to move are placed by a list of work instead of by recursion, so that the depth of the
  forest is not bounded by Python's stack.
"""

from collections.abc import Callable, Iterator
from typing import Any, Generic

from penstock.routing.bag import Bag
from penstock.routing.shape import Shape
from penstock.routing.table import Change, CoveringRelation, Node, T, in_order, unknown


class ForestNode(Node[T]):
    """An item with its parent and children. Without a parent it is the imaginary root, or being moved."""

    __slots__ = ("children", "interfaces", "parent", "references", "within")

    def __init__(self, item: T, shape: Shape, number: int) -> None:
        super().__init__(item, shape, number)
        self.parent: ForestNode[T] | None = None
        self.children: Bag[ForestNode[T]] | None = None
        self.references = 1
        # Only a forest with interfaces has these two.
        self.interfaces: dict[Any, None] = {}
        self.within: dict[Any, int] = {}

    def subtree(self) -> "Iterator[ForestNode[T]]":
        """The node and all below it, a parent before its children."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            if node.children is not None:
                stack += node.children


class Forest(Generic[T]):
    """What the forests share: a maximal, sibling-pure forest, and how nodes are placed and deleted.

    `covers` and `shape` are for items that are not predicates. `shape(a)` may only be exact where it
    tells all about `a`; see `penstock.routing.shape`.
    """

    def __init__(
        self, *, covers: Callable[[T, T], bool] | None = None, shape: Callable[[T], Shape] | None = None
    ) -> None:
        self.covering = CoveringRelation(covers, shape)
        self._nodes: dict[T, ForestNode[T]] = {}
        self._number = 0
        self._imaginary: ForestNode[Any] = ForestNode(None, Shape((), (), False), -1)
        self._imaginary.children = Bag()
        self._journal: dict[ForestNode[T], int] = {}

    def roots(self) -> list[T]:
        """The root set, in the order in which the items came."""
        return [node.item for node in in_order(self._imaginary.children or ())]

    def parent(self, item: T) -> T | None:
        """The item that this one stands below; None for a root."""
        node = self._known(item).parent
        return None if node is None or node is self._imaginary else node.item

    def children(self, item: T) -> list[T]:
        """The items right below this one, in the order in which they came."""
        return [node.item for node in in_order(self._known(item).children or ())]

    def depth(self) -> int:
        """How many items the longest chain has, from a root down."""
        depths = {self._imaginary: 0}
        for node in self._imaginary.subtree():
            if node.parent is not None:
                depths[node] = depths[node.parent] + 1
        return max(depths.values())

    @property
    def tests(self) -> int:
        """How often a full covering test was made."""
        return self.covering.tests

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[T]:
        return iter(self._nodes)

    def __contains__(self, item: object) -> bool:
        return item in self._nodes

    def _known(self, item: T) -> ForestNode[T]:
        node = self._nodes.get(item)
        if node is None:
            raise unknown(item)
        return node

    def _new(self, item: T) -> ForestNode[T]:
        node = self._nodes[item] = ForestNode(item, self.covering.shape(item), self._number)
        self._number += 1
        return node

    def _place(self, node: ForestNode[T], at: ForestNode[T]) -> None:
        """Put a node with its subtree below `at`, as deep as it goes; what it covers there goes below it."""
        work = [(node, at)]
        while work:
            node, at = work.pop()
            below: ForestNode[T] | None = at
            while below is not None:
                at, below = below, self._covering_child(below, node)
            moving = [] if at.children is None else self._covered_children(at.children, node)
            for child in moving:
                self._detach(child)
            self._attach(node, at)
            # The node may have children of its own, to which those that move are related.
            work += [(child, node) for child in moving]

    def _covering_child(self, at: ForestNode[T], node: ForestNode[T]) -> ForestNode[T] | None:
        """One of the children that covers the node."""
        if at.children is None:
            return None
        candidates = at.children.may_cover(node.shape)
        self.covering.ruled_out += len(at.children) - len(candidates)
        return self._choose(candidates, node)

    def _choose(self, candidates: list[ForestNode[T]], node: ForestNode[T]) -> ForestNode[T] | None:
        """One of the candidates that does cover the node: the first."""
        confirms = self.covering.confirms
        return next((candidate for candidate in candidates if confirms(candidate, node)), None)

    def _covered_children(self, children: Bag[ForestNode[T]], node: ForestNode[T]) -> list[ForestNode[T]]:
        candidates = children.may_be_covered(node.shape)
        self.covering.ruled_out += len(children) - len(candidates)
        return [child for child in candidates if self.covering.confirms(node, child)]

    def _delete(self, node: ForestNode[T]) -> None:
        """Take a node out and add its children again, with their subtrees, from its parent on."""
        at = node.parent
        if at is None:
            raise AssertionError("only a node that is in the forest can be deleted")
        children = in_order(node.children or ())
        for child in children:
            self._detach(child)
        self._detach(node)
        del self._nodes[node.item]
        for child in children:
            self._place(child, at)

    def _attach(self, node: ForestNode[T], at: ForestNode[T]) -> None:
        if at.children is None:
            at.children = Bag()
        at.children.add(node)
        node.parent = at
        if at is self._imaginary:
            self._journal[node] = self._journal.get(node, 0) + 1

    def _detach(self, node: ForestNode[T]) -> None:
        at = node.parent
        if at is None or at.children is None:
            raise AssertionError("only a node that has a parent can be detached")
        at.children.discard(node)
        if not at.children and at is not self._imaginary:
            at.children = None
        node.parent = None
        if at is self._imaginary:
            self._journal[node] = self._journal.get(node, 0) - 1

    def _change(self) -> Change[T]:
        """What became a root, and ceased to be one, since the last call. Most often little did."""
        journal, self._journal = self._journal, {}
        moved = in_order(journal)
        return Change(
            tuple(node.item for node in moved if journal[node] > 0),
            tuple(node.item for node in moved if journal[node] < 0),
        )


class PosetDerivedForest(Forest[T]):
    """A maximal, sibling-pure poset-derived forest: a `CoveringTable`."""

    def add(self, item: T) -> Change[T]:
        """Add an item, or a reference to it."""
        known = self._nodes.get(item)
        if known is not None:
            known.references += 1
            return Change()
        self._place(self._new(item), self._imaginary)
        return self._change()

    def remove(self, item: T) -> Change[T]:
        """Remove a reference to an item, and with the last one the item; its children move up and down."""
        node = self._nodes.get(item)
        if node is None:
            raise unknown(item)
        node.references -= 1
        if not node.references:
            self._delete(node)
        return self._change()
