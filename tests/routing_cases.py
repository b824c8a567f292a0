"""Predicates that cover each other often, and what a covering table should say of them, by brute force."""

from collections.abc import Iterable, Sequence
from functools import lru_cache

from hypothesis import strategies as st

from penstock.filters import relations
from penstock.filters.constraint import Constraint
from penstock.filters.expression import normalise
from penstock.filters.filter import Filter
from penstock.filters.predicate import Predicate
from strategies import mixed

ENDS = st.integers(0, 7)


def between(name: str, ends: tuple[int, int]) -> Constraint:
    return Constraint(name, "between", (min(ends), max(ends)))


def ranges(names: Sequence[str]) -> st.SearchStrategy[Predicate]:
    """One range on each attribute."""
    one = st.tuples(*(st.tuples(ENDS, ENDS) for _ in names))
    return one.map(lambda all_ends: Predicate([Filter(map(between, names, all_ends))]))


def box_pairs() -> st.SearchStrategy[Predicate]:
    """Two boxes, which may cover a third that neither covers, and which may be cut in different ways."""
    return st.tuples(ranges("xy"), ranges("xy")).map(lambda p: Predicate(p[0].filters + p[1].filters))


RANGES = st.one_of(ranges("x"), ranges("xy"), ranges("xy"), ranges("y"))
COMPLETE = st.one_of(RANGES, box_pairs(), mixed(complete=True).map(normalise))
ANY = st.one_of(RANGES, mixed(complete=False).map(normalise))


@lru_cache(maxsize=2**14)
def covers(f: Predicate, g: Predicate) -> bool:
    """As the algebra says, remembered: brute force asks the same again and again."""
    return relations.covers(f, g)


def strictly_covers(f: Predicate, g: Predicate) -> bool:
    return covers(f, g) and not covers(g, f)


def classes(items: Iterable[Predicate]) -> list[list[Predicate]]:
    """The items, those that are identical together."""
    found: list[list[Predicate]] = []
    for item in items:
        for known in found:
            if covers(known[0], item) and covers(item, known[0]):
                known.append(item)
                break
        else:
            found.append([item])
    return found


def immediate(f: Predicate, g: Predicate, items: Iterable[Predicate]) -> bool:
    """Whether f covers g with none of the items between."""
    return strictly_covers(f, g) and not any(strictly_covers(f, h) and strictly_covers(h, g) for h in items)


def is_root(item: Predicate, items: Iterable[Predicate]) -> bool:
    return not any(strictly_covers(other, item) for other in items)
