"""What shells and notebooks show of matchers, matches and explanations."""

import subprocess
import sys

import msgspec
import pytest

import penstock
from penstock import Constraint, Filter, Matcher, parse
from penstock.errors import UnknownSubscriptionError
from penstock.filters import html
from penstock.matching.stats import FilterCost

pytestmark = pytest.mark.usefixtures("warm_kernels")

EVIL = "<img src=x onerror=alert(1)>"


def test_shells_complete_all_of_the_public_interface_before_it_is_imported() -> None:
    code = (
        "import sys, penstock, penstock.spark\n"
        "assert set(penstock.__all__) <= set(dir(penstock)) and '__version__' in dir(penstock)\n"
        "assert set(penstock.spark.__all__) <= set(dir(penstock.spark))\n"
        "assert not {'numba', 'pyspark', 'penstock.matching.matcher'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert "Matcher" in dir(penstock)
    assert not {"TYPE_CHECKING", "_LATER"} & {*dir(penstock)}


def test_a_matcher_its_matches_and_explanations_show_as_escaped_tables() -> None:
    matcher = Matcher({EVIL: f"\"{EVIL}\" = '{EVIL}'", "b": "x > 1", 7: "true"})
    events: list[dict[str, object]] = [{EVIL: EVIL, "x": 2}, {"y": 1}]
    matches, explained = matcher.match_batch(events), matcher.explain(events[0])
    assert isinstance(explained, list)
    shown = [
        matcher._repr_html_(),
        matches._repr_html_(),
        explained._repr_html_(),
        explained[0]._repr_html_(),
        matcher.why(EVIL, events[0])._repr_html_(),
    ]
    for one in shown:
        assert "<img" not in one
        assert one.count("<table>") == one.count("</table>") == 1
    assert all("&lt;img" in one for one in (shown[0], shown[1], shown[4]))
    assert "2 events, 2 of them matched; 4 ids" in shown[1]


def test_filters_statistics_and_disagreements_show_as_escaped_tables() -> None:
    matcher = Matcher({EVIL: f"\"{EVIL}\" = '{EVIL}'", "b": "x > 1"})
    for number in range(50):
        matcher.match({"x": number})
    disagreements = matcher.disagreements()
    assert [one.problem for one in disagreements] == ["unknown"]
    by_schema = matcher.check(penstock.Schema.from_json({"properties": {"x": {"type": "number"}}}))
    shown = [
        matcher.stats()._repr_html_(),
        disagreements._repr_html_(),
        by_schema._repr_html_(),
        matcher.filters(EVIL)[0]._repr_html_(),
    ]
    for one in shown:
        assert "<table>" in one
        assert "<img" not in one
    assert "filters" in shown[0]
    assert all("&lt;img" in one for one in shown[1:])
    assert "no event can match" in Filter([Constraint("x", "<", "")])._repr_html_()


def test_statistics_show_what_costs_most() -> None:
    cost = FilterCost(EVIL, Filter([Constraint("x", "!=", 1)]), Filter(), 0.5, 0.25)
    shown = msgspec.structs.replace(Matcher({"a": "x != 1"}).stats(), expensive_filters=[cost])._repr_html_()
    assert "tests per event" in shown
    assert "&lt;img" in shown
    assert "<img" not in shown


def test_what_is_shown_is_bounded() -> None:
    matcher = Matcher({n: f"a{n % 100} >= 0" for n in range(5_000)})
    matches = matcher.match_batch([{"a1": 1}] * 1_000)
    for shown in (matcher._repr_html_(), matches._repr_html_(), matcher.explain({"a1": 1})._repr_html_()):
        assert shown.count("<tr>") == html.ROWS + 1
        assert len(shown) < 10_000
    assert "… and 980 more" in matches._repr_html_()
    assert ", … (50)" in matches._repr_html_()


def test_why_is_told_of_an_id() -> None:
    matcher = Matcher([("a", "x > 1"), ("a", "y = 2"), ("b", parse("false"))])
    told = matcher.why("a", {"x": 0, "y": 2})
    assert told.matches
    assert sorted((one.matches, one.conditions[0].text) for one in told) == [
        (False, "x > 1"),
        (True, "y = 2"),
    ]
    assert not matcher.why("b", {"x": 1}).matches
    with pytest.raises(UnknownSubscriptionError, match="nothing is subscribed under 'c'"):
        matcher.why("c", {"x": 1})
