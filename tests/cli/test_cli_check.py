"""`penstock check`: what it counts, what it says of a seed that fails, and how it ends."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from live_commands import until
from patience import HANGS
from penstock.broker.flood.node import FloodNode
from penstock.cli import check
from penstock.cli.demo_pipeline import members
from penstock.cli.main import main
from penstock.cli.processes import in_order
from penstock.routing.schemes.catalog import SCHEMES
from penstock.routing.schemes.identity import Identity
from penstock.routing.schemes.scheme import Source, Steps
from penstock.sim.explore import Verdict, check_seeds
from penstock.sim.plan import Plan, draw
from penstock.sim.story import tell

Capture = pytest.CaptureFixture[bytes]
FIGURES = {"seeds", "runs", "published", "checked", "deliveries", "faults", "handled", "failed"}


class Clinging(Identity):
    """Never takes anything back."""

    def drop(self, source: Source) -> Steps:
        return Steps(super().drop(source).ask, [])


class Exploding(Identity):
    """Does not survive that a subscription goes."""

    def drop(self, source: Source) -> Steps:
        raise KeyError(source.key)


PLAIN = ("--links", "plain")


def run(capture: Capture, *arguments: str, links: tuple[str, ...] = PLAIN) -> tuple[int, str, str]:
    # A plan has its own links.
    status = main(["check", *(() if "--replay" in arguments else links), *arguments])
    out, err = capture.readouterr()
    return status, out.decode(), err.decode()


def failing_seed() -> int:
    """A seed under identity-based routing that a scheme which never takes anything back fails."""
    return next(
        seed
        for seed in range(500)
        if seed % 10 and draw(seed).scheme == "identity" and check_seeds([seed])[0].wrong
    )


def test_seeds_are_counted_in_a_table_and_as_json(capsysbinary: Capture) -> None:
    status, out, err = run(capsysbinary, "--seeds", "12", "--jobs", "1")
    assert (status, err) == (0, "")
    assert re.search(r"^ *seeds +12 *$", out, re.MULTILINE)
    # Seeds 0 and 10 are played under every scheme, and under the protocol that has none.
    assert re.search(rf"^ *runs +{10 + 2 * (len(SCHEMES) + 1)} *$", out, re.MULTILINE)
    assert re.search(r"^ *failing seeds +0 *$", out, re.MULTILINE)
    status, out, err = run(capsysbinary, "--seeds", "12", "--jobs", "1", "--json")
    assert (status, err) == (0, "")
    document = json.loads(out)
    of_whole_nodes = {"faults_by_kind", "excused", "missed", "missed_in_vain", "missed_with_count"}
    assert document.keys() == FIGURES | of_whole_nodes | {"seconds", "interrupted", "failures"}
    assert (document["seeds"], document["runs"]) == (12, 10 + 2 * (len(SCHEMES) + 1))
    assert (document["failed"], document["failures"], document["interrupted"]) == ([], [], False)
    assert min(document[name] for name in FIGURES - {"failed"}) > 0


def test_one_scheme_can_be_aimed_at(monkeypatch: pytest.MonkeyPatch, capsysbinary: Capture) -> None:
    arguments = ("--seeds", "12", "--jobs", "2", "--json", "--scheme")
    status, out, _err = run(capsysbinary, *arguments, "merging")
    assert (status, json.loads(out)["runs"]) == (0, 12)
    monkeypatch.setitem(SCHEMES, "identity", Clinging)
    here = ("--seeds", "30", "--jobs", "1", "--json", "--no-shrink", "--scheme")
    status, out, _err = run(capsysbinary, *here, "identity")
    assert status == 1
    for failure in json.loads(out)["failures"]:
        assert (
            failure["command"] == f"penstock check --seed {failure['seed']} --links plain --scheme identity"
        )
        assert failure["plan"]["scheme"] == "identity"
    assert run(capsysbinary, *here, "simple")[0] == 0


def test_one_protocol_can_be_aimed_at(monkeypatch: pytest.MonkeyPatch, capsysbinary: Capture) -> None:
    arguments = ("--seeds", "12", "--jobs", "2", "--json", "--protocol")
    status, out, _err = run(capsysbinary, *arguments, "flood")
    assert (status, json.loads(out)["runs"]) == (0, 12)
    # No neighbour is sent anything.
    monkeypatch.setattr(FloodNode, "targets", lambda *_arguments: ())
    here = ("--seeds", "30", "--jobs", "1", "--json", "--protocol")
    status, out, _err = run(capsysbinary, *here, "flood")
    assert status == 1
    for failure in json.loads(out)["failures"]:
        assert failure["command"] == f"penstock check --seed {failure['seed']} --links plain --protocol flood"
        assert failure["plan"]["protocol"] == "flood"
        assert all(text.startswith("flood: ") for text in failure["wrong"])
    assert run(capsysbinary, *here, "trees")[0] == 0


def test_whole_nodes_are_checked_unless_it_is_said_otherwise(capsysbinary: Capture) -> None:
    status, out, err = run(capsysbinary, "--seeds", "3", "--jobs", "1", "--json", links=())
    assert (status, err) == (0, "")
    document = json.loads(out)
    assert (document["seeds"], document["runs"], document["failed"]) == (3, 3, [])
    assert document["deliveries"] > 0


def test_several_processes_find_what_one_does(capsysbinary: Capture) -> None:
    found = []
    for jobs in ("1", "2"):
        status, out, _err = run(capsysbinary, "--seeds", "25", "--from", "100", "--jobs", jobs, "--json")
        assert status == 0
        found.append({**json.loads(out), "seconds": 0})
    assert found[0] == found[1]


def test_results_of_processes_come_in_order() -> None:
    verdicts = list(in_order(check_seeds, [range(at, at + 2) for at in range(0, 12, 2)], 2))
    assert [msgspec.to_builtins(v) for part in verdicts for v in part] == [
        msgspec.to_builtins(verdict) for verdict in check_seeds(range(12))
    ]


def test_a_failing_seed_is_told_with_its_command_and_a_short_plan_that_can_be_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: Capture
) -> None:
    monkeypatch.setitem(SCHEMES, "identity", Clinging)
    seed = failing_seed()
    saved = tmp_path / "plan.json"
    status, out, err = run(capsysbinary, "--seed", str(seed), "--save", str(saved))
    assert (status, err) == (1, "")
    assert f"seed {seed} failed:" in out
    assert "  identity: Tables: " in out
    assert f"to replay it: penstock check --seed {seed} --links plain\n" in out
    assert f"penstock check --replay {saved} plays it" in out
    plan = msgspec.json.decode(saved.read_bytes(), type=Plan)
    assert len(plan.steps) < len(draw(seed).steps)
    for line in tell(plan):
        assert f"  {line}\n" in out
    status, out, _err = run(capsysbinary, "--replay", str(saved), "--json")
    assert status == 1
    (failure,) = json.loads(out)["failures"]
    assert failure["command"] == f"penstock check --replay {saved}"
    assert failure["wrong"][0].startswith("identity: Tables: ")
    monkeypatch.undo()
    assert run(capsysbinary, "--replay", str(saved))[0] == 0


def test_a_plan_is_shown_as_it_is_if_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: Capture
) -> None:
    monkeypatch.setitem(SCHEMES, "identity", Clinging)
    seed = failing_seed()
    status, out, _err = run(capsysbinary, "--seed", str(seed), "--no-shrink", "--json")
    assert status == 1
    (failure,) = json.loads(out)["failures"]
    assert msgspec.convert(failure["plan"], Plan) == draw(seed)
    assert failure["seed"] == seed


def test_the_first_seeds_that_fail_are_shown_and_the_others_named(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: Capture
) -> None:
    for name in SCHEMES:
        monkeypatch.setitem(SCHEMES, name, Clinging)
    status, out, _err = run(capsysbinary, "--seeds", "30", "--jobs", "1", "--no-shrink")
    assert status == 1
    assert len(re.findall(r"^seed \d+ failed:$", out, re.MULTILINE)) == 3
    assert re.search(r"^more seeds that failed: \d+", out, re.MULTILINE)


def test_what_a_broker_does_not_survive_is_a_failing_seed(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: Capture
) -> None:
    for name in SCHEMES:
        monkeypatch.setitem(SCHEMES, name, Exploding)
    status, out, _err = run(capsysbinary, "--seeds", "8", "--jobs", "1", "--json")
    assert status == 1
    document = json.loads(out)
    assert document["seeds"] == 8
    first = document["failures"][0]
    assert ": KeyError in test_cli_check.py, drop: " in first["wrong"][0]
    assert len(first["plan"]["steps"]) <= 5


def test_a_trace_of_a_seed_is_the_same_each_time(tmp_path: Path, capsysbinary: Capture) -> None:
    for name, seed in (("a", "3"), ("b", "3"), ("c", "4")):
        assert run(capsysbinary, "--seed", seed, "--trace", str(tmp_path / name))[0] == 0
    first, same, other = ((tmp_path / name).read_bytes() for name in "abc")
    assert first == same != other
    assert json.loads(first.splitlines()[0])["seed"] == 3


def test_being_interrupted_tells_what_was_done_so_far(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: Capture
) -> None:
    def interrupted(seeds: Iterable[int], **chosen: str | None) -> list[Verdict]:
        found = check_seeds(seeds, links="plain")
        if found and 20 in seeds:
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(check, "check_seeds", interrupted)
    status, out, err = run(capsysbinary, "--seeds", "100", "--jobs", "1", "--json")
    assert (status, err) == (130, "penstock: interrupted\n")
    assert (json.loads(out)["seeds"], json.loads(out)["interrupted"]) == (20, True)


def has_begun(session: int) -> bool:
    """Whether there are workers, which ignore Ctrl-C, and who started them does not, or no longer."""
    caught = re.search(r"^SigCgt:\s*(\w+)", Path(f"/proc/{session}/status").read_text(), re.MULTILINE)
    assert caught is not None
    return len(members(session)) > 2 and bool(int(caught[1], 16) >> (signal.SIGINT - 1) & 1)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="this system does not list its processes")
def test_ctrl_c_ends_all_processes_without_a_traceback() -> None:
    program = Path(sys.executable).with_name("penstock")
    command = [str(program), "check", *PLAIN, "--seeds", "1000000", "--jobs", "2", "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            until(lambda: has_begun(process.pid))
            os.killpg(process.pid, signal.SIGINT)
            out, err = process.communicate(timeout=HANGS)
        finally:
            process.kill()
    assert (process.returncode, err) == (130, b"penstock: interrupted\n")
    assert json.loads(out)["interrupted"]


def test_a_plan_that_does_not_fail_is_not_saved(tmp_path: Path, capsysbinary: Capture) -> None:
    path = tmp_path / "plan.json"
    status, _out, err = run(capsysbinary, "--seed", "1", "--save", str(path))
    assert status == 0
    assert err == f"penstock: note: nothing failed, and {path} is not written\n"
    assert not path.exists()


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "no such file or directory"),
        ("nope", "not a JSON object"),
        ("{}", "missing required field 'seed'"),
        ({"scheme": "magic"}, "no scheme 'magic'; there are flooding, "),
        ({"protocol": "magic"}, "no protocol 'magic'; there are trees, flood"),
        ({"steps": [["dance", []]]}, "dance: no such step; there are advertise, "),
        ({"homes": [99]}, "homes and edges name brokers from 0 to "),
        ({"brokers": "three"}, "'brokers' must be int, not str"),
    ],
)
def test_a_file_that_is_no_plan_is_refused(
    content: str | dict[str, object] | None, complaint: str, tmp_path: Path, capsysbinary: Capture
) -> None:
    path = tmp_path / "plan.json"
    if isinstance(content, str):
        path.write_text(content)
    elif content is not None:
        path.write_text(json.dumps({**msgspec.to_builtins(draw(1)), **content}))
    status, out, err = run(capsysbinary, "--replay", str(path))
    assert (status, out) == (2, "")
    assert err.startswith(f"penstock: {path}: ")
    assert complaint in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--replay", "p.json", "--links", "plain"], "--links is for seeds; a plan"),
        (["--trace", "t.jsonl"], "--trace writes one run; say which with --seed or --replay"),
        (["--seed", "1", "--from", "2"], "--from is for several seeds"),
        (["--replay", "plan.json", "--scheme", "lazy"], "--scheme is for seeds; a plan"),
        (["--scheme", "magic"], "no scheme 'magic'; there are flooding, "),
        (["--protocol", "magic"], "no protocol 'magic'; there are trees, flood"),
        (["--protocol", "flood", "--scheme", "lazy"], "--scheme: the protocol flood has no routing schemes"),
        (["--replay", "plan.json", "--protocol", "flood"], "--protocol is for seeds; a plan"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(
    arguments: list[str], complaint: str, capsysbinary: Capture
) -> None:
    status, out, err = run(capsysbinary, *arguments)
    assert (status, out) == (2, "")
    assert complaint in err


@pytest.mark.parametrize(
    "arguments", [["--seeds", "0"], ["--seed", "x"], ["--seed", "1", "--seeds", "2"], ["--jobs", "0"]]
)
def test_wrong_arguments_end_with_usage(arguments: list[str], capsysbinary: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["check", *arguments])
    assert caught.value.code == 2
    assert capsysbinary.readouterr().err.startswith(b"usage: penstock check")
