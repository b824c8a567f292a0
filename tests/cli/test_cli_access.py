"""The commands of a client with a broker that asks for tokens, over TLS."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from live_commands import NOWHERE, PROGRAM, Capture, broker, failure, run, subscribed
from penstock.cli.main import main


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A broker that asks for tokens, over TLS; and a folder with all that is needed for it."""
    folder = tmp_path_factory.mktemp("guarded")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(folder / "b.pem")
    assert main(["token", "--new-secret", str(folder / "secret")]) == 0
    grants = {
        "reader": ["--subscribe", "x > 0"],
        "writer": ["--advertise", "x > 0"],
        "both": ["--subscribe", "x > 0", "--advertise", "true", "--monitor"],
    }
    for name, granted in grants.items():
        arguments = ["token", "--secret-file", str(folder / "secret"), "--subject", name, *granted]
        with (folder / name).open("wb") as file:
            subprocess.run([PROGRAM, *arguments], stdout=file, check=True)
    flags = ["--token-secret", str(folder / "secret"), "--tls-cert", str(folder / "b.pem")]
    with broker("g1", *flags, listen="penstocks://127.0.0.1:0") as (_broker, url):
        yield url, folder


@pytest.fixture
def g1(guarded: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """The flags that everybody needs."""
    url, folder = guarded
    monkeypatch.setenv("PENSTOCK_URL", url)
    monkeypatch.delenv("PENSTOCK_TOKEN", raising=False)
    monkeypatch.chdir(folder)
    return "--ca", "ca.pem"


def test_a_token_lets_somebody_in_and_says_what_they_may(
    g1: tuple[str, ...], capsysbinary: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "this broker asks for a token" in failure(capsysbinary, "pub", '{"x": 1}', *g1)
    assert failure(capsysbinary, "pub", '{"x": 1}', *g1, "--token", "a.b.c")
    writer = ("pub", '{"x": 1}', *g1, "--token-file", "writer")
    assert failure(capsysbinary, *writer).startswith("say with --advertise what the events are like: ")
    said = failure(capsysbinary, *writer, "--token-file", "reader")
    assert "nothing is granted" in said
    assert "--advertise" not in said
    assert run(capsysbinary, *writer, "--advertise", "x = 1")[0] == 0
    assert run(capsysbinary, *writer, "--token-file", "both")[0] == 0
    assert failure(capsysbinary, "sub", "y > 0", *g1, "--token-file", "reader")
    monkeypatch.setenv("PENSTOCK_TOKEN", Path("reader").read_text())
    with subscribed("x = 1", *g1) as sub:
        assert run(capsysbinary, *writer, "--advertise", "x = 1")[0] == 0
        assert sub.line() == '{"x":1}'


def test_to_look_and_to_trace_needs_the_right_to_monitor(
    g1: tuple[str, ...], guarded: tuple[str, Path], capsysbinary: Capture
) -> None:
    writer, both = ("--token-file", "writer"), ("--token-file", "both")
    said = failure(capsysbinary, "trace", '{"x": 1}', *g1, *writer, "--advertise", "x = 1")
    assert said == "tracing needs the right to monitor"
    assert run(capsysbinary, "trace", '{"x": 2}', *g1, *both) == (0, "g1\n1 broker, 0 clients\n", "")
    status, out, err = run(capsysbinary, "top", "--once", "--json", *g1, *writer)
    assert (status, err) == (2, "")
    assert json.loads(out)["error"] == "the token has no right to monitor"
    assert json.loads(out)["refused"] is True
    status, out, err = run(capsysbinary, "top", "--once", *g1, *writer, "--url", guarded[0], "--url", NOWHERE)
    assert (status, err) == (1, "")
    assert {"refused", "down"} <= set(out.split())
    assert run(capsysbinary, "top", "--once", *g1, *both)[0] == 0


def test_a_broker_that_nobody_vouches_for_is_not_trusted(
    g1: tuple[str, ...], guarded: tuple[str, Path], capsysbinary: Capture
) -> None:
    said = failure(capsysbinary, "pub", '{"x": 1}', "--token-file", "both", status=1)
    assert said.startswith(f"{guarded[0]}: ")
    assert "verify" in said.lower().replace("_", " ")
