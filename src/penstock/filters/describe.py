"""From the canonical form back to an expression that a person would write.

Each language prints from here, so all print the same choice of operators. For every value set one way is
chosen, by the set alone: points as `=` and `in`, their complement as `!=` and `not in`, ranges by their
ends, of times the simpler one is printed (`<= 05:00` rather than `< 05:00:00.000000001`).
"""

import math

from penstock.filters import cuts, lists, patterns
from penstock.filters.constraint import Constraint, from_point
from penstock.filters.cuts import Cuts
from penstock.filters.expression import And, Expression, Or
from penstock.filters.filter import Filter
from penstock.filters.order import LEAST, After, Point, after_prefix, predecessor, successor
from penstock.filters.predicate import Predicate
from penstock.filters.valuesets import Presence, ValueSet
from penstock.filters.wildcards import RUN
from penstock.model.limits import LIST_VALUES_MAX
from penstock.model.values import Family, Time

Interval = tuple[Point, Point | None]


def describe(predicate: Predicate) -> Expression:
    """The predicate as an expression: constraints where one says it all, else And and Or of them."""
    # Filters of one predicate have many conditions in common: each is described once.
    known: dict[tuple[str, ValueSet], list[Expression]] = {}
    return _one_or(Or, [describe_filter(f, known) for f in predicate.filters])


def describe_filter(
    f: Filter, known: dict[tuple[str, ValueSet], list[Expression]] | None = None
) -> Expression:
    """The filter as a conjunction; parts that need a disjunction are Or of constraints on one attribute.

    What is in `known` is not described again, but taken from there.
    """
    if not f.satisfiable:
        return Or(())
    known = {} if known is None else known
    parts: list[Expression] = []
    for item in f.conditions.items():
        described = known.get(item)
        if described is None:
            described = known[item] = describe_states(*item)
        parts += described
    for clause in f.clauses:
        parts.append(_one_or(Or, [describe_filter(alternative, known) for alternative in clause]))
    return _one_or(And, parts)


def describe_states(name: str, states: ValueSet) -> list[Expression]:
    """One attribute's value set as the parts of a conjunction."""
    if states.kind is Presence.EXISTS:
        return [Constraint(name, "exists")]
    if states.kind is Presence.ABSENT:
        return [Constraint(name, "absent")]
    assert isinstance(states.kind, Family)  # noqa: S101 - NaN alone cannot be asked for
    if states.kind is Family.LIST:
        return _describe_lists(name, states)
    likes: list[Expression] = [_describe_pattern(name, pattern, "") for pattern in states.required]
    likes += [_describe_pattern(name, pattern, "not ") for pattern in states.forbidden]
    if likes and _said_by(states):
        return likes
    return [*_describe_cuts(name, states.kind, states.cuts), *likes]


def _describe_lists(name: str, states: ValueSet) -> list[Expression]:
    # Not by their builders: these would print, for each level of conditions that are in one another.
    asked: list[Expression] = [
        Constraint.of_states(name, "any", one, ValueSet(Family.LIST, (0,), (one,))) for one in states.required
    ]
    asked += [
        Constraint.of_states(name, "not any", one, ValueSet(Family.LIST, (0,), (), (one,)))
        for one in states.forbidden
    ]
    return asked or [Constraint(name, "any", lists.ANY)]


def _said_by(states: ValueSet) -> bool:
    """Whether the patterns alone say what the cuts say: all strings, or a required pattern's prefix."""
    if states.cuts == ("",):
        return True
    prefixes = {patterns.literal_prefix(pattern) for pattern in states.required}
    return any((p, after_prefix(p)) == states.cuts for p in prefixes if after_prefix(p) is not None)


def _one_or(connective: type[And] | type[Or], parts: list[Expression]) -> Expression:
    return parts[0] if len(parts) == 1 else connective(tuple(parts))


def _describe_pattern(name: str, pattern: patterns.Pattern, negation: str) -> Constraint:
    if patterns.is_regex(pattern):
        return Constraint(name, f"{negation}regexp", patterns.regex_text(pattern))
    if patterns.ignores_case(pattern):
        return Constraint(name, f"{negation}ilike", patterns.to_like(pattern))
    first, middle, last = pattern.partition(RUN)
    if middle and not first and not patterns.has_wildcard(last):
        return Constraint(name, f"{negation}suffix", last)
    inner = pattern[1:-1]
    if pattern == RUN + inner + RUN and not patterns.has_wildcard(inner):
        return Constraint(name, f"{negation}substring", inner)
    return Constraint(name, f"{negation}like", patterns.to_like(pattern))


