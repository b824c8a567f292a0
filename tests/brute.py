"""The oracle: what an expression means, said as plainly as can be and with none of the algebra's code.

`holds` evaluates an expression on an event by the rules of docs/FILTERS.md; `grid` makes events from the
constants of expressions, dense enough that two expressions without patterns that agree on the grid agree
everywhere: each constant, its neighbours on both sides, each family's extremes, NaN, and absence.
"""

import itertools
import math
import re
from collections.abc import Callable, Iterator
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import Any

from penstock import Event
from penstock.filters.constraint import Constraint
from penstock.filters.expression import And, Expression, Not, Or
from penstock.model.values import Time

State = bool | int | float | Decimal | str | Time | tuple[Any, ...] | None

EXTREMES: tuple[State, ...] = (
    None,
    math.nan,
    math.inf,
    -math.inf,
    False,
    True,
    "",
    "\U0010ffff\U0010ffff",
    Time(-(2**63)),
    Time(2**63 - 1),
    (0,),
    ("a", Event({"a": 0})),
)


def holds(expression: Expression, event: dict[str, State], negated: bool = False) -> bool:
    """Whether the expression, or its opposite, is true of the event."""
    if isinstance(expression, Not):
        return holds(expression.part, event, not negated)
    if isinstance(expression, And):
        return (any if negated else all)(holds(part, event, negated) for part in expression.parts)
    if isinstance(expression, Or):
        return (all if negated else any)(holds(part, event, negated) for part in expression.parts)
    return constraint_holds(expression, event.get(expression.attribute), negated)


def constraint_holds(constraint: Constraint, state: State, negated: bool = False) -> bool:
    """Whether a constraint, or its opposite, is true of an attribute in a state (None: absent)."""
    operator, value = constraint.operator, constraint.value
    if operator in ("any", "not any"):
        found = isinstance(state, tuple) and any(holds(constraint.asked, record(each)) for each in state)  # type: ignore[attr-defined]
        return isinstance(state, tuple) and found is ((operator == "any") is not negated)
    if operator in ("exists", "absent"):
        return (state is not None) is ((operator == "exists") is not negated)
    sample = value[0] if operator.endswith(("in", "between")) else value
    if state is None or kind(state) != kind(sample) or state != state:
        return False
    if operator.startswith("not "):
        operator, negated = operator.removeprefix("not "), not negated
    if kind(state) == "number":
        state = exactly(state)
        value = tuple(map(exactly, value)) if isinstance(value, tuple | list) else exactly(value)
    return OPERATORS[operator](state, value) is not negated


def record(element: Any) -> dict[str, State]:
    """An element of a list as the event that conditions on it look at."""
    return dict(element) if isinstance(element, Event) else {"this": element}


def exactly(number: Any) -> Decimal:
    """What a number stands for: an integer of 64 bits for itself, other doubles for what they print as."""
    if isinstance(number, float) and not (number.is_integer() and -(2**63) <= number < 2**63):
        return Decimal(repr(number))
    return Decimal(number)


def kind(state: State) -> str:
    """The family, found without the model's help."""
    numbers = (int, float, Decimal)
    families = ("bool", bool), ("number", numbers), ("string", str), ("time", Time), ("list", tuple)
    for name, types in families:
        if isinstance(state, types):
            return name
    raise AssertionError(state)


def like(text: str, pattern: str) -> bool:
    """LIKE by way of a regular expression."""
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    wild = {"%": ".*", "_": "."}
    regex = "".join(wild.get(part, re.escape(part[-1])) for part in parts)
    return re.fullmatch(regex, text, re.DOTALL) is not None


def ilike(text: str, pattern: str) -> bool:
    """ILIKE, character by character: each is like those that have its simple case folding."""
    return like("".join(map(folded, text)), "".join(map(folded, pattern)))


def folded(character: str) -> str:
    """Unicode's simple case folding, as Python's tables have it."""
    full = character.casefold()
    return full if len(full) == 1 else character.lower() if len(character.lower()) == 1 else character


def regexp(text: str, expression: str) -> bool:
    """An expression that both understand, found by Python's, which backtracks; `$` is the end of the text."""
    if expression.startswith("(?i)"):
        text, pieces = "".join(map(folded, text)), re.findall(r"\\.|[^\\]+", expression.removeprefix("(?i)"))
        expression = "".join(piece if piece[0] == "\\" else "".join(map(folded, piece)) for piece in pieces)
    expression = re.sub(r"\\z", r"\\Z", re.sub(r"(?<!\\)\$", r"\\Z", expression))
    return re.search(expression, text, re.ASCII) is not None


OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda v, c: v == c,
    "!=": lambda v, c: v != c,
    "<": lambda v, c: v < c,
    "<=": lambda v, c: v <= c,
    ">": lambda v, c: v > c,
    ">=": lambda v, c: v >= c,
    "between": lambda v, c: c[0] <= v <= c[1],
    "in": lambda v, c: v in c,
    "prefix": lambda v, c: v.startswith(c),
    "suffix": lambda v, c: v.endswith(c),
    "substring": lambda v, c: c in v,
    "like": like,
    "ilike": ilike,
    "regexp": regexp,
}


def constraints(expression: Expression) -> Iterator[Constraint]:
    """All constraints of an expression."""
    if isinstance(expression, Constraint):
        yield expression
    elif isinstance(expression, Not):
        yield from constraints(expression.part)
    else:
        for part in expression.parts:
            yield from constraints(part)


PRECISE = Context(prec=1_000, Emin=MIN_EMIN, Emax=MAX_EMAX)


def neighbours(value: State) -> Iterator[State]:
    """The value, and what lies just below and just above it."""
    yield value
    if isinstance(value, bool | tuple) or value is None:
        return
    if isinstance(value, int | float | Decimal) and math.isfinite(value):
        # A hair above and below: there are numbers between any two.
        here = exactly(value)
        hair = Decimal((0, (1,), (here.adjusted() if here else 0) - 60))
        beside = [PRECISE.add(here, hair), PRECISE.subtract(here, hair)]
        yield from (n for n in beside if abs(n) < Decimal("1e308"))
    if isinstance(value, Decimal):
        value = float(value)
        if not math.isfinite(value):
            return
        yield value
    if isinstance(value, int | float):
        yield from (math.nextafter(value, math.inf), math.nextafter(value, -math.inf), float(value))
        if isinstance(value, int) or value.is_integer():
            yield from (n for n in (int(value) - 1, int(value), int(value) + 1) if -(2**63) <= n < 2**63)
    elif isinstance(value, str):
        yield value + "\0"
        yield value + "a"
        yield value[:-1]
        yield value.swapcase()
        if value:
            last = ord(value[-1])
            yield from (value[:-1] + chr(near) for near in (last - 1, last + 1) if _is_character(near))
            yield value[:-1] + ("\ue000" if last == 0xD7FF else "\ud7ff" if last == 0xE000 else value[-1])
            # Just below the least string above a prefix that ends in the last code point.
            yield value.rstrip("\U0010ffff")[:-1] + chr(min(ord(value[0]) + 1, 0xD7FF))
    elif isinstance(value, Time):
        near = (value.nanoseconds - 1, value.nanoseconds + 1)
        yield from (Time(n) for n in near if -(2**63) <= n < 2**63)


def _is_character(code: int) -> bool:
    return 0 <= code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF


ELEMENTS_MAX = 8
"""Elements of each condition on a list that lists are made of."""


def lists(asked: list[Expression]) -> Iterator[State]:
    """Lists of one element and of two, which tell apart what is asked of elements, as far as so few can."""
    elements: list[Any] = []
    for expression in asked:
        events = list(grid(expression))
        for event in events[:: 1 + len(events) // ELEMENTS_MAX]:
            alone = set(event) == {"this"}
            elements.append(event["this"] if alone else Event(event))
    for element in elements:
        yield (element,)
    yield from itertools.combinations(elements[:: 1 + len(elements) // ELEMENTS_MAX], 2)


def grid(*expressions: Expression) -> Iterator[dict[str, State]]:
    """Events that tell the expressions apart, if anything does; of lists, only some of these."""
    states: dict[str, dict[tuple[str, State], State]] = {}
    asked: dict[str, list[Expression]] = {}
    for expression in expressions:
        for constraint in constraints(expression):
            known = states.setdefault(constraint.attribute, {})
            value = constraint.value
            if constraint.operator in ("any", "not any"):
                asked.setdefault(constraint.attribute, []).append(constraint.asked)  # type: ignore[attr-defined]
                value = None
            values = value if isinstance(value, tuple | list) else (value,)
            for state in (*EXTREMES, *(n for v in values for n in neighbours(v))):
                odd = state != state or isinstance(state, tuple)
                known[("" if state is None else kind(state), repr(state) if odd else state)] = state
    for name, said in asked.items():
        states[name].update({("list", repr(state)): state for state in lists(said)})
    names = sorted(states) or ["x"]
    for combination in itertools.product(*(states.get(n, {("", None): None}).values() for n in names)):
        event: dict[str, State] = {n: s for n, s in zip(names, combination, strict=True) if s is not None}
        yield event or {"another": True}
