"""Running brokers: what is printed, how signals end them, and what is said when they cannot start."""

import asyncio
import errno
import os
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from patience import HANGS
from penstock.errors import InputError, NetworkError
from penstock.net import serve as serving
from penstock.net.config import BrokerConfig, GatewayConfig
from penstock.net.serve import run, serve
from penstock.node.settings import Times

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Fake:
    """A server that listens nowhere, and keeps account of what it is told."""

    def __init__(self, config: BrokerConfig, told: list[str]) -> None:
        self.config = config
        self.told = told
        self.urls: list[str] = []
        self.gateway_url: str | None = None

    async def start(self) -> None:
        self.urls = [url.replace(":0", ":5000") for url in self.config.listen]
        self.gateway_url = self.config.gateway.listen or None
        self.told.append(f"start {self.config.name}")

    async def drain(self) -> None:
        self.told.append(f"drain {self.config.name}")

    async def close(self) -> None:
        self.told.append(f"close {self.config.name}")


def named(name: str, *listen: str, gateway: str = "", drain: float = HANGS) -> BrokerConfig:
    return BrokerConfig(
        name=name,
        listen=list(listen) or [f"penstock://{name}:7400"],
        gateway=GatewayConfig(listen=gateway),
        times=Times(drain=drain),
    )


Work = Callable[[Fake], Coroutine[Any, Any, None]]


def outcome(configs: list[BrokerConfig], told: list[str], **acts: Work) -> int:
    """Serve with fakes of which some methods are replaced; return the status."""

    def make(config: BrokerConfig) -> Fake:
        fake = Fake(config, told)
        for name, act in acts.items():
            setattr(fake, name, lambda act=act: act(fake))
        return fake

    async def main() -> int:
        async with asyncio.timeout(HANGS):
            return await serve(configs, make_server=make)

    with asyncio.Runner(loop_factory=serving.loop_factory()) as runner:
        return runner.run(main())


def signalled_after(name: str, number: signal.Signals = signal.SIGTERM) -> Work:
    """A start after which, if it is that of this broker, somebody ends the program."""

    async def start(fake: Fake) -> None:
        await Fake.start(fake)
        if fake.config.name == name:
            asyncio.get_running_loop().call_later(0, os.kill, os.getpid(), number)

    return start


@pytest.fixture(autouse=True)
def handlers_are_as_they_were() -> Any:
    before = [signal.getsignal(number) for number in SIGNALS]
    yield
    assert [signal.getsignal(number) for number in SIGNALS] == before


