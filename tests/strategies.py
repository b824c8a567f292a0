"""Hypothesis strategies over small domains, chosen so that edge cases are common."""

from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from penstock.filters.constraint import Constraint
from penstock.filters.expression import And, Expression, Not, Or, normalise
from penstock.model.values import Time

NUMBERS: tuple[Any, ...] = (
    -1,
    0,
    -0.0,
    5e-324,
    0.5,
    1,
    1.0,
    2,
    2.5,
    2**53 - 1,
    2**53,
    2.0**53,
    2**53 + 1,
    2.0**53 + 2,
    -(2**53) - 1,
    2**63 - 1,
    2.0**63,
    -(2**63),
    1.7976931348623157e308,
    -1.7976931348623157e308,
    Decimal("2.500"),
    Decimal("0.1000000000000000001"),
    Decimal("0.1000000000000000002"),
    Decimal("2.50000000000000000001"),
    Decimal(2**53) + Decimal("0.5"),
    Decimal(2**63),
    Decimal("-1e-30"),
)
STRINGS = (
    "",
    "A",
    "AbC",
    "a",
    "a\0",
    "ab",
    "abc",
    "abcb",
    "b",
    "ba",
    "a\U0010ffff",
    "\U0010ffff",
    "\ud7ff",
    "\ue000",
    "%",
    "a_",
    "\\",
    "'",
)
PATTERNS = (
    *("", "%", "_", "a", "a%", "%a", "%b%", "_%", "%_", "%_%_%", "a_", "a_%", "ab%b", "a%b%c", "%ab", "%b%a"),
    *("_b%", "\\%", "%\\_", "\\\\%", "a\\%%", "%ba%", "ab%", "a%c", "__", "%\ud7ff"),
    *("A", "A%", "%B%", "1B%", "%\u1e9e", "K_"),
)
REGEXES = (
    *(
        "",
        "a",
        "^a",
        "b$",
        "^ab$",
        "a.c",
        "^a.?b",
        "[^a]",
        "(a|b)c",
        "a|^b",
        "^$",
        "b+",
        "(ab)*c",
        r"\bb",
        r"a\B",
        ".",
    ),
    *("(?i)A", "(?i)^aB.", "(?i)[A-B]{2}", "(?s)^.b", "(?s)^a.*c$", "c{2}", r"[\d\s]", "^[^\ud7ff]*$"),
)
TIMES = tuple(Time(n) for n in (-(2**63), -1, 0, 1, 10**9, 1_357_016_400 * 10**9, 2**63 - 1))
BOOLS = (False, True)
NAMES = ("x", "y")

FAMILIES = (NUMBERS, STRINGS, TIMES, BOOLS)
ORDERED = ("=", "!=", "<", "<=", ">", ">=")


def values(pool: tuple[object, ...]) -> st.SearchStrategy[object]:
    return st.sampled_from(pool)