def _describe_cuts(name: str, family: Family, cut: Cuts) -> list[Expression]:
    pieces = cuts.intervals(cut)
    points = [piece for piece in pieces if _is_point(family, piece)]
    if len(points) == len(pieces):
        return [_one_or(Or, _describe_points(name, family, points, "=", "in"))]
    hull = (cut[0], None if len(cut) & 1 else cut[-1])
    holes = cuts.intervals(cuts.difference((cut[0],) if hull[1] is None else hull, cut, LEAST[family]))
    if all(_is_point(family, hole) or _is_prefix(family, hole) for hole in holes):
        return _describe_holes(name, family, hull, holes)
    if len(holes) == 1 and hull == (LEAST[family], None):
        low_operator, low = _low_end(family, holes[0][0])
        high_operator, high = _high_end(family, holes[0][1])
        if (low_operator, high_operator) == (">=", "<="):
            return [Constraint(name, "not between", (low, high))]
    alternatives: list[Expression] = []
    if points:
        alternatives += _describe_points(name, family, points, "=", "in")
    ranges = [piece for piece in pieces if not _is_point(family, piece)]
    alternatives += [_one_or(And, _describe_interval(name, family, piece)) for piece in ranges]
    return [Or(tuple(alternatives))]


def _describe_holes(name: str, family: Family, hull: Interval, holes: list[Interval]) -> list[Expression]:
    """A range but for some values or prefixes."""
    parts: list[Expression] = []
    if not holes or hull != (LEAST[family], None):
        parts += _describe_interval(name, family, hull)
    points = [hole for hole in holes if _is_point(family, hole)]
    if points:
        parts += _describe_points(name, family, points, "!=", "not in")
    return parts + [Constraint(name, "not prefix", hole[0]) for hole in holes if not _is_point(family, hole)]


def _is_point(family: Family, piece: Interval) -> bool:
    start, end = piece
    return successor(family, start) == end and not _is_infinite(start)


def _is_prefix(family: Family, piece: Interval) -> bool:
    start, end = piece
    return family is Family.STRING and bool(start) and end is not None and end == after_prefix(start)


def _is_infinite(point: Point) -> bool:
    """Whether the point is a double that no filter may write."""
    return isinstance(point, float) and math.isinf(point)


def _describe_points(
    name: str, family: Family, points: list[Interval], one: str, many: str
) -> list[Expression]:
    """Single values, in as few lists as their limit allows."""
    values = tuple(from_point(family, start) for start, _end in points)
    if len(values) == 1:
        return [Constraint(name, one, values[0])]
    lists = range(0, len(values), LIST_VALUES_MAX)
    return [Constraint(name, many, values[at : at + LIST_VALUES_MAX]) for at in lists]


def _describe_interval(name: str, family: Family, piece: Interval) -> list[Expression]:
    start, end = piece
    if start == LEAST[family]:
        if end is not None:
            return [Constraint(name, *_high_end(family, end))]
        return _describe_whole(name, family)
    if end is None:
        return [Constraint(name, *_low_end(family, start))]
    if _is_prefix(family, piece):
        return [Constraint(name, "prefix", start)]
    low_operator, low = _low_end(family, start)
    high_operator, high = _high_end(family, end)
    if (low_operator, high_operator) == (">=", "<="):
        return [Constraint(name, "between", (low, high))]
    return [Constraint(name, low_operator, low), Constraint(name, high_operator, high)]


def _describe_whole(name: str, family: Family) -> list[Expression]:
    """Every value of the family, which no single operator says of numbers and times."""
    if family is Family.STRING:
        return [Constraint(name, ">=", "")]
    if family is Family.BOOL:
        return [Constraint(name, "in", (False, True))]
    middle = from_point(family, 0)
    return [Or((Constraint(name, "<", middle), Constraint(name, ">=", middle)))]


def _low_end(family: Family, start: Point) -> tuple[str, object]:
    before = predecessor(family, start)
    if before is not None and _plainness(family, before) < _plainness(family, start):
        return ">", from_point(family, before)
    return ">=", from_point(family, start)


def _high_end(family: Family, end: Point) -> tuple[str, object]:
    before = predecessor(family, end)
    if before is not None and _plainness(family, before) < _plainness(family, end):
        return "<=", from_point(family, before)
    return "<", from_point(family, end)


def _plainness(family: Family, point: Point) -> tuple[bool, int]:
    """The smaller, the more likely a person wrote this end: a value, of few characters."""
    if family is Family.TIME:
        return False, len(str(Time(point)))
    return isinstance(point, After), len(str(point))
