"""Detects a composite as events come, with bounded state.

Each node of the tree takes an event and yields the matches that end with it. `and` and `then` keep the
matches of their parts for as long as a window lets them become part of a larger one. What the reference finds
in a log, a detector finds in the same events one by one, in the same order.
"""

import heapq
from collections import Counter
from collections.abc import Iterator
from typing import Final, Protocol

from penstock.composites.expression import (
    And,
    Atom,
    Composite,
    Node,
    Or,
    Then,
    Unless,
    Window,
    Within,
    variables,
)
from penstock.composites.joins import Absent, Partial
from penstock.composites.matches import Bound, Detection, Happened, Match, agreed, match_of
from penstock.errors import LimitError
from penstock.model.events import Event
from penstock.model.values import Time

STATE_MAX: Final = 10_000
"""Partial matches and events that one composite may keep: some megabytes, and some milliseconds for an event
that goes with all of them. The oldest go first."""

DETECTIONS_MAX: Final = 1_000
"""Detections that one event may complete. More are left out, and counted."""

_ALL_TIME: Final = 2**63


class _Part(Protocol):
    """A node at work."""

    def take(self, happened: Happened) -> Iterator[Match]:
        """The matches that end with an event, which comes after all before."""

    def size(self) -> int:
        """How much is kept."""

    def shrink(self) -> bool:
        """Forget the oldest of what is kept; return whether there was anything."""


class _One:
    def __init__(self, atom: Atom) -> None:
        self._atom = atom

    def take(self, happened: Happened) -> Iterator[Match]:
        match = match_of(self._atom, happened)
        if match is not None:
            yield match

    def size(self) -> int:
        return 0

    def shrink(self) -> bool:
        return False


class _Either:
    def __init__(self, left: _Part, right: _Part) -> None:
        self._left, self._right = left, right

    def take(self, happened: Happened) -> Iterator[Match]:
        yield from self._left.take(happened)
        yield from self._right.take(happened)

    def size(self) -> int:
        return self._left.size() + self._right.size()

    def shrink(self) -> bool:
        return _shrink_larger(self._left, self._right)


class _Both:
    """`and`: what is new of one part, with all that is kept of the other."""

    def __init__(self, node: And, left: _Part, right: _Part, window: Window) -> None:
        self._left, self._right, self._window = left, right, window
        shared = variables(node.left) & variables(node.right)
        self._lefts, self._rights = Partial(shared), Partial(shared)

    def take(self, happened: Happened) -> Iterator[Match]:
        for kept in (self._lefts, self._rights):
            kept.expire(*_oldest(self._window, happened))
        # What is new of both parts ends with this event, which they cannot share.
        lefts, rights = list(self._left.take(happened)), list(self._right.take(happened))
        for left in lefts:
            self._lefts.put(left)
        for right in rights:
            self._rights.put(right)
        for left in lefts:
            for right in self._rights.like(left.bound):
                yield from _if_any(left.joined(right))
        for right in rights:
            for left in self._lefts.like(right.bound):
                yield from _if_any(left.joined(right))

    def size(self) -> int:
        return self._left.size() + self._right.size() + len(self._lefts) + len(self._rights)

    def shrink(self) -> bool:
        kept = max(self._lefts, self._rights, key=len)
        if len(kept) >= max(self._left.size(), self._right.size()) and len(kept):
            kept.drop_oldest()
            return True
        return _shrink_larger(self._left, self._right)


class _Sequence:
    """`then`: what is new of the right part, with what is kept of the left that ended before it began."""

    def __init__(self, node: Then, left: _Part, right: _Part, window: Window) -> None:
        self._left, self._right, self._window = left, right, window
        self._lefts = Partial(variables(node.left) & variables(node.right))
        self._absent = None if node.absent is None else Absent(node.absent)

    def take(self, happened: Happened) -> Iterator[Match]:
        at, relevant = _oldest(self._window, happened)
        self._lefts.expire(at, relevant)
        lefts, rights = list(self._left.take(happened)), list(self._right.take(happened))
        for left in lefts:
            self._lefts.put(left)
        if self._absent is not None:
            self._absent.expire(at, relevant)
            self._absent.put(happened)
        for right in rights:
            for left in self._lefts.like(right.bound):
                if left.last.place >= right.first.place:
                    continue
                both = left.joined(right)
                if both is not None and not self._is_forbidden(left, right, both.bound):
                    yield both

    def _is_forbidden(self, left: Match, right: Match, bound: Bound) -> bool:
        return self._absent is not None and self._absent.is_between(left, right, bound)

    def size(self) -> int:
        absent = 0 if self._absent is None else len(self._absent)
        return self._left.size() + self._right.size() + len(self._lefts) + absent

    def shrink(self) -> bool:
        absent = 0 if self._absent is None else len(self._absent)
        if len(self._lefts) >= max(self._left.size(), self._right.size(), absent) and len(self._lefts):
            self._lefts.drop_oldest()
            return True
        if self._absent is not None and absent >= max(self._left.size(), self._right.size()) and absent:
            self._absent.drop_oldest()
            return True
        return _shrink_larger(self._left, self._right)