def pair(pool: tuple[object, ...]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.tuples(values(pool), values(pool))


def several(pool: tuple[object, ...]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(values(pool), min_size=1, max_size=3).map(tuple)


def plain_constraints(
    names: tuple[str, ...] = NAMES, families: tuple[tuple[object, ...], ...] = FAMILIES
) -> st.SearchStrategy[Constraint]:
    """Constraints for which relations are complete: no suffix, substring or LIKE."""
    name = st.sampled_from(names)
    choices: list[st.SearchStrategy[Constraint]] = []
    for pool in families:
        choices += [
            st.builds(Constraint, name, st.sampled_from(ORDERED), values(pool)),
            st.builds(Constraint, name, st.sampled_from(("between", "not between")), pair(pool)),
            st.builds(Constraint, name, st.sampled_from(("in", "not in")), several(pool)),
        ]
        if pool is STRINGS:
            operators = st.sampled_from(("prefix", "not prefix"))
            choices.append(st.builds(Constraint, name, operators, values(pool)))
    if families is FAMILIES:
        choices.append(st.builds(Constraint, name, st.sampled_from(("exists", "absent"))))
    return st.one_of(choices)


def shapes(
    names: tuple[str, ...] = NAMES, families: tuple[tuple[object, ...], ...] = FAMILIES
) -> list[tuple[str, st.SearchStrategy[Constraint]]]:
    """Constraints of one operator on one attribute and one family, and the operator."""
    return [
        (operator, st.builds(Constraint, st.just(name), st.just(operator), arguments))
        for name in names
        for pool in families
        for operators, arguments in (
            (ORDERED, values(pool)),
            (("between", "not between"), pair(pool)),
            (("in", "not in"), several(pool)),
        )
        for operator in operators
    ]


def like_constraints(names: tuple[str, ...] = NAMES) -> st.SearchStrategy[st.SearchStrategy[Constraint]]:
    """For each example one shape of constraints, or two: the rules of a user are alike.

    Where every operator occurs so does every kind of cut, and what happens without one is never seen.
    """
    each = st.sampled_from([constraints for _, constraints in shapes(names)])
    return st.lists(each, min_size=1, max_size=2).map(st.one_of)


def pattern_constraints(names: tuple[str, ...] = NAMES) -> st.SearchStrategy[Constraint]:
    name = st.sampled_from(names)
    operators = ("suffix", "not suffix", "substring", "not substring")
    return st.one_of(
        st.builds(Constraint, name, st.sampled_from(operators), values(STRINGS)),
        st.builds(
            Constraint, name, st.sampled_from(("like", "not like", "ilike", "not ilike")), values(PATTERNS)
        ),
        st.builds(Constraint, name, st.sampled_from(("regexp", "not regexp")), values(REGEXES)),
    )


def scalar_constraints(names: tuple[str, ...] = NAMES) -> st.SearchStrategy[Constraint]:
    """Constraints on values that are no lists."""
    return st.one_of(plain_constraints(names), pattern_constraints(names))


class OfElements(Constraint):
    """A constraint on a list that knows what was said of elements, for the oracle."""

    __slots__ = ("asked",)

    def __init__(self, attribute: str, operator: str, asked: Expression) -> None:
        super().__init__(attribute, operator, normalise(asked))
        self.asked = asked


def list_constraints(names: tuple[str, ...] = NAMES, depth: int = 1) -> st.SearchStrategy[Constraint]:
    """Constraints on lists: of values, of records, and of lists."""
    few = (NUMBERS[:8], STRINGS[:6], BOOLS)
    leaves: list[st.SearchStrategy[Constraint]] = [
        plain_constraints(("this",), few),
        plain_constraints(("this", "a"), few),
        pattern_constraints(("this",)),
    ]
    if depth:
        leaves.append(st.deferred(lambda: list_constraints(("this", "a"), depth - 1)))
    asked = expressions(st.one_of(leaves), max_leaves=3)
    return st.builds(OfElements, st.sampled_from(names), st.sampled_from(("any", "not any")), asked)


def all_constraints(names: tuple[str, ...] = NAMES) -> st.SearchStrategy[Constraint]:
    return st.one_of(plain_constraints(names), pattern_constraints(names), list_constraints(names))


def expressions(leaves: st.SearchStrategy[Constraint], max_leaves: int = 5) -> st.SearchStrategy[Expression]:
    def extend(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
        parts = st.lists(inner, min_size=0, max_size=3)
        return st.one_of(st.builds(And, parts), st.builds(Or, parts), st.builds(Not, inner))

    return st.recursive(leaves, extend, max_leaves=max_leaves)


def conjunctions(leaves: st.SearchStrategy[Constraint], max_size: int = 4) -> st.SearchStrategy[And]:
    return st.lists(leaves, min_size=0, max_size=max_size).map(And)


def disjunctions(leaves: st.SearchStrategy[Constraint], max_size: int = 3) -> st.SearchStrategy[Or]:
    return st.lists(conjunctions(leaves, 3), min_size=0, max_size=max_size).map(Or)


def mixed(complete: bool) -> st.SearchStrategy[Expression]:
    """Expressions of several shapes; with `complete`, only such as the relations are complete for."""
    leaves = plain_constraints() if complete else all_constraints()
    one_family = st.sampled_from(FAMILIES).flatmap(
        lambda pool: disjunctions(plain_constraints(("x", "y"), (pool,)))
    )
    return st.one_of(expressions(leaves), disjunctions(leaves), one_family)
