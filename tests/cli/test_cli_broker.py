"""`penstock broker` and `penstock network`: help, flags over files, mistakes, a whole life with signals."""

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from patience import HANGS
from penstock.cli import broker
from penstock.cli.logs import OneLine
from penstock.cli.main import main
from penstock.cli.signals import left_to_a_loop
from penstock.errors import NetworkError
from penstock.net.config import BrokerConfig, GatewayConfig, TLSConfig, TokenConfig, example

Capture = pytest.CaptureFixture[bytes]


TWO = """
[[broker]]
name = "b1"
listen = ["penstock://127.0.0.1:7401"]
[[broker]]
name = "b2"
listen = ["penstock://127.0.0.1:7402"]
peers = ["penstock://127.0.0.1:7401"]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("b.pem", "b.key", "ca.pem", "secret"):
        Path(name).write_text("")
    Path("two.toml").write_text(TWO)
    return tmp_path


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[BrokerConfig]:
    """What would have been run."""
    configs: list[BrokerConfig] = []

    def run(given: list[BrokerConfig]) -> int:
        configs.extend(given)
        return 0

    monkeypatch.setattr(broker, "run", run)
    return configs


def failure(capture: Capture, *arguments: str, status: int = 2) -> str:
    """Run the program, which must fail with nothing on standard output; return its one line."""
    assert main(arguments) == status
    out, err = capture.readouterr()
    line = err.decode()
    assert out == b""
    assert line.startswith("penstock: ")
    assert line.count("\n") == 1
    return line.removeprefix("penstock: ").rstrip("\n")


@pytest.mark.parametrize("command", ["broker", "network"])
def test_help_has_examples(command: str, capsysbinary: Capture) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"])
    out, err = capsysbinary.readouterr()
    assert (stopped.value.code, err) == (0, b"")
    assert f"  penstock {command} ".encode() in out.partition(b"examples:")[2]


def test_the_example_is_printed(capsysbinary: Capture) -> None:
    assert main(["broker", "--example"]) == 0
    assert capsysbinary.readouterr() == (example().encode(), b"")


def test_a_name_is_enough(served: list[BrokerConfig]) -> None:
    assert main(["broker", "--name", "b1"]) == 0
    assert served == [BrokerConfig(name="b1")]


def test_every_flag_is_a_setting(served: list[BrokerConfig]) -> None:
    flags = [
        *("--name", "b1"),
        *("--listen", "penstocks://127.0.0.1:7401"),
        *("--listen", "penstock://127.0.0.1:0"),
        *("--peer", "penstocks://b2"),
        *("--peer", "penstock://b3"),
        *("--peer-name", "b2"),
        *("--peer-name", "b3"),
        *("--scheme", "merging"),
        *("--gateway", "http://127.0.0.1:7481"),
        "--no-advertisements",
        "--allow-anonymous",
        *("--token-secret", "secret"),
        *("--tls-cert", "b.pem"),
        *("--tls-key", "b.key"),
        *("--tls-ca", "ca.pem"),
        *("--peer-secret", "secret"),
    ]
    assert main(["broker", *flags]) == 0
    assert served == [
        BrokerConfig(
            name="b1",
            listen=["penstocks://127.0.0.1:7401", "penstock://127.0.0.1:0"],
            peers=["penstocks://b2", "penstock://b3"],
            peer_names=["b2", "b3"],
            scheme="merging",
            gateway=GatewayConfig(listen="http://127.0.0.1:7481"),
            advertisements=False,
            allow_anonymous=True,
            tokens=TokenConfig(secret_file="secret"),  # noqa: S106 - it is the name of a file
            tls=TLSConfig(cert="b.pem", key="b.key", ca="ca.pem"),
            peer_secret_file="secret",  # noqa: S106
        )
    ]


def test_flags_override_a_file_and_leave_the_rest(served: list[BrokerConfig]) -> None:
    Path("b.toml").write_text(
        "name = 'b1'\nscheme = 'lazy'\npeers = ['penstock://b2']\n[gateway]\norigins = ['*']\n"
    )
    flags = ["--scheme", "simple", "--gateway", "none"]
    assert main(["broker", "--config", "b.toml", *flags]) == 0
    assert main(["broker", "--config", "b.toml"]) == 0
    first, second = served
    assert (first.name, first.scheme, first.peers) == ("b1", "simple", ["penstock://b2"])
    assert first.gateway == GatewayConfig(listen="", origins=["*"])
    assert (second.scheme, second.advertisements) == ("lazy", True)


def test_a_network_is_run_from_its_file(served: list[BrokerConfig]) -> None:
    assert main(["network", "two.toml"]) == 0
    assert [config.name for config in served] == ["b1", "b2"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("broker", "--name: is missing; "),
        ("broker --name b1 --listen b1", "--listen: 'b1': a broker's address begins with"),
        (
            "broker --name b1 --listen penstock://b:99999",
            "--listen: 'penstock://b:99999': a port",
        ),
        ("broker --name b1 --peer http://b2", "--peer: 'http://b2': a broker's address"),
        ("broker --name b1 --scheme coverin", "--scheme: no scheme 'coverin'; perhaps covering"),
        (
            "broker --name b1 --gateway penstock://b",
            "--gateway: 'penstock://b': a gateway",
        ),
        (
            "broker --name b1 --token-secret gone",
            "--token-secret: gone: there is no such file",
        ),
        ("broker --name b1 --tls-key b.key", "--tls-key: is the key of a certificate; give --tls-cert"),
        (
            "broker --name b1 --listen penstocks://b",
            "--listen: penstocks:// needs a certificate; give --tls-cert and --tls-key",
        ),
        (
            "broker --name b1 --gateway https://b",
            "--gateway: https:// needs a certificate; give gateway.cert and gateway.key in a file (--config",
        ),
        (
            "broker --name b1 --listen penstock://0.0.0.0",
            "--listen: penstock://0.0.0.0:7400 can be reached from other machines, and no token is required "
            "there: give --token-secret (penstock token --new-secret FILE makes one), or --allow-anonymous ",
        ),
        ("broker --name b1 --tls-cert tls.cert", "--tls-cert: tls.cert: there is no such file"),
        ("broker --config gone.toml", "gone.toml: no such file or directory"),
        ("broker --config two.toml", "two.toml: broker: [[broker]] tables are for penstock network"),
        ("broker --config bad.toml", "bad.toml: scheme: no scheme 'odd'; there are flooding"),
        ("network gone.toml", "gone.toml: no such file or directory"),
        ("network bad.toml", "bad.toml: name: belongs into [defaults]"),
        ("network b.pem", "b.pem: broker: begin each broker with [[broker]]"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: str, said: str, capsysbinary: Capture, served: list[BrokerConfig]
) -> None:
    Path("bad.toml").write_text("name = 'b1'\nscheme = 'odd'\n")
    assert failure(capsysbinary, *arguments.split()).startswith(said)
    assert not served


@pytest.mark.parametrize(
    "arguments",
    [
        "network",
        "broker extra",
        "broker --log-level loud",
        "broker --name",
        "broker --odd",
        "network --peer b",
    ],
)
def test_arguments_that_cannot_be_are_refused(arguments: str, capsysbinary: Capture) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments.split())
    out, err = capsysbinary.readouterr()
    assert (stopped.value.code, out) == (2, b"")
    assert err.decode().splitlines()[-1].startswith("penstock")


def test_a_broker_that_cannot_listen_is_told_with_status_1(
    capsysbinary: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(_configs: list[BrokerConfig]) -> int:
        raise NetworkError("b1: cannot listen on penstock://127.0.0.1:7400: address already in use")

    monkeypatch.setattr(broker, "run", run)
    said = failure(capsysbinary, "broker", "--name", "b1", status=1)
    assert said == "b1: cannot listen on penstock://127.0.0.1:7400: address already in use"


def test_signals_are_lent_to_a_loop_and_come_back() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing)
    handler = signal.getsignal(signal.SIGTERM)
    try:
        with left_to_a_loop():
            assert signal.set_wakeup_fd(-1) == -1
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        assert signal.getsignal(signal.SIGTERM) == handler
        assert signal.set_wakeup_fd(before) == writing
    finally:
        signal.set_wakeup_fd(before)
        signal.signal(signal.SIGTERM, handler)
        os.close(reading)
        os.close(writing)


def test_a_traceback_is_logged_in_one_line() -> None:
    try:
        raise ValueError("odd")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "x", 1, "it failed", None, sys.exc_info())
    line = OneLine().format(record)
    assert "\n" not in line
    assert "ERROR x: it failed | Traceback" in line
    assert line.endswith("| ValueError: odd")


PROGRAM = """
import asyncio, logging, sys, types
from penstock.cli.main import main

