"""`penstock trace` and `penstock top`, with real brokers."""

import io
import json
import os
import pty
import signal
import socket
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from live_commands import (
    NOWHERE,
    PROGRAM,
    Capture,
    broker,
    run,
    running,
    subscribed,
    three_brokers,
    until,
)
from patience import HANGS
from penstock.cli.top import Cut, tables
from penstock.cli.trace import tree
from penstock.cli.watching import Look


@pytest.fixture(scope="module")
def network() -> Iterator[list[str]]:
    with three_brokers() as urls:
        yield urls


@pytest.fixture
def b1(network: list[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """The first of them, which commands talk to if nothing else is said."""
    monkeypatch.setenv("PENSTOCK_URL", network[0])
    monkeypatch.delenv("PENSTOCK_TOKEN", raising=False)
    return network[0]


# Tracing


def test_a_trace_shows_the_way_of_an_event(network: list[str], b1: str, capsysbinary: Capture) -> None:
    with subscribed("kind = 'way'", "--url", network[2]) as sub:
        seen: list[str] = []

        def arrives() -> bool:
            status, out, err = run(capsysbinary, "trace", '{"kind": "way"}')
            assert (status, err) == (0, "")
            seen[:] = out.splitlines()
            return len(seen) == 4

        until(arrives)
        first, second, third, total = seen
        assert first == "b1"
        assert second.startswith("└─ b2  +")
        assert third.startswith("   └─ b3  +")
        assert third.endswith(" ms  delivered to 1 client")
        assert total == "3 brokers, 1 client"
        status, out, err = run(capsysbinary, "trace", '{"kind": "none"}', "--json")
        assert (status, err) == (0, "")
        report = json.loads(out)
        assert (report["broker"], report["delivered"], report["sent_to"]) == ("b1", 0, [])
        assert json.loads(sub.line()) == {"kind": "way"}


def test_a_trace_is_a_tree_and_does_not_compare_clocks_of_different_machines() -> None:
    def report(name: str, at: float, delivered: int, *further: Any) -> dict[str, Any]:
        sent = [{"link": one["broker"], "report": one} for one in further]
        return {"broker": name, "received_at": at, "delivered": delivered, "sent_to": sent}

    told = report("a", 5.0, 2, report("b\x1b[31m", 5.001, 0, report("c", 5.0035, 1)), report("d", 4.0, 0))
    told["sent_to"].append({"link": "e", "report": None})
    assert list(tree(told)) == [
        "a  delivered to 2 clients",
        "├─ b\\x1b[31m  +1.00 ms",
        "│  └─ c  +2.50 ms  delivered to 1 client",
        "├─ d",
        "└─ e  sent there, no report came back",
        "4 brokers, 3 clients",
    ]


# Watching


def test_a_look_at_brokers_shows_them_their_links_and_their_clients(
    network: list[str], b1: str, capsysbinary: Capture
) -> None:
    with subscribed("kind = 'seen'", "--name", "the watched"):
        status, out, err = run(capsysbinary, "top", *network, "--once")
        assert (status, err) == (0, "")
        assert [line for line in out.splitlines() if "the watched" in line]
        rows = [line.split()[:3] for line in out.splitlines()]
        for row in (["b1", "b2", "up"], ["b2", "b1", "up"], ["b2", "b3", "up"], ["b3", "b2", "up"]):
            assert row in rows
    status, out, err = run(capsysbinary, "top", "--once", "--json", "--url", b1, "--url", NOWHERE)
    assert (status, err) == (1, "")
    up, down = map(json.loads, out.splitlines())
    assert (up["url"], up["status"]["name"]) == (b1, "b1")
    assert down == {"url": NOWHERE, "error": "connection refused"}


def free_url() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"penstock://127.0.0.1:{probe.getsockname()[1]}"


def test_a_broker_that_goes_comes_back_for_those_who_watch_and_those_who_subscribe(
    capsysbinary: Capture,
) -> None:
    url = free_url()
    with running("top", url, "--json", "--interval", "0.1") as top:
        assert json.loads(top.line()) == {"url": url, "error": "connection refused"}
        with broker("b9", listen=url) as (first, _url):
            until(lambda: "status" in json.loads(top.line()))
            with subscribed("x > 0", "--url", url) as sub:
                assert first.end(signal.SIGTERM)[0] == 0
                until(lambda: "error" in json.loads(top.line()))
                with broker("b9", listen=url):
                    until(lambda: "status" in json.loads(top.line()))
                    said = [sub.told()]
                    while "connected to b9; b9 did not keep the session" not in said[-1]:
                        said.append(sub.told())
                    assert "penstock: note: the connection to b9 is lost" in said
                    assert run(capsysbinary, "pub", '{"x": 1}', "--url", url)[0] == 0
                    assert sub.line() == '{"x":1}'
                # The broker is gone for good, which is no reason to wait for it.
                assert sub.end(signal.SIGINT)[0] == 0
        assert top.end(signal.SIGINT)[0] == 0


def test_on_a_terminal_brokers_are_watched_until_ctrl_c(b1: str) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [PROGRAM, "top", "--interval", "0.1"],
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"},
    )
    os.close(theirs)
    seen = b""
    try:
        while seen.count(b"delivered/s") < 3:
            seen += os.read(ours, 65_536)
        assert b"b1" in seen
        process.send_signal(signal.SIGINT)
        # What is drawn last has to be read, or it is never written.
        try:
            while os.read(ours, 65_536):
                pass
        except OSError:
            pass
        _out, err = process.communicate(timeout=HANGS)
        assert (process.returncode, err) == (0, b"")
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def status_of_broker(uptime: float, events: int, client: str = "c") -> dict[str, Any]:
    counts = {"events_in": events, "events_out": 2 * events}
    return {
        "name": "b1",
        "uptime_s": uptime,
        "draining": False,
        "links": [
            {"peer": "b2", "state": "cut", "queue_bytes": 2_000, "unacked_frames": 3, **counts},
        ],
        "clients": [
            {
                "name": client,
                "subject": "[bold]s[/]",
                "state": "up",
                "subscriptions": 1,
                "advertisements": 0,
                "queue_bytes": 0,
                "slow": True,
                **counts,
            }
        ],
        "table": {"subscriptions": 1, "filters": 1, "trees": 0},
        "counts": {**counts, "delivered": 3 * events},
        "peers": [{"url": "penstock://h", "name": None, "error": "penstock://h: connection refused"}],
    }


def drawn(now: dict[str, Any], before: dict[str, Any] | None) -> list[str]:
    from rich.console import Console

    console = Console(width=120, file=io.StringIO(), record=True)
    console.print(tables([(Look("u", now), Look("u", before))], total=False))
    return [" ".join(line.split()) for line in console.export_text().splitlines()]


@pytest.mark.parametrize("width", [40, 60, 80, 99])
def test_names_and_states_are_whole_in_a_narrow_terminal(width: int) -> None:
    from rich.console import Console

    status = status_of_broker(7_200.0, 123_456_789, client="the-departures-board")
    looks: list[tuple[Look, Look | None]] = [
        (Look("u", status), None),
        (Look("penstock://h:1", error="gone"), None),
        (Look("penstock://h:2", error="needs a token", refused=True), None),
    ]
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(tables(looks, total=True, width=width))
    text = console.export_text()
    lines = [line.split() for line in text.splitlines()]
    assert max(map(len, text.splitlines())) <= width
    above = text.partition("\nbrokers")[0].splitlines()
    assert "penstock://h:1 is down: gone" in above
    assert "penstock://h:2 refuses: needs a token" in above
    assert ["penstock://h:1", "down"] in lines
    assert ["penstock://h:2", "refused"] in lines
    assert ["b1", "up"] in [line[:2] for line in lines]
    assert ["b1", "b2", "cut"] in [line[:3] for line in lines]
    assert [line for line in lines if "slow" in line]


def test_subscriptions_that_may_match_nothing_are_counted() -> None:
    status = status_of_broker(7_200.0, 3, client="c")
    assert not [line for line in drawn(status, None) if "disagree" in line]
    status["disagreements"] = {"counts": {"unknown": 1_200, "family": 2}, "texts": []}
    told = "b1: subscriptions and events disagree: 2 family, 1,200 unknown (--json says which)"
    assert told in drawn(status, None)


def test_what_a_terminal_has_no_lines_for_is_told() -> None:
    from rich.console import Console

    looks: list[tuple[Look, Look | None]] = [
        (Look(f"penstock://h:{at}", error="gone"), None) for at in range(20)
    ]
    for height, last in (
        (10, "and 35 more lines, for a higher terminal or --once"),
        (60, "penstock://h:19 down"),
    ):
        console = Console(width=80, height=height, file=io.StringIO(), record=True)
        console.print(Cut(tables(looks, total=False, width=80)))
        lines = console.export_text().splitlines()
        assert len(lines) <= height
        assert " ".join(lines[-1].split()) == last


def test_who_stops_reading_ends_it_quietly(b1: str) -> None:
    for more in (["--interval", "0.1"], ["--once"]):
        command = [PROGRAM, "top", *more]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline().strip() == b"brokers"
            process.stdout.close()
            assert process.stderr.read() == b""
            assert process.wait(HANGS) == 0


def test_rates_are_counted_by_the_clock_of_the_broker() -> None:
    lines = drawn(status_of_broker(7_200.0, 3_000), status_of_broker(7_198.0, 1_000))
    assert "b1 up 2h00m 1,000 2,000 3,000 2.0 kB 1 1 0 1 1" in lines
    assert "b1 b2 cut 1,000 2,000 2.0 kB 3" in lines
    assert "b1 penstock://h down" in lines
    assert "b1 has no link to penstock://h: connection refused" in lines
    assert "b1 c [bold]s[/] slow 1 0 1,000 2,000 0 bytes" in lines


def test_a_broker_that_has_begun_anew_has_no_rates_yet() -> None:
    for before in (None, status_of_broker(100.0, 5)):
        assert "b1 up 1m05s – – – 2.0 kB 1 1 0 1 1" in drawn(status_of_broker(65.0, 9), before)


def test_names_that_others_chose_are_no_commands_to_a_terminal() -> None:
    text = "\n".join(drawn(status_of_broker(1.0, 1, client="c\x1b]0;x\x07\x9b"), None))
    assert "c\\x1b]0;x" in text
    assert not set(text) & {"\x1b", "\x07", "\x9b"}
