"""`penstock sim`: tables, JSON, traces and plots of scenarios, and what it says of mistakes."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli import sim
from penstock.cli.main import main
from penstock.routing.schemes.catalog import SCHEMES
from penstock.routing.schemes.identity import Identity
from penstock.routing.schemes.scheme import Source, Steps
from penstock.sim import plots
from penstock.sim.checkers import tables
from penstock.sim.checkers.silence import Silence
from penstock.sim.scenario import parse, shipped

Capture = pytest.CaptureFixture[bytes]

SMALL = """
title = "small [and quick]"
[topology]
kind = "acyclic"
brokers = 6
[service]
publish_us = 500
[clients]
subscribers = 10
publishers = 3
[workload]
kind = "ranges"
subscriptions = 20
events = 100
rate = 1000
width = 0.3
[scheme]
name = "identity"
lease_s = 1.0
[[faults]]
at_s = 0.02
kind = "crash"
broker = 1
[[faults]]
at_s = 0.05
kind = "restart"
broker = 1
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("small.toml").write_text(SMALL)
    return tmp_path


def run(capture: Capture, *arguments: str) -> tuple[int, str, str]:
    status = main(["sim", *arguments])
    out, err = capture.readouterr()
    return status, out.decode(), err.decode()


def test_tables_say_what_happened(capsysbinary: Capture) -> None:
    status, out, err = run(capsysbinary, "small.toml")
    assert (status, err) == (0, "")
    assert out.startswith("small [and quick]; acyclic, 6 brokers, 5 links; identity with advertisements")
    for text in (
        "service times (given), µs: publish 500.0",
        "brokers and links that faults changed: crash 1, restart 1",
        "Subscribe",
        "deliveries expected",
        "subscription tables, entries in all",
        "queues: longest",
        "delays, ms: median",
        "events matched against a table",
        "wall seconds: setting up",
        "messages handled a wall second, running",
        "setting up (control traffic)",
    ):
        assert text in out


def test_json_has_all_of_it(capsysbinary: Capture) -> None:
    status, out, err = run(capsysbinary, "small.toml", "--json", "--seed", "5", "--scheme", "simple")
    assert (status, err) == (0, "")
    document = json.loads(out)
    assert (document["scenario"], document["seed"], document["scheme"]) == ("small.toml", 5, "simple")
    assert document.keys() == {
        "scenario", "title", "seed", "protocol", "scheme", "advertisements", "topology", "brokers", "links",
        "subscriptions", "service_us", "service_measured", "faults", "setting_up", "running",
        "while_running", "at_rest", "at_rest_exact", "checks", "subscription_tables", "advertisement_tables",
        "queues", "waits", "delays", "events_matched", "covering_tests", "wall_s", "handled_per_s",
    }  # fmt: skip
    assert document["running"].keys() == {
        "traffic", "frames", "handled", "lost", "virtual_s", "wall_s", "cpu_s",
    }  # fmt: skip
    assert document["at_rest"]["published"] == 100
    assert document["at_rest"]["delivered"] == document["at_rest"]["expected"] > 0
    assert document["handled_per_s"] > 0


def test_another_protocol_can_be_asked_for(capsysbinary: Capture) -> None:
    status, out, err = run(capsysbinary, "small.toml", "--protocol", "flood")
    assert (status, err) == (0, "")
    assert out.startswith("small [and quick]; acyclic, 6 brokers, 5 links; flood with advertisements, ")
    assert re.search(r"advertisement tables, entries in all +0 ", out)
    document = json.loads(run(capsysbinary, "small.toml", "--protocol", "flood", "--json")[1])
    assert (document["protocol"], document["scheme"]) == ("flood", None)
    assert set(document["running"]["traffic"]) == {"Publish"}
    assert document["at_rest"]["delivered"] == document["at_rest"]["expected"] > 0
    Path("flood.toml").write_text(f'protocol = "flood"\n{SMALL}'.replace('name = "identity"\n', ""))
    again = json.loads(run(capsysbinary, "flood.toml", "--json")[1])
    assert again["running"]["traffic"] == document["running"]["traffic"]


def test_checks_are_told_with_what_they_found(capsysbinary: Capture) -> None:
    out = run(capsysbinary, "small.toml")[1]
    names = ("delivered", "once", "order", "silence", "loops", "trees", "tables")
    for name in names:
        assert re.search(rf"^ {name} +held *$", out, re.MULTILINE)
    document = json.loads(run(capsysbinary, "small.toml", "--json")[1])
    assert [check["name"] for check in document["checks"]] == list(names)
    assert {check["outcome"] for check in document["checks"]} == {"held"}