@pytest.fixture(params=["uvloop", "asyncio"], autouse=True)
def loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything holds with uvloop and without."""
    factory = uvloop.new_event_loop if request.param == "uvloop" else None
    monkeypatch.setattr(serving, "loop_factory", lambda: factory)


@pytest.mark.parametrize("number", SIGNALS)
def test_brokers_say_where_they_listen_and_end_with_a_signal(
    number: signal.Signals, capfd: pytest.CaptureFixture[str]
) -> None:
    told: list[str] = []
    printed: list[str] = []

    async def look_and_end(fake: Fake) -> None:
        if fake.config.name == "b2":
            # What was said of the broker before can be read by now: it is not held back in a buffer.
            printed.append(capfd.readouterr().out)
        await signalled_after("b2", number)(fake)

    configs = [
        named("b1", "penstock://127.0.0.1:0", "penstock://[::1]:7401", gateway="http://127.0.0.1:7480"),
        named("b2", "penstock://127.0.0.1:7402"),
    ]
    assert outcome(configs, told, start=look_and_end) == 0
    assert printed == [
        "b1 listening on penstock://127.0.0.1:5000\n"
        "b1 listening on penstock://[::1]:7401\n"
        "b1 gateway on http://127.0.0.1:7480\n"
    ]
    assert capfd.readouterr().out == "b2 listening on penstock://127.0.0.1:7402\n"
    assert told == ["start b1", "start b2", "drain b1", "drain b2", "close b1", "close b2"]


def test_a_second_signal_closes_at_once() -> None:
    told: list[str] = []

    async def drain(fake: Fake) -> None:
        await Fake.drain(fake)
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()

    assert outcome([named("b1")], told, start=signalled_after("b1"), drain=drain) == 0
    assert told == ["start b1", "drain b1", "close b1"]


def test_draining_ends_when_its_time_is_over(caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []

    async def drain(fake: Fake) -> None:
        await Fake.drain(fake)
        await asyncio.Event().wait()

    configs = [named("b1", drain=0.01)]
    assert outcome(configs, told, start=signalled_after("b1"), drain=drain) == 0
    assert told == ["start b1", "drain b1", "close b1"]
    assert "b1: not all was delivered within 0.01 s (times.drain)" in caplog.text


def test_a_signal_that_comes_before_all_are_up_ends_those_that_are() -> None:
    told: list[str] = []

    async def start(fake: Fake) -> None:
        if fake.config.name == "b2":
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
        await Fake.start(fake)

    assert outcome([named("b1"), named("b2"), named("b3")], told, start=start) == 0
    assert told == ["start b1", "drain b1", "close b1", "close b2"]


def test_a_broker_that_fails_to_drain_or_close_does_not_keep_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[str] = []

    async def fail(fake: Fake) -> None:
        if fake.config.name == "b1":
            raise ValueError("odd")
        told.append(fake.config.name)

    start = signalled_after("b2")
    assert outcome([named("b1"), named("b2")], told, start=start, drain=fail, close=fail) == 0
    assert told == ["start b1", "start b2", "b2", "b2"]
    assert "b1: draining failed" in caplog.text
    assert "b1: closing failed" in caplog.text


def test_a_broker_that_does_not_close_does_not_keep_the_program(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "CLOSE_S", 0.01)

    async def close(_fake: Fake) -> None:
        await asyncio.Event().wait()

    assert outcome([named("b1")], [], start=signalled_after("b1"), close=close) == 0
    assert "b1: did not close within 0.01 s" in caplog.text


FAILURES: list[tuple[OSError, str]] = [
    (
        OSError(errno.EADDRINUSE, "error while attempting to bind on address ('127.0.0.1', 7400): in use"),
        "b2: cannot listen on penstock://b2:7400 or http://127.0.0.1:7480: address already in use; another "
        "program listens there: end it, or give another port",
    ),
    (
        PermissionError(errno.EACCES, "Permission denied"),
        "b2: cannot listen on penstock://b2:7400 or http://127.0.0.1:7480: permission denied; ports below "
        "1024 are often for the administrator only",
    ),
    (
        socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
        "b2: cannot listen on penstock://b2:7400 or http://127.0.0.1:7480: name or service not known",
    ),
    (FileNotFoundError(errno.ENOENT, "No such file", "b2.pem"), "b2: b2.pem: no such file or directory"),
    (ssl.SSLError(9, "[SSL] PEM lib"), "b2: its certificates cannot be used: [SSL] PEM lib"),
]


@pytest.mark.parametrize(("error", "said"), FAILURES, ids=[type(error).__name__ for error, _ in FAILURES])
def test_a_broker_that_cannot_listen_ends_all_with_a_reason(error: OSError, said: str) -> None:
    told: list[str] = []

    async def start(fake: Fake) -> None:
        if fake.config.name == "b2":
            raise error
        await Fake.start(fake)

    with pytest.raises(NetworkError) as caught:
        outcome([named("b1"), named("b2", gateway="http://127.0.0.1:7480"), named("b3")], told, start=start)
    assert str(caught.value) == said
    # Who was up had nothing yet that is worth delivering to anybody; it is closed.
    assert told == ["start b1", "close b1", "close b2"]


@pytest.mark.parametrize("error", [NetworkError("b1: better said"), InputError("b1: no key")])
def test_what_a_broker_says_better_itself_is_left_as_it_is(error: Exception) -> None:
    async def start(_fake: Fake) -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        outcome([named("b1")], [], start=start)
    assert caught.value is error


def test_an_address_in_use_is_the_same_error_with_every_loop() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        async def start(_fake: Fake) -> None:
            await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", port)

        with pytest.raises(NetworkError, match=f":{port}: address already in use"):
            outcome([named("b1", f"penstock://127.0.0.1:{port}")], [], start=start)


def test_what_is_open_to_other_machines_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    outcome([named("b1", "penstock://0.0.0.0:7400")], [], start=signalled_after("b1"))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "b1: penstock://0.0.0.0:7400 can be reached from other machines without TLS" in caplog.text


def test_brokers_are_closed_when_the_task_is_cancelled() -> None:
    told: list[str] = []

    async def main() -> None:
        up = asyncio.Event()

        class Telling(Fake):
            async def start(self) -> None:
                await super().start()
                up.set()

        task = asyncio.create_task(serve([named("b1")], make_server=lambda config: Telling(config, told)))
        await up.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert told == ["start b1", "close b1"]


def test_the_server_of_the_package_is_run_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    class Module:
        @staticmethod
        def Server(config: BrokerConfig) -> Fake:  # noqa: N802 - it stands for the class
            fake = Fake(config, told)
            asyncio.get_running_loop().call_later(0, os.kill, os.getpid(), signal.SIGTERM)
            return fake

    monkeypatch.setattr(serving, "import_module", lambda name: {"penstock.net.server": Module}[name])
    assert run([named("b1")]) == 0
    assert told[-1] == "close b1"


def test_the_loop_is_uvloops_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert serving.loop_factory() is uvloop.new_event_loop
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert serving.loop_factory() is None
