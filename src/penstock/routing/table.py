"""What every covering table does: it holds items, and knows which of them no other covers.

These roots are the root set, or minimal cover, of Salo 2010, section 5.1.1: all that a router forwards under
covering-based routing. `add` and `remove` say how it changed, so that whoever keeps a copy can follow.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast

from penstock.errors import UnknownSubscriptionError
from penstock.filters import relations
from penstock.routing.bag import Member
from penstock.routing.shape import Shape, may_cover, shape_of

T = TypeVar("T", bound=Hashable)
N = TypeVar("N", bound="Node[Any]")


class Change(NamedTuple, Generic[T]):
    """How the root set changed: items that became roots, items that ceased to be roots."""

    risen: tuple[T, ...] = ()
    fallen: tuple[T, ...] = ()


class CoveringTable(Protocol[T]):
    """Items, references to which are counted, and their roots.

    An item that is added twice has to be removed twice. Every root is an item of the table.
    """

    def add(self, item: T) -> Change[T]:
        """Add an item, or a reference to it."""

    def remove(self, item: T) -> Change[T]:
        """Remove a reference to an item, and with the last one the item; UnknownSubscriptionError without."""

    def roots(self) -> list[T]:
        """The root set, in the order in which the items came."""

    def depth(self) -> int:
        """How many items the longest chain has, from a root down."""

    @property
    def tests(self) -> int:
        """How often a full covering test was made."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[T]: ...

    def __contains__(self, item: object) -> bool: ...


class Node(Member, Generic[T]):
    """An item in a table; `number` tells the order in which items came."""

    __slots__ = ("item", "number")

    def __init__(self, item: T, shape: Shape, number: int) -> None:
        super().__init__(shape)
        self.item = item
        self.number = number


class CoveringRelation(Generic[T]):
    """The covering relation between nodes, and how it was decided, counted.

    `tests` counts full tests. `decided` counts covers that two exact shapes told without one, `ruled_out` the
    pairs that a table had to look at and whose shapes told that there is no cover.
    """

    def __init__(self, covers: Callable[[T, T], bool] | None, shape: Callable[[T], Shape] | None) -> None:
        # Without these the items are predicates, which no type of a default can say.
        self._covers = covers or cast("Callable[[T, T], bool]", relations.covers)
        self.shape = shape or cast("Callable[[T], Shape]", shape_of)
        self.tests = 0
        self.decided = 0
        self.ruled_out = 0

    def holds(self, a: Node[T], b: Node[T]) -> bool:
        """Whether `a` covers `b`."""
        if may_cover(a.shape, b.shape):
            return self.confirms(a, b)
        self.ruled_out += 1
        return False

    def confirms(self, a: Node[T], b: Node[T]) -> bool:
        """Whether `a` covers `b`, which the shapes do not rule out."""
        if a.shape.exact and b.shape.exact:
            self.decided += 1
            return True
        self.tests += 1
        return self._covers(a.item, b.item)


def in_order(nodes: Iterable[N]) -> list[N]:
    """The nodes in the order in which their items came: sets have none."""
    return sorted(nodes, key=lambda node: node.number)


def unknown(item: object) -> UnknownSubscriptionError:
    """The error for an item that is not in a table."""
    return UnknownSubscriptionError(f"the table does not hold {str(item)[:200]!r}")
