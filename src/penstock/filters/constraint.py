"""The constraint: an attribute, an operator, a value; true of an event or not.

Each operator turns its value into a `ValueSet`; that is all that the rest of the algebra sees. A
constraint is true only where the attribute is present and of the constraint's family; only `absent`
speaks of what is missing. Each operator has an opposite under the same rule: `not price > 5` is
`price <= 5`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from penstock.errors import FilterError, LimitError, PenstockError
from penstock.filters import cuts, lists, patterns
from penstock.filters.cuts import Cuts
from penstock.filters.order import LEAST, Point, canonical_number, successor
from penstock.filters.valuesets import (
    ABSENT,
    EXISTS,
    FULL,
    ValueSet,
    like,
    not_like,
    of_lists,
    prefix_cuts,
)
from penstock.model.decimals import ExactDecimal
from penstock.model.events import Event, Unsupported, as_event
from penstock.model.limits import LIST_VALUES_MAX, LITERAL_LENGTH_MAX
from penstock.model.names import check_name
from penstock.model.values import Family, Time, Value, to_value

if TYPE_CHECKING:
    from penstock.filters.predicate import Predicate


class Constraint:
    """One condition on one attribute: `Constraint("price", ">", 10)`.

    `operator` is a key of `OPPOSITES`. `value` is a value; for `between` a pair and for `in` a sequence
    of values; for `any` what an element of a list must match, a predicate or its text; for `exists` and
    `absent` it is None. `states` is what the constraint lets its attribute be, its canonical form: two
    constraints are equal when they say the same of the same attribute.
    """

    __slots__ = ("attribute", "operator", "states", "value")

    attribute: str
    operator: str
    value: Any
    states: ValueSet

    def __init__(self, attribute: str, operator: str, value: object = None) -> None:
        self.attribute = check_name(attribute)
        self.operator = operator
        self.value = value
        self.states = value_set(operator, value)

    @classmethod
    def of_states(cls, attribute: str, operator: str, value: object, states: ValueSet) -> "Constraint":
        """The constraint whose value set is known."""
        made = cls.__new__(cls)
        made.attribute, made.operator, made.value, made.states = attribute, operator, value, states
        return made

    def negated(self) -> "Constraint":
        """The opposite constraint, which is true of the other values of the family."""
        return Constraint(self.attribute, OPPOSITES[self.operator], self.value)

    def matches(self, event: Event | Mapping[str, object], *, unsupported: Unsupported = "refuse") -> bool:
        """Whether the constraint is true of the event."""
        return self.states.admits(as_event(event, unsupported).attributes.get(self.attribute))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Constraint):
            return NotImplemented
        return self.attribute == other.attribute and self.states == other.states

    def __hash__(self) -> int:
        return hash((self.attribute, self.states))

    def __repr__(self) -> str:
        value = "" if self.value is None else f", {self.value!r}"
        return f"Constraint({self.attribute!r}, {self.operator!r}{value})"

    def __reduce__(self) -> tuple[object, ...]:
        return Constraint, (self.attribute, self.operator, self.value)


def value_set(operator: str, value: object) -> ValueSet:
    """The value set of an operator and its value, or a FilterError that says what is wrong with them."""
    try:
        build = _BUILDERS.get(operator)
    except TypeError:  # not even hashable
        build = None
    if build is None:
        raise FilterError(f"there is no operator {operator!r:.40}; the operators are {', '.join(OPPOSITES)}")
    return build(value)


def literal(value: object) -> tuple[Family, Point]:
    """Check a value for a filter; return its family and its point in the family's order."""
    if type(value) is str:
        # The two cheap checks that nearly every literal passes.
        if len(value) <= LITERAL_LENGTH_MAX and value.isascii():
            return Family.STRING, value
    elif type(value) is int and -(2**63) <= value < 2**63:
        return Family.NUMBER, value
    return _other_literal(value)


def _other_literal(value: object) -> tuple[Family, Point]:
    try:
        accepted = to_value(value)
    except LimitError:
        raise
    except PenstockError as error:
        raise FilterError(f"a filter cannot ask for this value: {error}") from None
    if isinstance(accepted, str):
        if len(accepted) > LITERAL_LENGTH_MAX:
            what = f"a string in a filter has {len(accepted):,} characters"
            raise LimitError(what, "LITERAL_LENGTH_MAX", LITERAL_LENGTH_MAX)
        return Family.STRING, accepted
    if isinstance(accepted, Time):
        return Family.TIME, accepted.nanoseconds
    if isinstance(accepted, bool):
        return Family.BOOL, accepted
    if not math.isfinite(accepted):
        raise FilterError(f"a filter cannot ask for {accepted}: its numbers are finite")
    return Family.NUMBER, accepted if isinstance(accepted, ExactDecimal) else canonical_number(accepted)


def from_point(family: Family, point: Point) -> Value:
    """The value of a point in a family's order: the inverse of `literal`."""
    return Time(point) if family is Family.TIME else point


def _point_cuts(family: Family, point: Point) -> Cuts:
    following = successor(family, point)
    return (point,) if following is None else (point, following)


def _below(family: Family, point: Point | None) -> Cuts:
    """Everything before the point; everything at all for None, which stands after the last value."""
    least = LEAST[family]
    if point is None:
        return (least,)
    return () if point == least else (least, point)


def _equal(value: object) -> ValueSet:
    family, point = literal(value)
    return ValueSet(family, _point_cuts(family, point))


def _not_equal(value: object) -> ValueSet:
    family, point = literal(value)
    return ValueSet(family, cuts.complement(_point_cuts(family, point), LEAST[family]))


