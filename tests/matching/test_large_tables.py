"""Tables large enough for lists, planes, sets and merges to be in use, against the reference."""

import random
import time
from pathlib import Path

import pyarrow as pa
import pytest

from penstock import Matcher
from penstock.errors import EventError, InputError
from penstock.filters.constraint import Constraint
from penstock.filters.filter import Filter
from penstock.filters.predicate import Predicate
from penstock.matching.reference import ReferenceMatcher
from penstock.model.names import Id

WORDS = ("", "a", "ab", "abc", "b", "ba", "bab", "é", "zz", "m", "mm")


def some_constraint(chance: random.Random, names: str) -> Constraint:
    name = chance.choice(names)
    if chance.random() < 0.6:
        value = chance.choice((chance.randrange(60), chance.randrange(600), 2.5, 2**53 + chance.randrange(3)))
        operator = chance.choice(
            ("=", "=", "!=", "<", ">", ">=", "<=", "between", "in", "not in", "not between")
        )
        if operator.endswith("between"):
            return Constraint(name, operator, (value, value + chance.choice((0, 1, 9, 100))))
        if operator.endswith("in"):
            return Constraint(
                name, operator, tuple(chance.randrange(60) for _ in range(chance.randrange(1, 9)))
            )
        return Constraint(name, operator, value)
    operator = chance.choice(
        (
            "=",
            "=",
            "!=",
            "<",
            ">",
            "in",
            "not in",
            "prefix",
            "suffix",
            "substring",
            "not substring",
            "like",
            "exists",
            "absent",
        )
    )
    if operator in ("exists", "absent"):
        return Constraint(name, operator)
    if operator in ("in", "not in"):
        return Constraint(name, operator, tuple(chance.choice(WORDS) for _ in range(3)))
    if operator == "like":
        return Constraint(name, operator, chance.choice(("a%b", "_b%", "%a_", "%", "b%b%b")))
    return Constraint(name, operator, chance.choice(WORDS))


def some_event(chance: random.Random, names: str) -> dict[str, object]:
    values = (chance.randrange(60), chance.randrange(600), 2.5, 2**53 + 1, True, *WORDS)
    return {name: chance.choice(values) for name in names if chance.random() < 0.7} or {"other": 1}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("filters", "ids"), [(400, 400), (3_000, 3_000), (3_000, 40)])
def test_random_tables(seed: int, filters: int, ids: int, tmp_path: Path) -> None:
    chance = random.Random(1000 * seed + filters + ids)
    names = "abxyz"[: chance.randrange(2, 6)]
    held: list[tuple[Id, Predicate]] = []
    for i in range(filters):
        constraints = [some_constraint(chance, names) for _ in range(chance.randrange(1, 5))]
        held.append((i % ids, Predicate((Filter(constraints),))))
    engine = Matcher(held)
    events = [some_event(chance, names) for _ in range(40)]
    expected = [ReferenceMatcher(held).match(event) for event in events]
    assert list(engine.match_batch(events)) == expected
    engine.learn(events)
    assert list(engine.match_batch(events)) == expected
    gone = chance.sample(range(ids), ids // 3)
    engine.remove_many(gone)
    left = [(key, predicate) for key, predicate in held if key not in set(gone)]
    expected = [ReferenceMatcher(left).match(event) for event in events]
    assert list(engine.match_batch(events)) == expected
    engine.save(tmp_path / "saved")
    assert list(Matcher.load(tmp_path / "saved").match_batch(events)) == expected


def test_ranges_and_longer_sets_in_one_list() -> None:
    m = Matcher(
        [("A", "x < 5 and b != 7"), ("B", "b != 95 and x < 90 and x != 30"), ("C", "b = 3"), ("D", "x = 1")]
    )
    assert m.match({"x": 65}) == []
    assert m.match({"x": 65, "b": 95}) == []
    assert m.match({"x": 65, "b": 94}) == ["B"]


def test_removing_ids_in_the_buffer_and_in_tables_at_once() -> None:
    m = Matcher()
    m.add("a", "x=1")
    m.match({"x": 1})
    m.add("a", "x=2")
    m.add("b", "x=1")
    m.remove_many(["a", "b"])
    assert (m.match({"x": 1}), len(m)) == ([], 0)
    m.add("d", "x=1")
    assert m.match({"x": 1}) == ["d"]


def test_few_ids_with_many_filters_are_reported_once() -> None:
    many = [("b", f"y > {i} and z != {i}") for i in range(3000)]
    m = Matcher([("a", "x > 0"), *many, ("c", "w = 1")])
    assert m.match({"x": 1, "y": 5000, "z": -1}) == ["a", "b"]


def test_an_id_in_the_buffer_is_reported_once_after_a_merge() -> None:
    m = Matcher((i, f"x = {i % 10}") for i in range(50_000))
    m.match_batch([{"x": 1}] * 1000)
    m.add(1, "x >= 0")
    for _ in range(2_000):
        if not m._store._mergers:
            break
        time.sleep(0.01)
    assert m.match({"x": 1}).count(1) == 1


def test_a_folder_that_is_not_ours_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"name": "ext"}')
    with pytest.raises(InputError, match="something else"):
        Matcher([("a", "x=1")]).save(tmp_path)
    assert (tmp_path / "manifest.json").read_text() == '{"name": "ext"}'


def test_dictionary_columns_whose_indices_lie_are_refused() -> None:
    column = pa.DictionaryArray.from_arrays(
        pa.array([0, 2**30, -(2**30)], pa.int32()), pa.array(["a", "b"]), safe=False
    )
    with pytest.raises(EventError, match="outside its dictionary"):
        Matcher([(1, "x = 'a'")]).match_batch(pa.table({"x": column}))
