"""Random subscriptions and events over all operators and families, for tests of engines."""

import math

from hypothesis import strategies as st

from strategies import FAMILIES, all_constraints, disjunctions, expressions

NAMES = ("x", "y", "order.z")
LONGER = tuple("ab" * n + tail for n in (3, 40, 300) for tail in ("", "c", "é"))
VALUES = st.one_of(
    *(st.sampled_from(family) for family in FAMILIES),
    st.just(math.nan),
    st.sampled_from(LONGER),
    st.text("abé%_", max_size=6),
    st.integers(-(2**63), 2**63 - 1),
)
Attributes = dict[str, object]
EVENT = st.dictionaries(st.sampled_from((*NAMES, "other")), VALUES, min_size=1)
EVENTS = st.lists(EVENT, min_size=1, max_size=10)
PREDICATE = st.one_of(disjunctions(all_constraints(NAMES)), expressions(all_constraints(NAMES)))
IDS = st.one_of(st.sampled_from(("alice", "bob", "ça", "d")), st.integers(-2, 2))
SUBSCRIPTIONS = st.lists(st.tuples(IDS, PREDICATE), max_size=20)