class _Framed:
    """`within`: matches that fit a window."""

    def __init__(self, part: _Part, window: Window) -> None:
        self._part, self._window = part, window

    def take(self, happened: Happened) -> Iterator[Match]:
        return (match for match in self._part.take(happened) if fits(self._window, match))

    def size(self) -> int:
        return self._part.size()

    def shrink(self) -> bool:
        return self._part.shrink()


class _Pending:
    """`not … within`, at the end: matches that wait until nothing has come for long enough."""

    def __init__(self, node: Unless, part: _Part) -> None:
        self._node, self._part = node, part
        self._waiting: list[tuple[int, int, Match]] = []
        self._count = 0

    def take(self, happened: Happened) -> None:
        """An event has come: matches that it forbids are no more, and those that end with it wait."""
        absent = match_of(self._node.absent, happened)
        if absent is not None and self._waiting:
            left = [one for one in self._waiting if agreed(absent.bound, one[2].bound) is None]
            if len(left) < len(self._waiting):
                self._waiting = left
                heapq.heapify(left)
        for match in self._part.take(happened):
            self._count += 1
            due = match.last.at + self._node.nanoseconds
            heapq.heappush(self._waiting, (due, self._count, match))

    def due(self, at: int) -> Iterator[Detection]:
        """Those that nothing has come after, before a time."""
        while self._waiting and self._waiting[0][0] < at:
            due, _count, match = heapq.heappop(self._waiting)
            yield Detection(due, match)

    @property
    def next_due(self) -> int | None:
        """When the first of them is certain, unless something comes."""
        return self._waiting[0][0] if self._waiting else None

    def size(self) -> int:
        return self._part.size() + len(self._waiting)

    def shrink(self) -> bool:
        if len(self._waiting) >= self._part.size() and self._waiting:
            heapq.heappop(self._waiting)
            return True
        return self._part.shrink()


class Detector:
    """One composite at work. Events come in any order of their own time, at times that never fall."""

    def __init__(self, composite: Composite, *, state_max: int = STATE_MAX) -> None:
        self.composite = composite
        self._state_max = state_max
        self._dropped: Counter[str] = Counter()
        self._now = -_ALL_TIME
        """Up to here everything has been decided."""
        self._number = 0
        self._relevant = 0
        self._early: list[tuple[tuple[int, int], Event]] = []
        """Events that wait for earlier ones, by their own time."""
        self._taken: dict[int, None] = {}
        """The events that are used up."""
        self._immediate: list[_Part] = []
        self._pending: list[_Pending] = []
        for node in _alternatives(composite.root):
            if isinstance(node, Unless):
                self._pending.append(_Pending(node, _made(node.part, None)))
            else:
                self._immediate.append(_made(node, None))

    @property
    def dropped(self) -> dict[str, int]:
        """What was left out because a limit was reached, or because it came too late; by why."""
        return dict(self._dropped)

    @property
    def state(self) -> int:
        """How many partial matches and events are kept."""
        parts = sum(part.size() for part in self._immediate) + sum(one.size() for one in self._pending)
        return parts + len(self._early)

    @property
    def due(self) -> int | None:
        """When something will be certain after this time, though nothing comes; None if nothing will."""
        if self.composite.time is not None:
            return None
        return min((due for pending in self._pending if (due := pending.next_due) is not None), default=None)

    def take(self, event: Event, at: int) -> list[Detection]:
        """An event has come at a time; return what is found with it, or by that time."""
        if self.composite.time is None:
            found = list(self._decide(at))
            found += self._put(Happened(at, self._next(), event))
            return self._told(found)
        return self._told(list(self._take_timed(event)))

    def advance(self, at: int) -> list[Detection]:
        """Time has passed, and nothing has come; where events have a time of their own, that stands still."""
        return [] if self.composite.time is not None else self._told(list(self._decide(at)))

    def finish(self, at: int = _ALL_TIME) -> list[Detection]:
        """No more events will come that happened before a time; return what is found by then."""
        found = []
        while self._early:
            found += self._put_early()
        return self._told([*found, *self._decide(at)])

    def _next(self) -> int:
        self._number += 1
        return self._number - 1

    # Events with a time of their own

    def _take_timed(self, event: Event) -> Iterator[Detection]:
        own = event_time(self.composite, event)
        number = self._next()
        if own is None:
            self._dropped["untimed"] += 1
            return
        if own < self._now:
            self._dropped["late"] += 1
            return
        heapq.heappush(self._early, ((own, number), event))
        watermark = max(self._now, own - self.composite.lateness)
        while self._early and self._early[0][0][0] <= watermark:
            yield from self._put_early()
        yield from self._decide(watermark)
        self._shrink()

    def _put_early(self) -> list[Detection]:
        (at, number), event = heapq.heappop(self._early)
        return [*self._decide(at), *self._put(Happened(at, number, event))]

    # Events in order

    def _decide(self, at: int) -> Iterator[Detection]:
        """Nothing will come any more that happened before a time."""
        self._now = max(self._now, at)
        due = [one for pending in self._pending for one in pending.due(at)]
        due.sort(key=lambda one: one.order)
        yield from due

    def _put(self, happened: Happened) -> list[Detection]:
        self._relevant += self.composite.relevant(happened.event)
        happened = happened._replace(relevant=self._relevant)
        for pending in self._pending:
            pending.take(happened)
        found: list[Detection] = []
        for part in self._immediate:
            for match in part.take(happened):
                if len(found) >= DETECTIONS_MAX:
                    self._dropped["detections"] += 1
                    break
                found.append(Detection(happened.at, match))
        found.sort(key=lambda one: one.order)
        self._shrink()
        return found

    def _shrink(self) -> None:
        while self.state > self._state_max:
            parts: list[_Part | _Pending] = [*self._immediate, *self._pending]
            largest = max(parts, key=lambda part: part.size())
            if not largest.shrink():
                return
            self._dropped["state"] += 1

    def _told(self, found: list[Detection]) -> list[Detection]:
        """What subscribers are told; each event once, if it is so."""
        if self.composite.consume == "all":
            return found
        told = []
        for one in found:
            if self._taken.keys().isdisjoint(one.match.numbers):
                self._taken.update(dict.fromkeys(one.match.numbers))
                told.append(one)
        # What is forgotten here has long been dropped as part of a match.
        while len(self._taken) > 2 * self._state_max:
            del self._taken[next(iter(self._taken))]
        return told


