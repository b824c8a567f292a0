"""The languages of composites: what they read, what they print, and what they say of mistakes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.composites import padres
from penstock.composites.expression import (
    And,
    Atom,
    Composite,
    Item,
    Node,
    Or,
    Then,
    Unless,
    Window,
    Within,
    variables,
)
from penstock.composites.language import parse, write
from penstock.errors import FilterSyntaxError, LimitError, PenstockError
from penstock.filters.parsing import as_predicate

SECOND = 1_000_000_000
names = st.sampled_from(["a", "late", "then", "by", 'q"uote', "x y", "über"])


@st.composite
def nodes(draw: st.DrawFn, depth: int = 3) -> Node:
    if depth == 0 or draw(st.integers(0, 2)) == 0:
        binds = draw(
            st.lists(st.tuples(st.sampled_from(["c", "order.id"]), st.sampled_from(["v", "w"])), unique=True)
        )
        text = draw(st.sampled_from(["true", "x > 1", "x = 1 or y = 'it''s ]'", "x in (1, 2) and z is null"]))
        return Atom("", as_predicate(text), tuple(sorted(binds)))
    left, right = draw(nodes(depth=depth - 1)), draw(nodes(depth=depth - 1))
    kind: Any = draw(st.sampled_from([And, Or, Then, Within]))
    if kind is Then:
        absent = draw(st.none() | nodes(depth=0))
        assert absent is None or isinstance(absent, Atom)
        return Then(left, right, absent)
    if kind is Within:
        return Within(left, draw(windows))
    found: Node = kind(left, right)
    return found


windows = st.builds(Window, nanoseconds=st.integers(1, 2**62)) | st.builds(Window, events=st.integers(1, 100))


def named_atom(atom: Atom, given: list[str]) -> Atom:
    given.append(f"n{len(given)}")
    return Atom(given[-1], atom.predicate, atom.binds)


def named(node: Node, given: list[str]) -> Node:
    """The same tree with names for its atoms."""
    if isinstance(node, Atom):
        return named_atom(node, given)
    if isinstance(node, Within):
        return Within(named(node.part, given), node.window)
    assert isinstance(node, And | Or | Then)
    left = named(node.left, given)
    if isinstance(node, Then):
        absent = None if node.absent is None else named_atom(node.absent, given)
        return Then(left, named(node.right, given), absent)
    return type(node)(left, named(node.right, given))


@st.composite
def composites(draw: st.DrawFn) -> Composite:
    root: Node = Within(named(draw(nodes()), []), draw(windows))
    if draw(st.booleans()):
        root = Unless(root, Atom(draw(names), as_predicate("z = 1")), draw(st.integers(1, 2**62)))
    time = draw(st.none() | st.sampled_from(["t", "order.time", "within"]))
    try:
        whole = Composite(root, (), draw(st.sampled_from(["all", "once"])), time, 5 * SECOND if time else 0)
    except LimitError:
        return Composite(Atom("a", as_predicate("true")))
    items = [
        Item(atom.name, draw(names), f"r{i}") for i, atom in enumerate(whole.atoms()) if draw(st.booleans())
    ]
    items += [Item(None, variable, variable) for variable in sorted(variables(root))]
    return Composite(root, tuple(items), whole.consume, whole.time, whole.lateness)


@pytest.mark.property
@given(composites())
def test_what_is_printed_reads_back_as_the_same(composite: Composite) -> None:
    text = write(composite)
    assert parse(text) == composite
    assert write(parse(text)) == text


@pytest.mark.property
@given(st.text(st.sampled_from("[]()x=1 $'\"`{}&|thenornotwithin5s."), max_size=60))
def test_any_text_is_read_or_refused_with_a_clear_error(text: str) -> None:
    for read in (parse, padres.parse):
        try:
            read(text)
        except PenstockError as error:
            assert str(error)


def test_words_bind_as_the_specification_says() -> None:
    composite = parse("[a=1] then [b=1] or [c=1] and [d=1] within 5 s")
    assert isinstance(composite.root, Within)
    sequence = composite.root.part
    assert isinstance(sequence, Then)
    assert isinstance(sequence.right, Or)
    assert isinstance(sequence.right.right, And)


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("5 s", 5 * SECOND),
        ("1.5 SECONDS", 1_500_000_000),
        ("2 h", 7_200 * SECOND),
        ("1 Day", 86_400 * SECOND),
        ("3ms", 3_000_000),
    ],
)
def test_durations_have_the_units_that_people_write(text: str, nanoseconds: int) -> None:
    root = parse(f"[x = 1] within {text}").root
    assert isinstance(root, Within)
    assert root.window == Window(nanoseconds=nanoseconds)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "expected a filter in \\[ \\]"),
        ("[x = 1", "expected ']' for the '\\[' opened here"),
        ("[x = [1]]", "a bracket inside a filter"),
        ("[x = 'a]", "a ' that is not closed"),
        ("[x == ] within 5 s", "column 7"),
        ("[x = 1] then [y = 1]", "needs a window"),
        ("([x = 1] then [y = 1] within 5 s) then [z = 1]", "needs a window"),
        ("[x = 1] then not [y = 1]", "then, or within and a duration"),
        ("([x = 1] then not [y = 1] within 5 s) and [z = 1] within 9 s", "stands at the end"),
        ("[x > $v]", "a variable stands in"),
        ("[x = 1 or y = $v]", "a variable stands in"),
        ("[not x = $v]", "a variable stands in"),
        ("[x in (1, $v)]", "a variable stands in"),
        ("[x = 1] within 0 s", "a duration of 1 ns"),
        ("[x = 1] within 5 parsecs", "expected a unit"),
        ("[x = 1] within 0 events", "above 0"),
        ("([x = 1] and [y = 1]) within 5 s then [z = 1]", "inside its parentheses"),
        ("[x = 1] as a or [y = 1] as a", "two atoms are called 'a'"),
        ("select b.x from [x = 1] as a", "no atom is called 'b'"),
        ("select $v from [x = 1] as a", "no atom binds"),
        ("select a.x, a.y as a.x from [x = 1] as a", "two results are called"),
        ("[x = 1] late by 5 s", "expected then"),
        ("[x = '\ue000']", "private use"),
        (" or ".join(["[x = 1]"] * 17), "ATOMS_MAX"),
        ("(" * 200, "DEPTH_MAX"),
    ],
)
def test_mistakes_are_named(text: str, match: str) -> None:
    with pytest.raises(PenstockError, match=match):
        parse(text)


def test_an_error_in_a_filter_names_its_place_in_the_whole() -> None:
    with pytest.raises(FilterSyntaxError) as found:
        parse("[x = 1] then [y = ] within 5 s")
    assert found.value.position == 18
    with pytest.raises(FilterSyntaxError) as found:
        parse("[x = $v and y = ] within 5 s")
    assert found.value.position == 16


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("[class,eq,'STOCK'],[open,<,22]", "[class = 'STOCK' and open < 22]"),
        ("[a,eq,1] & [b,eq,2] within 9 s", "[a = 1] and [b = 2] within 9 s"),
        (
            "{[a,eq,1]||[b,eq,2]}&{[c,eq,$S$v],[d,>,1]} within 9 s",
            "([a=1] or [b=2]) and [c = $v and d > 1] within 9 s",
        ),
        (
            "[a,eq,1] || [b,eq,2] & [c,eq,$v] within 3 events each event once",
            "[a=1] or [b=2] and [c=$v] within 3 events each event once",
        ),
        ("[a,eq,'}&['] & [b,isPresent,'x'] within 1 h", "[a = '}&['] and [b is not null] within 1 h"),
    ],
)
def test_the_padres_form_says_the_same(text: str, same: str) -> None:
    assert padres.parse(text) == parse(same)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "expected \\[attribute,operator,value\\]"),
        ("{[a,eq,1]", "expected '}'"),
        ("[a,eq,1] & ", "the end of the text"),
        ("[a,eq,]", "column"),
        ("[a,>,$v]", "column"),
        ("[a,eq,1] & [b,eq,1]", "needs a window"),
        ("{" * 200, "DEPTH_MAX"),
    ],
)
def test_mistakes_in_the_padres_form_are_named(text: str, match: str) -> None:
    with pytest.raises(PenstockError, match=match):
        padres.parse(text)


def test_what_is_subscribed_to_for_an_atom_is_what_it_admits() -> None:
    (atom,) = parse("[x = 1 and k = $k]").atoms()
    assert atom.wanted() == as_predicate("x = 1 and k is not null")
