"""What the papers say of filters holds here."""

import pytest

from penstock import covers, identical, overlaps, parse


def test_the_example_of_salo_section_3_1() -> None:
    """F1 to F4 of seed paper 000, section 3.1, with the relations that the paper states.

    The paper prints the two halves of F1, F2 and F3 joined by "and" (∧). Read so, no price satisfies any
    of the three, F1 would not be identical to F4, and nothing would overlap; the stated relations hold
    with "or", which must be meant.
    """
    f1 = parse("price < 300.00 or price > 400.00")
    f2 = parse("price < 200.00 or price > 500.00")
    f3 = parse("price < 450.00 or price > 600.00")
    f4 = parse("not price between 300.00 and 400.00")
    assert identical(f1, f4)
    assert f1 == f4
    assert covers(f1, f2)
    assert not covers(f2, f1)
    # F2 and F3 overlap (at 100, say), yet neither covers the other: F2 alone takes 550, F3 alone 300.
    assert overlaps(f2, f3)
    assert not covers(f2, f3)
    assert f2.matches({"price": 550})
    assert not f3.matches({"price": 550})
    assert not covers(f3, f2)
    assert f3.matches({"price": 300})
    assert not f2.matches({"price": 300})


def test_the_example_as_printed_in_the_paper_cannot_be_meant() -> None:
    printed = [f"price < {low} and price > {high}" for low, high in ((300, 400), (200, 500), (450, 600))]
    assert not any(parse(text).satisfiable for text in printed)
    assert not overlaps(printed[1], printed[2])


@pytest.mark.parametrize(
    ("event", "matched"),
    [
        ({"carrier": "UA", "dest": "MXP", "price": 600, "upgradeable": True}, False),
        ({"carrier": "UA", "dest": "MXP", "price": 499}, True),
        ({"dest": "MXP"}, False),
        ({"dest": "MXP", "price": "499"}, False),
    ],
)
def test_the_example_of_carzaniga_and_wolf_section_2(event: dict[str, object], matched: bool) -> None:
    """Seed paper 001: [string dest = MXP ∧ int price < 500].

    The paper says that its example message matches this filter, but the message has price = 600; one of
    the two numbers is a slip. A constraint holds only for an attribute of the same name and type.
    """
    assert parse("[dest,eq,'MXP'],[price,<,500]", "padres").matches(event) is matched
