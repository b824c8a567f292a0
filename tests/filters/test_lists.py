"""Conditions on the elements of lists: what they mean, how they are written, and what is known of them."""

import pytest

from penstock import Event, Predicate, covers, identical, overlaps, parse
from penstock.errors import FilterError, InexpressibleError, LimitError, PenstockError
from penstock.filters.constraint import Constraint
from penstock.filters.languages import sql
from penstock.model.limits import ELEMENT_DEPTH_MAX, ELEMENT_FILTERS_MAX


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("'a' in tags", "'a' in tags"),
        ("'a' = any(tags)", "'a' in tags"),
        ("any(tags) = 'a'", "'a' in tags"),
        ("array_contains(tags, 'a')", "'a' in tags"),
        ("list_contains(tags, 5)", "5 in tags"),
        ("any(tags where this = 'a')", "'a' in tags"),
        ("true in tags", "true in tags"),
        ("not 'a' in tags", "'a' not in tags"),
        ("not any(tags) = 'a'", "'a' not in tags"),
        ("5 < any(n)", "any(n where this > 5)"),
        ("any(n) between 1 and 2", "any(n where this between 1 and 2)"),
        ("any(n)", "true in n"),
        ("any(items where qty > 5 and sku = 'a')", "any(items where qty > 5 and sku = 'a')"),
        ("any(items where sku = 'a' or sku = 'b')", "any(items where sku in ('a', 'b'))"),
        ("not any(n where this = 1 or a = 2)", "not any(n where a = 2) and 1 not in n"),
        ("any(rows where 1 in this)", "any(rows where 1 in this)"),
        ("any(rows where any(this) > 1)", "any(rows where any(this where this > 1))"),
        ("'a' in tags and any(tags) in ('a', 'b')", "'a' in tags"),
        ("'a' in tags and tags is not null", "'a' in tags"),
        ("any(tags where true)", "any(tags where true)"),
        ("not any(tags where false)", "any(tags where true)"),
        ("'a' in tags and 'a' not in tags", "false"),
        ("'a' in tags and not any(tags) like 'a%'", "false"),
        ("'a' in tags and tags = 'a'", "false"),
        ("'a' in tags and tags is null", "false"),
        ("any(tags where this > 2 and this < 1)", "false"),
        ("not any(tags where true)", "false"),
        ("""'a' in "my tags\"""", """'a' in "my tags\""""),
    ],
)
def test_conditions_have_one_written_form(text: str, canonical: str) -> None:
    predicate = parse(text)
    assert predicate.to_sql() == canonical
    assert parse(canonical) == predicate
    assert parse(predicate.to_json(), "json") == predicate


def test_elements_are_events() -> None:
    event = {"l": [1, "x", {"a": {"b": 5}, "this": "y"}, [7], None, {}]}
    for true in ("1 in l", "'x' in l", "any(l where a.b > 4)", "'y' in l", "any(l where any(this) = 7)"):
        assert parse(true).matches(event), true
    assert parse("any(l where a.b is null and this is null)").matches(event)
    for false in ("7 in l", "2 in l", "any(l where a = 5)", "any(l where l = 1)", "true in l"):
        assert not parse(false).matches(event), false


def test_one_element_has_to_be_all_that_one_condition_asks() -> None:
    event = {"items": [{"sku": "a", "qty": 1}, {"sku": "b", "qty": 9}]}
    assert not parse("any(items where sku = 'a' and qty > 5)").matches(event)
    assert parse("any(items where sku = 'a') and any(items where qty > 5)").matches(event)


@pytest.mark.parametrize("event", [{}, {"tags": []}, {"tags": "a"}, {"tags": 1}, {"tags": {"a": 1}}])
def test_conditions_on_lists_are_true_of_lists_only(event: dict[str, object]) -> None:
    for text in ("'a' in tags", "'a' not in tags", "any(tags where true)", "not any(tags) > 5"):
        assert not parse(text).matches(event)


def test_other_conditions_are_not_true_of_lists() -> None:
    event = Event({"tags": ["a"]})
    for text in ("tags = 'a'", "tags != 'b'", "tags like '%'", "tags > 0", "tags is null"):
        assert not parse(text).matches(event), text
    assert parse("tags is not null").matches(event)