def _less(value: object) -> ValueSet:
    family, point = literal(value)
    return ValueSet(family, _below(family, point))


def _less_equal(value: object) -> ValueSet:
    family, point = literal(value)
    return ValueSet(family, _below(family, successor(family, point)))


def _greater(value: object) -> ValueSet:
    family, point = literal(value)
    following = successor(family, point)
    return ValueSet(family, () if following is None else (following,))


def _greater_equal(value: object) -> ValueSet:
    family, point = literal(value)
    return ValueSet(family, (point,))


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray | memoryview)


def _between(value: object) -> ValueSet:
    if not _is_list(value) or len(value) != 2:
        raise FilterError("between takes a pair of values, the lower and the upper end")
    (low_family, low), (high_family, high) = literal(value[0]), literal(value[1])
    if low_family is not high_family:
        raise FilterError(
            f"between takes two values of one family, not a {low_family.label} and a {high_family.label}"
        )
    at_least = ValueSet(low_family, (low,))
    return at_least.intersection(ValueSet(low_family, _below(low_family, successor(low_family, high))))


def _in(value: object) -> ValueSet:
    if not _is_list(value):
        raise FilterError("in takes a list of values")
    if not value:
        raise FilterError("an in list has at least one value")
    if len(value) > LIST_VALUES_MAX:
        raise LimitError(f"an in list has {len(value):,} values", "LIST_VALUES_MAX", LIST_VALUES_MAX)
    points = [literal(one) for one in value]
    family = points[0][0]
    if any(other is not family for other, _point in points):
        labels = sorted({other.label for other, _point in points})
        raise FilterError(f"an in list holds values of one family, not {' and '.join(labels)}")
    distinct = sorted({point for _family, point in points})
    return ValueSet(family, cuts.union_all([_point_cuts(family, point) for point in distinct]))


def _complement_of(build: Callable[[object], ValueSet]) -> Callable[[object], ValueSet]:
    def complement(value: object) -> ValueSet:
        positive = build(value)
        assert isinstance(positive.kind, Family)  # noqa: S101 - the builders here are of families
        return ValueSet(positive.kind, cuts.complement(positive.cuts, LEAST[positive.kind]))

    return complement


def _text(operator: str, value: object) -> str:
    family, point = literal(value)
    if family is not Family.STRING:
        raise FilterError(f"{operator} takes a string, not a {family.label}")
    return str(point)


def _prefix(value: object) -> ValueSet:
    return ValueSet(Family.STRING, prefix_cuts(_text("prefix", value)))


def _any(value: object) -> ValueSet:
    asked = _asked_of_elements(value)
    if not asked.filters:
        return ValueSet(Family.LIST, ())
    return of_lists((lists.condition(asked),), ())


def _none(value: object) -> ValueSet:
    asked = _asked_of_elements(value)
    return of_lists((), lists.alternatives(asked)) if asked.filters else FULL[Family.LIST]


def _asked_of_elements(value: object) -> "Predicate":
    from penstock.filters.parsing import as_predicate

    if isinstance(value, str):
        # Canonical texts, of which most are, are known.
        return lists.predicate_of(value)
    return as_predicate(value)  # type: ignore[arg-type]  # which refuses what it does not know


def _exists(value: object) -> ValueSet:
    return _presence("exists", value, EXISTS)


def _absent(value: object) -> ValueSet:
    return _presence("absent", value, ABSENT)


def _presence(operator: str, value: object, states: ValueSet) -> ValueSet:
    if value is not None:
        raise FilterError(f"{operator} takes no value")
    return states


_BUILDERS: Final[dict[str, Callable[[object], ValueSet]]] = {
    "=": _equal,
    "!=": _not_equal,
    "<": _less,
    "<=": _less_equal,
    ">": _greater,
    ">=": _greater_equal,
    "between": _between,
    "not between": _complement_of(_between),
    "in": _in,
    "not in": _complement_of(_in),
    "prefix": _prefix,
    "not prefix": _complement_of(_prefix),
    "suffix": lambda value: like(patterns.suffix(_text("suffix", value))),
    "not suffix": lambda value: not_like(patterns.suffix(_text("suffix", value))),
    "substring": lambda value: like(patterns.substring(_text("substring", value))),
    "not substring": lambda value: not_like(patterns.substring(_text("substring", value))),
    "like": lambda value: like(patterns.from_like(_text("like", value))),
    "not like": lambda value: not_like(patterns.from_like(_text("like", value))),
    "ilike": lambda value: like(patterns.from_ilike(_text("ilike", value))),
    "not ilike": lambda value: not_like(patterns.from_ilike(_text("ilike", value))),
    "regexp": lambda value: like(patterns.from_regex(_text("regexp", value))),
    "not regexp": lambda value: not_like(patterns.from_regex(_text("regexp", value))),
    "any": _any,
    "not any": _none,
    "exists": _exists,
    "absent": _absent,
}

OPPOSITES: Final = {
    "=": "!=",
    "!=": "=",
    "<": ">=",
    "<=": ">",
    ">": "<=",
    ">=": "<",
    "between": "not between",
    "not between": "between",
    "in": "not in",
    "not in": "in",
    "prefix": "not prefix",
    "not prefix": "prefix",
    "suffix": "not suffix",
    "not suffix": "suffix",
    "substring": "not substring",
    "not substring": "substring",
    "like": "not like",
    "not like": "like",
    "ilike": "not ilike",
    "not ilike": "ilike",
    "regexp": "not regexp",
    "not regexp": "regexp",
    "any": "not any",
    "not any": "any",
    "exists": "absent",
    "absent": "exists",
}
"""Every operator, and what `not` makes of it."""
