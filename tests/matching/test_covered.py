"""Which rules another one covers, and the index that finds what may cover a rule."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clause_cases import clauses_of, keeping
from penstock import parse
from penstock.errors import PenstockError
from penstock.filters.expression import normalise
from penstock.filters.predicate import Predicate
from penstock.filters.relations import covers
from penstock.filters.valuesets import ValueSet
from penstock.filters.witnesses import excluded_points, is_open, witnesses
from penstock.matching import cover_index
from penstock.matching.cover_index import CoverIndex
from penstock.matching.covered import covered_rules
from penstock.model.values import Family
from strategies import all_constraints, mixed, plain_constraints

PLAIN = st.lists(plain_constraints(("x", "y", "z")).map(normalise), max_size=14)
CONJUNCTIONS = st.lists(
    st.lists(plain_constraints(), max_size=3).map(
        lambda some: parse(" and ".join(f"({one})" for one in map(_text, some)) or "true")
    ),
    max_size=12,
)
COMPLETE = st.lists(mixed(complete=True).map(normalise), max_size=8)
ANY = st.lists(st.one_of(mixed(complete=False), clauses_of(all_constraints())), max_size=8)

ELEMENTS = st.sampled_from(
    [
        "qty > 1",
        "qty > 2",
        "qty >= 2 and sku = 'a'",
        "sku like 'a%'",
        "sku != 'a'",
        "qty != 2",
        "qty not in (1, 2)",
        "sku is null",
        "this = 'x'",
        "true",
        "qty = 2 or sku = 'a'",
        "any(inner where this > 1)",
        "qty is not null",
        "qty between 1 and 3 and sku = 'a'",
    ]
)
ON_LISTS = st.lists(
    st.one_of(
        st.builds("any({} where {})".format, st.sampled_from(["items", "tags"]), ELEMENTS),
        st.builds("not any(items where {})".format, ELEMENTS),
        st.sampled_from(["x > 1", "x > 2", "items is not null", "items is null", "items = 'a'"]),
    ),
    min_size=1,
    max_size=3,
).flatmap(lambda parts: st.sampled_from([" and ".join(parts), " or ".join(parts)]))


def _text(constraint: object) -> str:
    return normalise(constraint).to_sql()  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _no_rules_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rules are indexed, though so few need not be; and lists are long soon."""
    monkeypatch.setattr(cover_index, "_FEW", -1)
    monkeypatch.setattr(cover_index, "_LONG", 4)


def is_covered(rules: Sequence[Predicate]) -> list[bool]:
    """Which rules another one covers: by trying all pairs."""
    return [
        rule.satisfiable
        and any(
            at != number and covers(other, rule) and (at < number or not covers(rule, other))
            for at, other in enumerate(rules)
        )
        for number, rule in enumerate(rules)
    ]


class TestCoveredRules:
    @given(st.one_of(PLAIN, CONJUNCTIONS, COMPLETE))
    def test_it_names_the_rules_that_trying_all_pairs_finds(self, rules: list[Predicate]) -> None:
        found = covered_rules(rules)
        assert [at is not None for at in found] == is_covered(rules)
        for number, at in enumerate(found):
            if at is not None:
                assert covers(rules[at], rules[number])
                assert found[at] is None

    @given(st.one_of(PLAIN, CONJUNCTIONS), st.integers(1, 3))
    def test_rounds_change_nothing(self, rules: list[Predicate], size: int) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("penstock.matching.covered._FIRST", size)
            patch.setattr("penstock.matching.covered._GROWTH", 2)
            found = covered_rules(rules)
        assert [at is not None for at in found] == is_covered(rules)
        assert all(found[at] is None for at in found if at is not None)

    @given(ANY)
    def test_with_patterns_and_clauses_what_is_left_still_says_all(self, given_rules: list[object]) -> None:
        with keeping():
            rules = [normalise(rule) for rule in given_rules]  # type: ignore[arg-type]
            found = covered_rules(rules)
            known = is_covered(rules)
        for number, at in enumerate(found):
            # Of those that cover each other in a circle, one is left.
            assert known[number] or at is None
            if at is not None:
                assert found[at] is None

    def test_a_chain_is_covered_by_its_first(self) -> None:
        rules = [f"x > {number}" for number in range(500)]
        assert covered_rules(rules) == [None] + [0] * 499

    def test_of_equal_rules_the_first_stays(self) -> None:
        assert covered_rules(["x = 1", "y = 2", "x = 1", "1 = x"]) == [None, None, 0, 0]

    def test_a_rule_that_matches_nothing_is_left_alone(self) -> None:
        assert covered_rules(["x > 1 and x < 0", "x = 1", "false", "true"]) == [None, 3, None, None]

    def test_a_union_covers(self) -> None:
        rules = ["(x < 5 and y < 3) or (x >= 5 and y < 4)", "x between 0 and 10 and y < 2", "y < 1"]
        assert covered_rules(rules) == [None, 0, None]

    def test_exclusions_are_found_by_what_they_exclude(self) -> None:
        rules = [f"x != {number}" for number in range(300)]
        index = CoverIndex([parse(rule) for rule in rules])
        asked = [parse("x != 7"), parse("x not in (3, 5)"), parse("x != 3 and y = 1")]
        found = [sorted(some.tolist()) for some in index.candidates(asked)]
        assert found == [[7], [3, 5], [3]]
        assert covered_rules([*rules, "x not in (3, 5)"])[-1] in (3, 5)

    def test_a_bad_rule_is_named(self) -> None:
        with pytest.raises(PenstockError) as caught:
            covered_rules(["x = 1", "x >"])
        assert caught.value.row == 1

    def test_no_rules(self) -> None:
        assert covered_rules([]) == []