def test_what_a_check_needs_and_has_not_got_is_said(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: Capture
) -> None:
    monkeypatch.setattr(tables, "ENTRIES_MAX", 10)
    Path("lossy.toml").write_text(SMALL.replace("[service]", "[links]\nloss = 0.3\n[service]"))
    out = run(capsysbinary, "small.toml")[1]
    assert re.search(r"^ tables +skipped, more than 10 entries *$", out, re.MULTILINE)
    out = run(capsysbinary, "lossy.toml")[1]
    for name in ("delivered", "silence", "trees", "tables"):
        assert re.search(rf"^ {name} +skipped, links lose or reorder messages *$", out, re.MULTILINE)
    for name in ("once", "order", "loops"):
        assert re.search(rf"^ {name} +held *$", out, re.MULTILINE)


def test_a_check_that_fails_ends_with_status_1(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: Capture
) -> None:
    def wrong(_checker: Silence) -> Iterator[str]:
        yield from (f"number {number}" for number in range(7))

    monkeypatch.setattr(Silence, "at_rest", wrong)
    status, out, _err = run(capsysbinary, "small.toml")
    assert status == 1
    assert re.search(r"^ silence +failed, 7 times *$", out, re.MULTILINE)
    for line in ("silence: number 0", "silence: number 2", "silence: and 4 more"):
        assert f"\n{line}\n" in out
    assert "brute force says" not in out


def test_a_trace_is_the_same_each_time(capsysbinary: Capture) -> None:
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        assert run(capsysbinary, "small.toml", "--seed", seed, "--trace", name)[0] == 0
    first, same, other = (Path(name).read_bytes() for name in "abc")
    assert first == same != other
    kinds = {json.loads(line)["kind"] for line in first.splitlines()}
    assert {"Run", "Publish", "Deliver", "Control", "LinkDown", "Crash", "Restart", "Drop"} <= kinds
    header = json.loads(first.splitlines()[0])
    assert header == {
        "kind": "Run",
        "scenario": "small.toml",
        "title": "small [and quick]",
        "seed": 1,
        "protocol": "trees",
        "scheme": "identity",
        "advertisements": True,
    }


def test_plots_are_written(capsysbinary: Capture) -> None:
    status, _out, err = run(capsysbinary, "small.toml", "--plot", "figures/small")
    assert (status, err) == (0, "")
    written = {path.name: path.read_bytes() for path in Path("figures/small").iterdir()}
    names = ("queues", "waits", "deliveries", "delays", "tables", "traffic")
    assert set(written) == {f"{name}.png" for name in names}
    assert all(content.startswith(b"\x89PNG") and len(content) > 5_000 for content in written.values())


def test_scenarios_that_come_with_the_program_are_listed(capsysbinary: Capture) -> None:
    status, out, err = run(capsysbinary, "--list")
    assert (status, err) == (0, "")
    assert "Everything that can fail does, one after the other" in out
    for name, scenario in shipped().items():
        assert name in out
        assert scenario.title in out
    assert json.loads(run(capsysbinary, "--list", "--json")[1]).keys() == shipped().keys()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "say which scenario: a file, or a name that penstock sim --list prints"),
        (["nope"], "nope: no such file, and no such scenario; there are acyclic, "),
        (["nope.toml"], "nope.toml: no such file or directory"),
        (["small.toml", "--scheme", "magic"], "small.toml: scheme.name: no scheme 'magic'; there are "),
        (["small.toml", "--protocol", "magic"], "no protocol 'magic'; there are trees, flood"),
        (
            ["small.toml", "--protocol", "flood", "--scheme", "lazy"],
            "--scheme: the protocol flood has no routing schemes",
        ),
        (["bad.toml"], "bad.toml: not TOML: "),
        (["small.toml", "--trace", "gone/t.jsonl"], "gone/t.jsonl: cannot be written: no such file"),
        (["small.toml", "--plot", "small.toml"], "small.toml: plots cannot be written: not a folder"),
        (["small.toml", "--plot", "small.toml/deep"], "small.toml/deep: plots cannot be written: not a dir"),
        (
            ["broken.toml"],
            "broken.toml: faults[1].broker: there is no broker 9; they are numbered from 0 to 5",
        ),
    ],
)
def test_a_mistake_is_one_line_that_says_where(
    arguments: list[str], complaint: str, capsysbinary: Capture
) -> None:
    Path("bad.toml").write_text("title = \n")
    before, _restart, after = SMALL.rpartition("broker = 1")
    Path("broken.toml").write_text(f"{before}broker = 9{after}")
    status, out, err = run(capsysbinary, *arguments)
    assert (status, out) == (2, "")
    assert err.startswith(f"penstock: {complaint}")
    assert err.count("\n") == 1


