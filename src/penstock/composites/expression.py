"""What a composite subscription says, as a tree.

The leaves are atoms: each stands for one event. Inner nodes combine matches of their parts, in time. A match
takes every event once: two atoms of one match are two events.
"""

import math
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

import msgspec

from penstock.errors import FilterError, LimitError
from penstock.filters.constraint import Constraint
from penstock.filters.filter import Filter
from penstock.filters.predicate import Predicate
from penstock.model.events import Event
from penstock.model.values import Value

ATOMS_MAX: Final = 16
"""Atoms of one composite: the partial matches that have to be kept may multiply with each."""


class Atom(msgspec.Struct, frozen=True):
    """One event that matches a filter, and in which each bound attribute has the value of its variable."""

    name: str
    predicate: Predicate
    binds: tuple[tuple[str, str], ...] = ()
    """Pairs of an attribute and a variable, sorted. The attribute must be present."""

    def admits(self, event: Event) -> bool:
        """Whether an event may stand for the atom, whatever its variables are bound to."""
        return self.predicate.matches(event) and all(
            attribute in event and not is_nan(event[attribute]) for attribute, _variable in self.binds
        )

    def wanted(self) -> Predicate:
        """What to subscribe to: the events that the atom admits, but for NaN."""
        if not self.binds:
            return self.predicate
        present = Filter([Constraint(name, "exists") for name, _variable in self.binds])
        return Predicate([f.intersection(present) for f in self.predicate.filters])


def is_nan(value: Value) -> bool:
    """Whether a value is the one that equals nothing."""
    return isinstance(value, float) and math.isnan(value)


class Or(msgspec.Struct, frozen=True):
    """A match of either part."""

    left: "Node"
    right: "Node"


class And(msgspec.Struct, frozen=True):
    """A match of both parts, in any order, that agree on variables and share no event."""

    left: "Node"
    right: "Node"


class Then(msgspec.Struct, frozen=True):
    """A match of the left part, and one of the right part that begins after it has ended.

    With `absent`: no event between the two matches this atom, as far as variables are bound.
    """

    left: "Node"
    right: "Node"
    absent: Atom | None = None


class Within(msgspec.Struct, frozen=True):
    """A match whose first and last events are at most so far apart."""

    part: "Node"
    window: "Window"


class Unless(msgspec.Struct, frozen=True):
    """A match after which no event matches the atom for so many nanoseconds, found when they are over."""

    part: "Node"
    absent: Atom
    nanoseconds: int


class Window(msgspec.Struct, frozen=True):
    """So many nanoseconds, or so many events that match any atom of the composite; one of the two is None."""

    nanoseconds: int | None = None
    events: int | None = None


Node: TypeAlias = Atom | Or | And | Then | Within | Unless


class Item(msgspec.Struct, frozen=True):
    """One attribute of what a subscriber gets: from an atom's event, or a variable's value (atom None)."""

    atom: str | None
    attribute: str
    """The variable's name where there is no atom."""
    name: str


class Composite(msgspec.Struct, frozen=True):
    """A whole composite subscription."""

    root: Node
    items: tuple[Item, ...] = ()
    """What the subscriber gets; empty: everything, as `atom.attribute`."""
    consume: Literal["all", "once"] = "all"
    """Whether an event takes part in all matches, or in the first one only."""
    time: str | None = None
    """The attribute that says when an event happened; None: they happened when they came."""
    lateness: int = 0
    """For so many nanoseconds, later events wait for earlier ones that are under way."""

    def __post_init__(self) -> None:
        _check(self)

    def atoms(self) -> tuple[Atom, ...]:
        """All atoms that stand for an event of a match, as they are written."""
        return tuple(atom for atom, is_absent in walk(self.root) if not is_absent)

    def relevant(self, event: Event) -> bool:
        """Whether an event may stand for any atom; such events count in windows of events."""
        return any(atom.admits(event) for atom, _is_absent in walk(self.root))


def walk(node: Node) -> Iterator[tuple[Atom, bool]]:
    """All atoms of a tree as they are written, and whether each must be absent."""
    if isinstance(node, Atom):
        yield node, False
    elif isinstance(node, Within):
        yield from walk(node.part)
    elif isinstance(node, Unless):
        yield from walk(node.part)
        yield node.absent, True
    else:
        yield from walk(node.left)
        if isinstance(node, Then) and node.absent is not None:
            yield node.absent, True
        yield from walk(node.right)


def variables(node: Node) -> frozenset[str]:
    """The variables that every match of a tree binds."""
    if isinstance(node, Atom):
        return frozenset(variable for _attribute, variable in node.binds)
    if isinstance(node, Within | Unless):
        return variables(node.part)
    if isinstance(node, Or):
        return variables(node.left) & variables(node.right)
    return variables(node.left) | variables(node.right)


def _check(composite: Composite) -> None:
    atoms = list(walk(composite.root))
    if len(atoms) > ATOMS_MAX:
        raise LimitError(f"a composite has {len(atoms)} atoms", "ATOMS_MAX", ATOMS_MAX)
    names = [atom.name for atom, _absent in atoms]
    double = next((name for name in names if names.count(name) > 1), None)
    if double is not None:
        raise FilterError(f"two atoms are called {double!r}; give each a name of its own with 'as'")
    _check_bounded(composite.root, is_bounded=False)
    _check_unless(composite.root, is_outermost=True)
    known = {atom.name for atom in composite.atoms()}
    bound = {variable for atom in composite.atoms() for _attribute, variable in atom.binds}
    for item in composite.items:
        if item.atom is None and item.attribute not in bound:
            raise FilterError(f"no atom binds ${item.attribute}")
        if item.atom is not None and item.atom not in known:
            raise FilterError(f"no atom is called {item.atom!r}; there are {', '.join(sorted(known))}")
    given = [item.name for item in composite.items]
    twice = next((name for name in given if given.count(name) > 1), None)
    if twice is not None:
        raise FilterError(f"two results are called {twice!r}; rename one with 'as'")


def _check_bounded(node: Node, *, is_bounded: bool) -> None:
    """Refuse what would have to keep events for ever."""
    if isinstance(node, And | Then):
        if not is_bounded:
            raise FilterError("a composite of several events needs a window: add, say, 'within 10 min'")
    elif isinstance(node, Within):
        is_bounded = True
    if isinstance(node, Within | Unless):
        _check_bounded(node.part, is_bounded=is_bounded)
    elif not isinstance(node, Atom):
        _check_bounded(node.left, is_bounded=is_bounded)
        _check_bounded(node.right, is_bounded=is_bounded)


def _check_unless(node: Node, *, is_outermost: bool) -> None:
    """That nothing comes is known later than all else, so that nothing can follow it."""
    if isinstance(node, Unless):
        if not is_outermost:
            raise FilterError("'not … within' stands at the end of a composite, or of an alternative of it")
        if node.nanoseconds <= 0:
            raise FilterError("'not … within' needs a time above 0")
        _check_unless(node.part, is_outermost=False)
    elif isinstance(node, Or):
        _check_unless(node.left, is_outermost=is_outermost)
        _check_unless(node.right, is_outermost=is_outermost)
    elif isinstance(node, Within):
        _check_unless(node.part, is_outermost=False)
    elif not isinstance(node, Atom):
        _check_unless(node.left, is_outermost=False)
        _check_unless(node.right, is_outermost=False)
