"""Scenario files: what they say is checked, and mistakes are told with file, table and field."""

import re
from importlib.resources import files
from pathlib import Path

import msgspec
import pytest

from penstock.errors import InputError
from penstock.routing.schemes.catalog import SCHEMES
from penstock.sim.scenario import Scenario, load, parse, shipped
from penstock.workloads.topologies import KINDS

SHIPPED = shipped()
PLAIN = files("penstock.sim.scenarios").joinpath("plain.toml").read_text("utf-8")
FAULTY = files("penstock.sim.scenarios").joinpath("faulty.toml").read_text("utf-8")


def test_there_is_a_scenario_for_each_topology_and_one_for_each_purpose() -> None:
    assert {"plain", "congested", "faulty", *KINDS} <= set(SHIPPED)
    for kind in KINDS:
        assert SHIPPED[kind].topology.kind == kind
    assert {scenario.clients.placement for scenario in SHIPPED.values()} == {"uniform", "local"}
    assert {s.workload.distribution for s in SHIPPED.values()} == {"uniform", "zipf", "gaussian"}
    assert (SHIPPED["plain"].topology.brokers, SHIPPED["plain"].topology.kind) == (50, "general")
    assert {type(fault).__name__ for fault in SHIPPED["faulty"].faults} == {
        "Crash",
        "Restart",
        "Cut",
        "Heal",
        "Partition",
        "Delay",
        "Duplicate",
        "Reorder",
        "Loss",
    }


def test_every_field_is_in_some_shipped_scenario() -> None:
    texts = "".join(
        file.read_text("utf-8")
        for file in files("penstock.sim.scenarios").iterdir()
        if file.name.endswith(".toml")
    )
    for part in msgspec.structs.fields(Scenario):
        assert part.name in texts
    for table in ("topology", "links", "service", "clients", "workload", "scheme"):
        for field in msgspec.structs.fields(getattr(SHIPPED["plain"], table)):
            assert field.name in texts, f"{table}.{field.name}"


@pytest.mark.parametrize(
    ("change", "where", "what"),
    [
        (("brokers = 50", "brokers = 'fifty'"), "topology.brokers", "expected `int`, got `str`"),
        (("brokers = 50", "brokers = 0"), "topology.brokers", ">= 1"),
        (("brokers = 50", ""), "topology.brokers", "is missing"),
        (
            ("brokers = 50", "brokers = 50\nheight = 3"),
            "topology.height",
            "there is no such field; there are kind, brokers, ",
        ),
        (("degree = 3.0", "degre = 3.0"), "topology.degre", "there is no such field; perhaps degree"),
        (("brokers = 50", "brokers = 'ten'"), "topology.brokers", "given 'ten'"),
        (("[topology]", "[[topology]]"), "topology", "begins with [topology], in one pair of brackets"),
        (("[scheme]", "[faults]\nat_s = 1\n[scheme]"), "faults", "begin each with [[faults]]"),
        (('kind = "general"', ""), "topology.kind", "is missing; there are acyclic, general, "),
        (('kind = "general"', 'kind = "round"'), "topology.kind", "'round'; there are acyclic, general, hi"),
        (("loss = 0.0", "loss = 1.5"), "links.loss", "< 1"),
        (("seed = 1 ", "pace = 1 "), "pace", "there is no such field"),
        (("[clients]", "[customers]"), "customers", "there is no such field"),
        (("rate = 1_000.0", "rate = 0"), "workload.rate", "> 0"),
        (("width = 0.1", "width = inf"), "workload.width", "<= 0.5"),
        (('kind = "ranges"', 'kind = "roses"'), "workload.kind", "roses"),
        (('name = "identity"', 'name = "magic"'), "scheme.name", "no scheme 'magic'; there are flooding, "),
        (("seed = 1 ", "duration_s = 3.0 "), "duration_s", "10,000 events at 1000 a second take 10 s, not 3"),
        (("loss = 0.0", "loss = 0.1"), "scheme.lease_s", "under a lease"),
        (('protocol = "trees"', 'protocol = "bees"'), "protocol", "no protocol 'bees'; "),
        (('protocol = "trees"', 'protocol = "no.module:P"'), "protocol", "No module named 'no'"),
        (("[clients]", "[service]\nmeasured = true\nother_us = 1\n[clients]"), "service.measured", "either"),
    ],
)
def test_a_mistake_is_told_with_its_place(change: tuple[str, str], where: str, what: str) -> None:
    assert change[0] in PLAIN
    with pytest.raises(InputError) as caught:
        parse(PLAIN.replace(*change, 1), "mine.toml")
    assert str(caught.value).startswith(f"mine.toml: {where}: ")
    assert what in str(caught.value)