if {plain}:
    sys.modules["uvloop"] = None

class Server:
    def __init__(self, config):
        self.name, self.urls, self.gateway_url = config.name, config.listen, config.gateway.listen

    async def start(self):
        logging.getLogger("penstock.fake").info("two\\nlines")

    async def drain(self):
        print(self.name, "drains", flush=True)
        if {stuck}:
            await asyncio.Event().wait()

    async def close(self):
        print(self.name, "closes", type(asyncio.get_running_loop()).__module__, flush=True)

sys.modules["penstock.net.server"] = types.SimpleNamespace(Server=Server)
sys.exit(main())
"""
"""The program, signals and all, with another server."""


def launched(*arguments: str, plain: bool, stuck: bool = False) -> "subprocess.Popen[str]":
    code = PROGRAM.format(plain=plain, stuck=stuck)
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def line_of(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_broker_runs_until_a_signal_and_ends_well(number: signal.Signals, plain: bool) -> None:
    process = launched("broker", "--name", "b1", plain=plain)
    assert line_of(process) == "b1 listening on penstock://127.0.0.1:7400"
    assert line_of(process) == "b1 gateway on http://127.0.0.1:7480"
    process.send_signal(number)
    out, err = process.communicate(timeout=HANGS)
    assert (process.returncode, err) == (0, "")
    first, second = out.splitlines()
    assert first == "b1 drains"
    assert second.startswith("b1 closes asyncio" if plain else "b1 closes uvloop")


def test_a_second_signal_ends_a_broker_at_once() -> None:
    process = launched("broker", "--name", "b1", "--gateway", "none", plain=False, stuck=True)
    assert line_of(process).startswith("b1 listening")
    process.send_signal(signal.SIGTERM)
    assert line_of(process) == "b1 drains"
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=HANGS)
    assert (process.returncode, err) == (0, "")
    assert out.startswith("b1 closes")


def test_what_brokers_log_is_a_line_each_on_standard_error() -> None:
    process = launched("network", "two.toml", "--log-level", "info", plain=False)
    said = [line_of(process) for _ in range(3)]
    assert [line.partition(" on ")[0] for line in said] == ["b1 listening", "b1 gateway", "b2 listening"]
    process.send_signal(signal.SIGTERM)
    _out, err = process.communicate(timeout=HANGS)
    assert process.returncode == 0
    lines = [line for line in err.splitlines() if "penstock.fake" in line]
    assert len(lines) == 2
    assert all(line.endswith(" INFO penstock.fake: two | lines") for line in lines)