@pytest.mark.parametrize(
    ("general", "special"),
    [
        ("any(tags) like 'a%'", "'ab' in tags"),
        ("'ab' not in tags", "not any(tags) like 'a%'"),
        ("any(items where qty > 5)", "any(items where qty > 6 and sku = 'a')"),
        ("tags is not null", "'a' in tags"),
        ("any(tags where true)", "'a' in tags or 'b' not in tags"),
        ("any(n) > 5 or any(n) < 0", "7 in n"),
        ("any(n) between 0 and 9", "any(n) between 1 and 2 and price > 5"),
        ("x = 1 or 'a' in tags", "'a' in tags and 'b' in tags"),
    ],
)
def test_relations_see_the_common_cases(general: str, special: str) -> None:
    assert covers(parse(general), parse(special))
    assert not covers(parse(special), parse(general)) or identical(parse(special), parse(general))


def test_lists_that_exclude_one_another_are_told_from_others() -> None:
    assert not overlaps(parse("'a' in tags"), parse("'a' not in tags"))
    assert not overlaps(parse("'a' in tags"), parse("not any(tags) like 'a%'"))
    assert not overlaps(parse("'a' in tags"), parse("tags = 'a'"))
    # One list may have an element for each.
    assert overlaps(parse("'a' in tags"), parse("'b' in tags"))
    assert overlaps(parse("any(n) > 5"), parse("any(n) < 3"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("'a' in", "the name of a list"),
        ("'a' in (tags)", "the name of a list"),
        ("'a' not tags", "in, and the name of a list"),
        ("any(tags", "where, or ')'"),
        ("any(tags) is null", "tags is null asks whether there is a list"),
        ("any(tags where )", "a condition such as"),
        ("any(tags where x = 1", "and, or, or ')'"),
        ("array_contains(tags)", "','"),
        ("any('a')", "an attribute name"),
    ],
)
def test_an_error_says_what_was_expected(text: str, said: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse(text)
    assert said in str(caught.value)


def deeper(node: str) -> str:
    return '{"attribute": "a", "op": "any", "value": ' + node + "}"


def test_what_elements_are_asked_for_has_a_limit() -> None:
    many = " or ".join(f"a = {n} and b = {n}" for n in range(ELEMENT_FILTERS_MAX + 1))
    with pytest.raises(LimitError, match="ELEMENT_FILTERS_MAX"):
        parse(f"any(items where {many})")
    nested = "true"
    for _ in range(ELEMENT_DEPTH_MAX):
        nested = f"any(a where {nested})"
    assert parse(parse(nested).to_json(), "json") == parse(nested)
    for language, text in (("sql", f"any(a where {nested})"), ("json", deeper(parse(nested).to_json()))):
        with pytest.raises(LimitError, match="ELEMENT_DEPTH_MAX"):
            parse(text, language)  # type: ignore[arg-type]
    # All conditions of a text share one budget.
    pairs = " and ".join(f"not (x{i} = 1 and y{i} = 1)" for i in range(20))
    with pytest.raises(PenstockError):
        parse(" or ".join(f"any(l{n} where {pairs})" for n in range(10)), request=True)


def test_padres_has_no_words_for_lists() -> None:
    with pytest.raises(InexpressibleError, match="any"):
        parse("'a' in tags").to_padres()


def test_constraints_take_predicates_and_text() -> None:
    for asked in ("qty > 5", parse("qty > 5")):
        assert Constraint("items", "any", asked).matches({"items": [{"qty": 6}]})
        assert Constraint("items", "not any", asked).matches({"items": [{"qty": 5}]})
    with pytest.raises(FilterError):
        Constraint("items", "any", 5)


def test_the_json_form_names_what_is_wrong() -> None:
    with pytest.raises(FilterError, match="condition on elements"):
        parse('{"attribute": "tags", "op": "any", "value": "a"}', "json")
    with pytest.raises(FilterError, match=r"\$\.value"):
        parse(
            '{"attribute": "t", "op": "any", "value": {"attribute": "this", "op": "?", "value": 1}}', "json"
        )


def test_conditions_that_are_in_one_another_are_printed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = 0
    write = sql.write

    def counted(predicate: Predicate) -> str:
        nonlocal printed
        printed += 1
        return write(predicate)

    monkeypatch.setattr(sql, "write", counted)
    for level in range(1, ELEMENT_DEPTH_MAX + 1):
        printed = 0
        parse("not any(a where " * level + f"x = {level}" + ")" * level, request=True)
        assert printed <= 3 * level