class TestCoverIndex:
    @given(st.one_of(ANY, st.lists(all_constraints(), max_size=12)), ANY)
    def test_what_covers_is_among_the_candidates(
        self, generals: list[object], specials: list[object]
    ) -> None:
        with keeping():
            ours = [normalise(rule) for rule in generals]  # type: ignore[arg-type]
            theirs = ours + [normalise(rule) for rule in specials]  # type: ignore[arg-type]
            found = list(CoverIndex(ours).candidates(theirs))
            assert len(found) == len(theirs)
            for special, numbers in zip(theirs, found, strict=True):
                some = numbers.tolist()
                assert len({*some}) == len(some)
                assert {at for at, f in enumerate(ours) if f.satisfiable and covers(f, special)} <= {*some}

    def test_intervals_and_values_are_told_apart_without_comparing_them(self) -> None:
        rules = [
            f"x between {a} and {b} and s {end} '{word}'"
            for a in range(4)
            for b in range(a + 1, 5)
            for end in ("=", ">", "<=")
            for word in ("a", "ab", "b")
        ]
        predicates = [parse(rule) for rule in rules]
        found = list(CoverIndex(predicates).candidates(predicates))
        for special, numbers in zip(predicates, found, strict=True):
            assert sorted(numbers.tolist()) == [
                at for at, general in enumerate(predicates) if covers(general, special)
            ]

    @given(st.lists(ON_LISTS, max_size=12), st.lists(ON_LISTS, max_size=6))
    def test_what_covers_on_lists_is_among_the_candidates(
        self, generals: list[str], specials: list[str]
    ) -> None:
        ours = list(map(parse, generals))
        theirs = ours + list(map(parse, specials))
        for special, numbers in zip(theirs, CoverIndex(ours).candidates(theirs), strict=True):
            some = numbers.tolist()
            assert len({*some}) == len(some)
            assert {at for at, f in enumerate(ours) if f.satisfiable and covers(f, special)} <= {*some}

    @given(st.lists(ON_LISTS, max_size=12))
    def test_what_is_left_of_rules_on_lists_still_says_all(self, texts: list[str]) -> None:
        rules = list(map(parse, texts))
        for rule, above in zip(rules, covered_rules(rules), strict=True):
            assert above is None or covers(rules[above], rule)
        assert [above is not None for above in covered_rules(rules)] == is_covered(rules)

    def test_thresholds_on_elements_are_told_apart_without_comparing_them(self) -> None:
        predicates = [parse(f"t = {t} and any(items where qty > {k})") for t in range(3) for k in range(60)]
        index = CoverIndex(predicates)
        for at, numbers in enumerate(index.candidates(predicates)):
            assert sorted(numbers.tolist()) == list(range(at // 60 * 60, at + 1))
        # Nothing is tried on the elements of others.
        assert not index._boxes._computed

    def test_single_values_that_elements_lack_are_told_apart_without_comparing_them(self) -> None:
        predicates = [parse(f"any(items where qty != {k})") for k in range(60)]
        specials = [*predicates, parse("any(items where qty not in (3, 7, 99))")]
        found = [sorted(numbers.tolist()) for numbers in CoverIndex(predicates).candidates(specials)]
        assert found == [*([k] for k in range(60)), [3, 7]]

    def test_many_are_looked_up_in_slices(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cover_index, "_ROWS", 2)
        monkeypatch.setattr(cover_index, "_FOUND", 3)
        rules = [parse(f"x > {number}") for number in range(9)]
        found = list(CoverIndex(rules).candidates(rules))
        assert [sorted(some.tolist()) for some in found] == [list(range(at + 1)) for at in range(9)]


class TestWitnesses:
    @given(all_constraints())
    def test_they_are_in_the_set(self, constraint: object) -> None:
        for f in normalise(constraint).filters:  # type: ignore[arg-type]
            for states in f.conditions.values():
                found = witnesses(states)
                if found is not None:
                    assert all(map(states.admits, found))
                elif isinstance(states.kind, Family):
                    assert states.required or states.forbidden

    @given(all_constraints())
    def test_what_is_excluded_is_all_that_is_missing(self, constraint: object) -> None:
        for f in normalise(constraint).filters:  # type: ignore[arg-type]
            for states in f.conditions.values():
                points = excluded_points(states)
                if points is not None:
                    assert is_open(states)
                    whole = ValueSet(states.kind, states.cuts[:1])
                    assert len(whole.difference(states)[0].cuts) == 2 * len(points)

    @pytest.mark.parametrize("pattern", ["%a%", "%a_b%c", "a%b", "_", "%_%_%", "%a%b%"])
    def test_patterns_have_some(self, pattern: str) -> None:
        (f,) = parse(f"s like '{pattern}' and s not like '%zz%'").filters
        assert witnesses(f.conditions["s"]) is not None
