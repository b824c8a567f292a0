"""Protocols by name: those that come with the program, and those that users bring along."""

from pathlib import Path

import pytest

from penstock.broker.flood.node import FloodNode
from penstock.broker.needs import Scan
from penstock.broker.protocols import PROTOCOLS, CoreSettings, protocol_named
from penstock.errors import PenstockError
from penstock.routing.schemes.catalog import scheme_named
from penstock.sim.plan import Plan, Step
from penstock.sim.play import play


@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_protocol_makes_a_core_with_facts(name: str) -> None:
    core = protocol_named(name).make("b", Scan(), CoreSettings())
    assert core.name == "b"
    assert core.facts().subscriptions == 0
    core.close()


def test_one_of_a_module_is_found_where_the_program_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "from penstock.broker.protocols import PROTOCOLS\nMINE = PROTOCOLS['flood']._replace(name='mine')\n"
    )
    (tmp_path / "brought_along_here.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    found = protocol_named("brought_along_here:MINE")
    assert found.name == "mine"
    assert isinstance(found.make("b", Scan(), CoreSettings()), FloodNode)
    plan = Plan(
        seed=1,
        scheme="covering",
        protocol="brought_along_here:MINE",
        advertisements=True,
        brokers=2,
        edges=((0, 1),),
        homes=(0, 1),
        steps=(
            Step("advertise", (0, "a", "x >= 0")),
            Step("subscribe", (1, "s", "x >= 0")),
            Step("settle"),
            Step("publish", (0, {"x": 1})),
        ),
        links="reliable",
    )
    assert plan.way == "mine"
    outcome = play(plan)
    assert (outcome.wrong, outcome.results) == ([], [("c1",)])


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("fload", "no protocol 'fload'; perhaps flood"),
        ("", "no protocol ''; there are trees, flood, or module:NAME"),
        ("no_such_module_here:X", "no protocol 'no_such_module_here:X': No module named"),
        ("json:NOTHING", "no protocol 'json:NOTHING': .*no attribute"),
        ("json:loads", "no protocol 'json:loads': it is no penstock.broker.protocols.Protocol"),
        (":X", "no protocol ':X': "),
    ],
)
def test_what_is_no_protocol_is_a_clear_error(name: str, match: str) -> None:
    with pytest.raises(PenstockError, match=match):
        protocol_named(name)


def test_a_scheme_may_be_brought_along_too() -> None:
    assert scheme_named("penstock.routing.schemes.simple:Simple")().floods is False
    with pytest.raises(PenstockError, match="no scheme 'nothing'; there are"):
        scheme_named("nothing")
