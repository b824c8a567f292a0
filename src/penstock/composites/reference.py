"""Brute force: all detections of a finite log, straight from the definitions. The oracle of the detector."""

from collections.abc import Iterable, Iterator

from penstock.composites.expression import And, Atom, Composite, Node, Or, Then, Unless, Within
from penstock.composites.matches import Detection, Happened, Match, agreed, bound_by, match_of
from penstock.model.events import Event


def in_order(composite: Composite, events: Iterable[tuple[int, Event]]) -> list[Happened]:
    """Events with their times in nanoseconds, as they came, in the order of time."""
    found = [Happened(at, number, event) for number, (at, event) in enumerate(events)]
    found.sort(key=lambda happened: happened.place)
    count, counted = 0, []
    for happened in found:
        count += composite.relevant(happened.event)
        counted.append(happened._replace(relevant=count))
    return counted


def detections(composite: Composite, events: Iterable[tuple[int, Event]], until: int) -> list[Detection]:
    """All that is found in events that came at these times, up to a time."""
    log = in_order(composite, events)
    found = sorted(_found(composite.root, log), key=lambda one: one.order)
    found = [one for one in found if one.at <= until]
    return list(_each_once(found)) if composite.consume == "once" else found


def _each_once(found: Iterable[Detection]) -> Iterator[Detection]:
    taken: set[int] = set()
    for one in found:
        if taken.isdisjoint(one.match.numbers):
            taken.update(one.match.numbers)
            yield one


def _found(node: Node, log: list[Happened]) -> Iterator[Detection]:
    """Detections of a whole tree. A match is certain with its last event, or when nothing came after it."""
    if isinstance(node, Unless):
        for match in _matches(node.part, log):
            until = match.last.at + node.nanoseconds
            after = (one for one in log if one.place > match.last.place and one.at <= until)
            if not any(_is_met(node.absent, one, match) for one in after):
                yield Detection(until, match)
    elif isinstance(node, Or):
        yield from _found(node.left, log)
        yield from _found(node.right, log)
    else:
        for match in _matches(node, log):
            yield Detection(match.last.at, match)


def _matches(node: Node, log: list[Happened]) -> Iterator[Match]:
    if isinstance(node, Atom):
        for happened in log:
            match = match_of(node, happened)
            if match is not None:
                yield match
    elif isinstance(node, Or):
        yield from _matches(node.left, log)
        yield from _matches(node.right, log)
    elif isinstance(node, And):
        yield from _pairs(node, log)
    elif isinstance(node, Then):
        yield from _sequences(node, log)
    elif isinstance(node, Within):
        for match in _matches(node.part, log):
            if _fits(node, match):
                yield match


def _pairs(node: And | Then, log: list[Happened]) -> Iterator[Match]:
    rights = list(_matches(node.right, log))
    for left in _matches(node.left, log):
        for right in rights:
            both = left.joined(right)
            if both is not None:
                yield both


def _sequences(node: Then, log: list[Happened]) -> Iterator[Match]:
    rights = list(_matches(node.right, log))
    for left in _matches(node.left, log):
        for right in rights:
            both = left.joined(right)
            if both is None or left.last.place >= right.first.place:
                continue
            between = (one for one in log if left.last.place < one.place < right.first.place)
            if node.absent is None or not any(_is_met(node.absent, one, both) for one in between):
                yield both


def _is_met(absent: Atom, happened: Happened, match: Match) -> bool:
    bound = bound_by(absent, happened.event)
    return bound is not None and agreed(bound, match.bound) is not None


def _fits(node: Within, match: Match) -> bool:
    window = node.window
    if window.events is not None:
        return match.last.relevant - match.first.relevant < window.events
    return match.last.at - match.first.at <= (window.nanoseconds or 0)
