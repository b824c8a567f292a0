"""The program beside a test: real brokers, and commands that run until they are ended."""

import asyncio
import io
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue
from typing import IO

import pytest

import penstock
from patience import HANGS
from penstock.cli.main import main

Capture = pytest.CaptureFixture[bytes]

PROGRAM = str(Path(sys.executable).with_name("penstock"))
NOWHERE = "penstock://127.0.0.1:1"
"""Where nobody listens."""


def until(is_so: Callable[[], object]) -> None:
    """Wait until something is so, for a while."""
    end = time.monotonic() + HANGS
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


class Running:
    """A command that runs beside the test; its lines are read as they come, so that it never waits for us."""

    def __init__(self, *arguments: str, stdin: bool = False, read: bool = True) -> None:
        self.process = subprocess.Popen(
            [PROGRAM, *arguments],
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.out: Queue[str] = Queue()
        self.err: Queue[str] = Queue()
        self._threads = [self._follow(self.process.stderr, self.err)]
        if read:
            self._threads.append(self._follow(self.process.stdout, self.out))

    @staticmethod
    def _follow(stream: IO[bytes] | None, lines: "Queue[str]") -> threading.Thread:
        assert stream is not None

        def follow() -> None:
            for line in stream:
                lines.put(line.decode().rstrip("\n"))

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        return thread

    def line(self) -> str:
        """The next line of standard output."""
        return self.out.get(timeout=HANGS)

    def told(self) -> str:
        """The next line of standard error."""
        return self.err.get(timeout=HANGS)

    def give(self, *lines: str) -> None:
        """Write lines to its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write("".join(f"{line}\n" for line in lines).encode())
        self.process.stdin.flush()

    def end(self, number: signal.Signals | None = None) -> tuple[int, list[str], list[str]]:
        """Send a signal, if one is given, and wait; its status, and the lines that were not read."""
        if number is not None:
            self.process.send_signal(number)
        try:
            status = self.process.wait(timeout=HANGS)
        finally:
            self.process.kill()
        for thread in self._threads:
            thread.join(HANGS)
        self.close()
        return status, left(self.out), left(self.err)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


def left(lines: "Queue[str]") -> list[str]:
    found = []
    try:
        while True:
            found.append(lines.get_nowait())
    except Empty:
        return found


@contextmanager
def running(*arguments: str, stdin: bool = False, read: bool = True) -> Iterator[Running]:
    command = Running(*arguments, stdin=stdin, read=read)
    try:
        yield command
    finally:
        command.close()


@contextmanager
def broker(name: str, *more: str, listen: str = "penstock://127.0.0.1:0") -> Iterator[tuple[Running, str]]:
    """A broker, and where it listens."""
    arguments = ("broker", "--name", name, "--listen", listen, "--gateway", "none", *more)
    with running(*arguments) as command:
        # A first one may have to compile its kernels, which takes minutes.
        said = command.out.get(timeout=HANGS)
        assert said.startswith(f"{name} listening on ")
        yield command, said.rpartition(" ")[2]


@contextmanager
def three_brokers() -> Iterator[list[str]]:
    """Where three brokers in a row listen."""
    with (
        broker("b1") as (_one, first),
        broker("b2", "--peer", first) as (_two, second),
        broker("b3", "--peer", second) as (_three, third),
    ):

        async def links() -> list[str]:
            async with await penstock.connect(second) as net:
                return [link["state"] for link in (await net.status())["links"]]

        until(lambda: asyncio.run(links()) == ["up", "up"])
        yield [first, second, third]


def run(capture: Capture, *arguments: str) -> tuple[int, str, str]:
    status = main(arguments)
    out, err = capture.readouterr()
    return status, out.decode(), err.decode()


def failure(capture: Capture, *arguments: str, status: int = 2) -> str:
    """Run the program, which must fail with nothing on standard output; return its one line."""
    found, out, err = run(capture, *arguments)
    assert (found, out) == (status, "")
    assert err.startswith("penstock: ")
    assert err.count("\n") == 1
    return err.removeprefix("penstock: ").rstrip("\n")


def typed(monkeypatch: pytest.MonkeyPatch, text: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))


@contextmanager
def subscribed(*arguments: str, read: bool = True) -> Iterator[Running]:
    """`penstock sub`, once it is in place."""
    with running("sub", *arguments, read=read) as sub:
        assert sub.told().startswith("penstock: note: subscribed at ")
        yield sub