def event_time(composite: Composite, event: Event) -> int | None:
    """When an event happened, by its own account."""
    value = event[composite.time] if composite.time is not None and composite.time in event else None
    return value.nanoseconds if isinstance(value, Time) else None


def fits(window: Window, match: Match) -> bool:
    """Whether the first and the last event of a match are close enough."""
    if window.events is not None:
        return match.last.relevant - match.first.relevant < window.events
    return match.last.at - match.first.at <= (window.nanoseconds or 0)


def _alternatives(node: Node) -> Iterator[Node]:
    """What a composite is found by; each alternative by itself, as some are found later than others."""
    if isinstance(node, Or):
        yield from _alternatives(node.left)
        yield from _alternatives(node.right)
    else:
        yield node


def _made(node: Node, window: Window | None) -> _Part:
    if isinstance(node, Atom):
        return _One(node)
    if isinstance(node, Or):
        return _Either(_made(node.left, window), _made(node.right, window))
    if isinstance(node, Within):
        return _Framed(_made(node.part, _narrower(window, node.window)), node.window)
    if isinstance(node, Unless) or window is None:
        raise LimitError("a composite without a window", "STATE_MAX", STATE_MAX)
    left, right = _made(node.left, window), _made(node.right, window)
    return _Both(node, left, right, window) if isinstance(node, And) else _Sequence(node, left, right, window)


def _narrower(outer: Window | None, inner: Window) -> Window:
    """What partial matches may be dropped by: both limits."""
    if outer is None:
        return inner
    spans = [w.nanoseconds for w in (outer, inner) if w.nanoseconds is not None]
    counts = [w.events for w in (outer, inner) if w.events is not None]
    return Window(min(spans, default=None), min(counts, default=None))


def _oldest(window: Window, happened: Happened) -> tuple[int, int]:
    """From which time, and from which relevant event on, a match may still be part of a larger one."""
    at = -_ALL_TIME if window.nanoseconds is None else happened.at - window.nanoseconds
    relevant = 0 if window.events is None else happened.relevant - window.events + 1
    return at, relevant


def _if_any(match: Match | None) -> Iterator[Match]:
    if match is not None:
        yield match


def _shrink_larger(left: _Part, right: _Part) -> bool:
    larger, smaller = (left, right) if left.size() >= right.size() else (right, left)
    return larger.shrink() or smaller.shrink()