@pytest.mark.parametrize(
    ("fault", "where", "what"),
    [
        ("kind = 'crash'\nbroker = 20", "broker", "there is no broker 20; they are numbered from 0 to 19"),
        ("kind = 'crash'", "broker", "is missing"),
        ("kind = 'crash'\nbroker = 1\nlink = [0, 1]", "link", "there is no such field"),
        ("kind = 'crash'\nbroker = -1", "broker", ">= 0"),
        ("kind = 'restart'\nbroker = 99", "broker", "there is no broker 99"),
        ("kind = 'cut'\nlink = [0, 0]", "link", "brokers 0 and 0 are not linked"),
        ("kind = 'loss'\nshare = 2", "share", "<= 1"),
        ("kind = 'loss'\nshare = 0.5\nlink = [0, 99]", "link", "brokers 0 and 99 are not linked"),
        ("kind = 'partition'\nside = [3, 77]", "side", "there is no broker 77"),
        ("kind = 'heal'", "link", "give either link or side"),
        ("kind = 'explode'", "kind", "'explode'; there are crash, restart, cut, "),
        ("share = 0.5", "kind", "is missing; there are crash, restart, cut, "),
        ("kind = 'crash'\nbrokr = 1\nbroker = 1", "brokr", "perhaps broker"),
        ("kind = 'cut'\nlink = [1]", "link", "given [1]"),
    ],
)
def test_a_mistake_in_a_fault_is_told_with_its_place(fault: str, where: str, what: str) -> None:
    before = FAULTY.partition("[[faults]]")[0]
    with pytest.raises(InputError) as caught:
        parse(f"{before}[[faults]]\nat_s = 1\n{fault}\n", "mine.toml")
    assert str(caught.value).startswith(f"mine.toml: faults[0].{where}: ")
    assert what in str(caught.value)


def test_a_fault_that_comes_too_late_is_refused() -> None:
    before = FAULTY.partition("[[faults]]")[0]
    with pytest.raises(InputError, match=r"^mine.toml: faults\[0\].at_s: the scenario is over after 40 s"):
        parse(f"{before}[[faults]]\nat_s = 41\nkind = 'crash'\nbroker = 1\n", "mine.toml")


def test_a_lease_that_ends_before_it_can_be_renewed_is_refused() -> None:
    short = FAULTY.replace("lease_s = 2.0", "lease_s = 0.4")
    with pytest.raises(
        InputError, match=r"^mine.toml: scheme.lease_s: 0.4 s is too short .* 0.11 s; .* 0.44$"
    ):
        parse(short, "mine.toml")
    parse(short.replace("ms = 100.0", "ms = 90.0"), "mine.toml")


def test_what_is_no_toml_is_refused_with_its_line() -> None:
    with pytest.raises(InputError, match=r"^mine.toml: not TOML: .*line 2"):
        parse("title = 'x'\nseed =\n", "mine.toml")


def test_a_name_that_is_neither_file_nor_scenario_is_refused() -> None:
    with pytest.raises(InputError, match=r"^nope: no such file, and no such scenario; there are acyclic, "):
        load("nope")
    with pytest.raises(InputError, match=r"^nope.toml: no such file"):
        load("nope.toml")


def test_the_comment_names_every_scheme() -> None:
    (line,) = (line for line in PLAIN.splitlines() if line.startswith("name ="))
    assert all(scheme in line for scheme in SCHEMES)


def test_the_scenario_in_the_docs_is_one() -> None:
    page = (Path(__file__).parents[2] / "docs" / "SIMULATION.md").read_text("utf-8")
    (text,) = (text for text in re.findall(r"```toml\n(.*?)```", page, re.DOTALL) if "[topology]" in text)
    assert parse(text, "SIMULATION.md").faults
