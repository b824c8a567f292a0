"""Who can reach whom, against asking from each broker; each broker is looked at once."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from penstock.sim.parts import part_of, parts_of

EDGES = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=20)


@given(EDGES, st.sets(st.integers(0, 11)))
def test_parts_are_what_each_broker_reaches(edges: list[tuple[int, int]], dead: set[int]) -> None:
    links = {(a, b) for x, y in edges for a, b in ((x, y), (y, x)) if not {a, b} & dead}
    names = [f"b{number}" for number in range(12) if number not in dead]
    reach = {(name, name) for name in names} | {(f"b{a}", f"b{b}") for a, b in links}
    for middle in names:
        reach |= {(a, d) for a, b in list(reach) if b == middle for c, d in list(reach) if c == middle}
    looked: Counter[str] = Counter()

    def near(name: str) -> list[str]:
        looked[name] += 1
        return [f"b{b}" for a, b in links if f"b{a}" == name]

    parts = parts_of(names, near)
    assert {(a, b) for part in parts for a in part for b in part} == reach
    assert looked == Counter(names)
    for name in names:
        assert part_of(name, near) == {b for a, b in reach if a == name}
