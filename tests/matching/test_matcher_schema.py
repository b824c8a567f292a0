"""A matcher with a schema of events: rules that do not fit are refused, events that do not are reported."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import DisagreementError
from penstock.filters.parsing import parse
from penstock.filters.schema_check import SchemaCheck
from penstock.matching.matcher import Matcher
from penstock.model.fitting import Fitting
from penstock.model.schema import Schema
from penstock.model.values import Family

pytestmark = pytest.mark.usefixtures("warm_kernels")

SCHEMA = Schema.of_families(
    {"amount": frozenset({Family.NUMBER}), "country": frozenset({Family.STRING}), "blob": frozenset()}
)


def test_a_rule_that_does_not_fit_is_refused_with_all_that_came_with_it() -> None:
    matcher = Matcher({"good": "amount > 5"}, schema=SCHEMA)
    with pytest.raises(DisagreementError, match=r"no attribute 'amuont', which 1 rule \(a\) names"):
        matcher.add_many({"fine": "country = 'x'", "a": "amuont > 5"})
    with pytest.raises(DisagreementError, match="compares 'country' with a number"):
        matcher.add("b", "amount = 1 or country = 7")
    with pytest.raises(DisagreementError, match="no rule can match a value of this type"):
        matcher.add("c", "blob = 'x'")
    constraints = pa.table({"id": ["d"], "attribute": ["Country"], "op": ["="], "string": ["x"]})
    with pytest.raises(DisagreementError, match="did you mean 'country'"):
        matcher.add_constraints(constraints)
    assert matcher.ids() == ["good"]


def test_what_was_saved_is_checked_when_it_is_loaded(tmp_path: Path) -> None:
    Matcher({"a": "amuont > 5", "b": "amount > 5"}).save(tmp_path / "rules")
    with pytest.raises(DisagreementError, match="'amuont'"):
        Matcher.load(tmp_path / "rules", schema=SCHEMA)
    assert len(Matcher.load(tmp_path / "rules")) == 2


def test_events_that_do_not_fit_are_reported() -> None:
    matcher = Matcher({"a": "amount > 5", "c": "country = 'x' or country is null"}, schema=SCHEMA)
    matcher.match_batch([{"amount": 7, "country": "x"}, {"amount": 8, "countri": "x"}])
    matcher.match_batch([{"amount": "n/a", "country": "x"}] * 3)
    assert [str(one) for one in matcher.disagreements() if one.problem != "mixed"] == [
        "3 of 5 events have a string in 'amount', such as 'n/a', but in the schema it is number; "
        "rule a (amount > 5) names it",
        "events have 'countri', which the schema does not list; did you mean 'country'?",
    ]


LISTED: list[object] = [1, True, "a", 2.5]


@given(
    st.lists(st.sampled_from(LISTED), min_size=1),
    st.lists(st.sampled_from([*LISTED, 1.0, 0, False, "b", None, ["a"]]), min_size=1, max_size=9),
    st.booleans(),
)
def test_values_are_those_that_the_schema_lists(
    enum: list[object], values: list[object], one_by_one: bool
) -> None:
    schema = Schema.from_json({"properties": {"x": {"enum": enum}, "y": {}}})
    matcher = Matcher({"r": "x is not null"}, schema=schema)
    events = [{"x": value, "y": 1} for value in values]
    if one_by_one:
        for event in events:
            matcher.match(event)
    else:
        matcher.match_batch(events)
    fitting = Fitting(schema)
    for event in events:
        fitting.see(event)

    def family(value: object) -> str:
        return "bool" if isinstance(value, bool) else "string" if isinstance(value, str) else "number"

    families = {family(value) for value in enum}
    allowed = {(family(value), value) for value in enum}
    wrong = Counter(
        family(value)
        for value in values
        if value is not None and not isinstance(value, list)
        if family(value) in families and (family(value), value) not in allowed
    )
    found = [one for one in matcher.disagreements() if one.problem == "value"]
    assert [one.seen for one in found] == ([wrong] if wrong else [])
    assert dict(fitting.unlisted_values()) == ({"x": wrong} if wrong else {})
    for one in found:
        assert (one.rules, one.ids, one.rule, one.events) == (1, ("r",), "x is not null", len(events))


NAMES = st.sampled_from(["aaa", "bbbb", "ccccc"])
KNOWN = st.dictionaries(NAMES, st.frozensets(st.sampled_from(list(Family))), min_size=1)
CONDITIONS = st.builds(
    "{} {}".format,
    NAMES,
    st.sampled_from(["> 5", "= 'x'", "= true", "like '%x'", "is null", "is not null"]),
)
RULE = st.lists(st.lists(CONDITIONS, min_size=1, max_size=3).map(" and ".join), min_size=1, max_size=3)


@pytest.mark.property
@given(st.lists(RULE.map(" or ".join), min_size=1, max_size=8), KNOWN, st.booleans(), st.booleans())
def test_compiled_filters_are_checked_as_rules_are(
    rules: list[str], known: dict[str, frozenset[Family]], is_open: bool, compact: bool
) -> None:
    schema = Schema.of_families(known, is_open=is_open)
    one_by_one = SchemaCheck(schema)
    for key, text in enumerate(rules):
        one_by_one.see(key, parse(text).filters)
    matcher = Matcher(enumerate(rules))
    if compact:
        matcher.compact()
    found = [
        (one.attribute, one.problem, one.asked, one.rules, set(one.ids)) for one in matcher.check(schema)
    ]
    assert found == [
        (one.attribute, one.problem, one.asked, one.rules, set(one.ids)) for one in one_by_one.report()
    ]