def test_wrong_deliveries_at_rest_end_with_status_1(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: Capture
) -> None:
    class Deaf(Identity):
        """Asks for nothing."""

        def put(self, source: Source, offer: object) -> Steps:
            super().put(source, offer)  # type: ignore[arg-type]
            return Steps([], [])

    monkeypatch.setitem(SCHEMES, "identity", Deaf)
    status, out, _err = run(capsysbinary, "small.toml")
    assert status == 1
    assert "At rest, deliveries were not what brute force says." in out
    assert json.loads(run(capsysbinary, "small.toml", "--json")[1])["at_rest"]["missed"] > 0


def test_measured_service_times_are_told(capsysbinary: Capture) -> None:
    Path("measured.toml").write_text(SMALL.replace("publish_us = 500", "measured = true"))
    status, out, _err = run(capsysbinary, "measured.toml")
    assert status == 0
    assert "service times (measured), µs: publish " in out


def test_a_scenario_is_printed_to_copy(capsysbinary: Capture) -> None:
    status, out, err = run(capsysbinary, "faulty", "--print")
    assert (status, err) == (0, "")
    assert parse(out, "copy.toml") == shipped()["faulty"]
    assert run(capsysbinary, "small.toml", "--print")[1] == SMALL


def not_run(*_arguments: object, **_options: object) -> None:
    raise AssertionError("the simulation was begun")


def test_what_plots_need_is_looked_for_before_the_run(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: Capture
) -> None:
    monkeypatch.setattr(plots, "find_spec", lambda _name: None)
    monkeypatch.setattr(sim, "Simulation", not_run)
    status, out, err = run(capsysbinary, "small.toml", "--plot", "figures")
    assert (status, out) == (2, "")
    assert err == "penstock: plots need matplotlib: pip install 'penstock[bench]'\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a place that takes nothing")
def test_a_trace_that_cannot_be_written_does_not_take_the_results_with_it(capsysbinary: Capture) -> None:
    status, out, err = run(capsysbinary, "small.toml", "--trace", "/dev/full", "--json")
    assert (status, err) == (2, "penstock: /dev/full: cannot be written: no space left on device\n")
    assert json.loads(out)["at_rest"]["published"] == 100


@pytest.mark.parametrize("seed", ["-5", str(-(2**70)), "0", str(2**70)])
def test_any_whole_number_is_a_seed(seed: str, capsysbinary: Capture) -> None:
    status, out, err = run(capsysbinary, "small.toml", "--seed", seed, "--json")
    assert (status, err) == (0, "")
    assert json.loads(out)["seed"] == int(seed)


def test_a_negative_seed_is_another_than_the_positive_one(capsysbinary: Capture) -> None:
    outs = [json.loads(run(capsysbinary, "small.toml", "--seed", s, "--json")[1]) for s in ("3", "-3")]
    assert outs[0]["at_rest"] != outs[1]["at_rest"]


def test_compiling_kernels_is_announced_where_they_are_needed(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: Capture
) -> None:
    said: list[str] = []
    monkeypatch.setattr(sim, "wait_for_kernels", lambda: said.append("cold"))
    assert run(capsysbinary, "small.toml")[0] == 0
    assert said == []
    Path("many.toml").write_text(SMALL.replace("subscriptions = 20", "subscriptions = 250"))
    assert run(capsysbinary, "many.toml")[0] == 0
    assert said == ["cold"]


def test_links_that_still_lose_messages_are_told_of(capsysbinary: Capture) -> None:
    Path("lossy.toml").write_text(SMALL.replace("[service]", "[links]\nloss = 0.3\n[service]"))
    status, out, _err = run(capsysbinary, "lossy.toml")
    assert status == 0
    assert "links still lose messages or reorder them" in out
    assert "links still" not in run(capsysbinary, "small.toml")[1]


def test_tables_say_nothing_that_would_be_misread(capsysbinary: Capture) -> None:
    out = run(capsysbinary, "small.toml")[1]
    # A kind of message that brokers send, and not messages that were lost.
    assert "Lost (ways to trees)" in out
    assert "messages lost on the way" in out
    assert "what is missed or unwanted is no mistake as such" in out
    # All brokers know all advertisements: none of them has the largest table.
    assert re.search(r"advertisement tables, entries in all +18 *\n +the largest +3 +all", out)


def test_waiting_for_bandwidth_shows(capsysbinary: Capture) -> None:
    assert "waiting for bandwidth" not in run(capsysbinary, "small.toml")[1]
    Path("narrow.toml").write_text(SMALL.replace("[service]", "[links]\nbandwidth = 10_000\n[service]"))
    status, out, _err = run(capsysbinary, "narrow.toml")
    assert status == 0
    assert re.search(r"waiting for bandwidth, ms: longest +[1-9][\d,.]* +b\d-b\d", out)
