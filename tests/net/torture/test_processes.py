"""Processes are started, killed and asked to end, and none stays behind."""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from penstock.errors import PenstockError
from penstock.net.torture.processes import BrokerProcess, broker_command, free_ports

LISTENS = "import time; print('b listening on x', flush=True); time.sleep(600)"
POLITE = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); " + LISTENS
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + LISTENS
BREAKS = "print('no such option'); raise SystemExit(2)"


def process(folder: Path, code: str) -> BrokerProcess:
    return BrokerProcess("b", [sys.executable, "-c", code], folder)


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_killed_broker_is_gone_and_can_be_started_again(tmp_path: Path) -> None:
    broker = process(tmp_path, LISTENS)
    try:
        pids = []
        for _ in range(2):
            asyncio.run(broker.start())
            assert broker.pid is not None
            pids.append(broker.pid)
            with pytest.raises(PenstockError, match="runs already"):
                asyncio.run(broker.start())
            broker.kill()
            assert broker.pid is None
            assert not broker.has_crashed
        assert not any(map(is_there, pids))
        assert broker.log.read_text().count("listening") == 2
    finally:
        broker.kill()


@pytest.mark.parametrize(("code", "status"), [(POLITE, 0), (LISTENS, -15)])
def test_a_broker_that_is_asked_to_end_says_how_it_did(tmp_path: Path, code: str, status: int) -> None:
    broker = process(tmp_path, code)
    try:
        asyncio.run(broker.start())
        assert asyncio.run(broker.terminate()) == status
        with pytest.raises(PenstockError, match="does not run"):
            asyncio.run(broker.terminate())
    finally:
        broker.kill()


def test_a_broker_that_does_not_end_is_killed(tmp_path: Path) -> None:
    broker = process(tmp_path, STUBBORN)
    try:
        asyncio.run(broker.start())
        assert asyncio.run(broker.terminate(patience=0.2)) == -9
    finally:
        broker.kill()


def test_a_broker_is_paused_and_goes_on_and_can_be_killed_meanwhile(tmp_path: Path) -> None:
    broker = process(tmp_path, POLITE)
    try:
        with pytest.raises(PenstockError, match="does not run; no SIGSTOP for it"):
            broker.pause()
        asyncio.run(broker.start())
        broker.pause()
        assert broker.pid is not None
        os.kill(broker.pid, signal.SIGTERM)
        # It does not hear of it before it goes on.
        time.sleep(0.1)
        assert broker.pid is not None
        broker.go_on()
        while broker.pid is not None:
            pass
        asyncio.run(broker.start())
        broker.pause()
    finally:
        broker.kill()
    assert broker.pid is None


def test_a_broker_that_cannot_start_is_quoted(tmp_path: Path) -> None:
    with pytest.raises(PenstockError, match=r"ended before it listened.*\n.*no such option"):
        asyncio.run(process(tmp_path, BREAKS).start())


def test_a_broker_that_never_listens_is_given_up(tmp_path: Path) -> None:
    broker = process(tmp_path, "import time; time.sleep(600)")
    try:
        with pytest.raises(PenstockError, match="does not listen after"):
            asyncio.run(broker.start(patience=0.2))
    finally:
        broker.kill()


def test_a_broker_that_ends_by_itself_has_crashed(tmp_path: Path) -> None:
    broker = process(tmp_path, LISTENS)
    asyncio.run(broker.start())
    assert broker.pid is not None
    os.kill(broker.pid, 9)
    while broker.pid is not None:
        pass
    assert broker.has_crashed
    assert "listening" in broker.last_words()


def test_ports_are_different_and_free() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert all(1024 < port < 32_768 for port in ports)


def test_a_broker_is_started_with_its_address_and_its_peers() -> None:
    command = broker_command("b1", 7401, ["penstock://127.0.0.1:1", "penstock://127.0.0.1:2"])
    assert " ".join(command[1:]) == (
        "-m penstock broker --name b1 --listen penstock://127.0.0.1:7401 "
        "--peer penstock://127.0.0.1:1 --peer penstock://127.0.0.1:2 "
        "--scheme covering --gateway none --log-level info"
    )
