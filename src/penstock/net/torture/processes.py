"""Broker processes: started on ports that stay theirs, killed, paused, asked to end, and never left behind.

They are plain children, whose output goes to files, so that they can be ended whatever state the event loop
is in.
"""

import asyncio
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import SystemRandom
from typing import IO, Final

from penstock.errors import PenstockError
from penstock.net.torture.proxy import LOOPBACK

START_PATIENCE: Final = 120.0
"""Seconds until a broker listens: the first one may have to compile kernels."""

END_PATIENCE: Final = 30.0
"""Seconds until a broker that was asked to end has ended."""

_PORTS: Final = range(10_240, 32_768)
"""Below those that systems give to whoever connects: a broker that is down keeps its port."""

_POLL: Final = 0.02
_TAIL: Final = 12


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, and that nobody gets by chance."""
    found: list[int] = []
    candidates = SystemRandom().sample(_PORTS, min(len(_PORTS), 50 * count + 200))
    for port in candidates:
        if len(found) == count:
            break
        with socket.socket() as probe:
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
        found.append(port)
    if len(found) < count:
        raise PenstockError(f"there are no {count} free ports on {LOOPBACK}; end what listens there")
    return found


def broker_command(
    name: str, port: int, peers: Sequence[str], scheme: str = "covering", config: Path | None = None
) -> list[str]:
    """How a broker is started; `config`: a file of settings."""
    command = [sys.executable, "-m", "penstock", "broker", "--name", name]
    if config is not None:
        command += ["--config", str(config)]
    command += ["--listen", f"penstock://{LOOPBACK}:{port}"]
    for peer in peers:
        command += ["--peer", peer]
    return [*command, "--scheme", scheme, "--gateway", "none", "--log-level", "info"]


class BrokerProcess:
    """A broker that can be started again and again, always at the same address."""

    def __init__(self, name: str, command: Sequence[str], folder: Path) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._command = list(command)
        self._process: subprocess.Popen[bytes] | None = None
        self._is_wanted = False

    @property
    def pid(self) -> int | None:
        """Of the process that runs, if one does."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    @property
    def has_crashed(self) -> bool:
        """Whether it has ended though nobody asked it to."""
        return self._is_wanted and self.pid is None

    async def start(self, patience: float = START_PATIENCE) -> None:
        """Start it, and wait until it says that it listens."""
        if self.pid is not None:
            raise PenstockError(f"{self.name} runs already, as process {self.pid}")
        with self.log.open("ab") as log:
            begin = log.tell()
            self._process = self._started(log)
        self._is_wanted = True
        until = time.monotonic() + patience
        while b"listening on" not in self._said(begin):
            if self.pid is None:
                raise PenstockError(f"{self.name} ended before it listened; it said:\n{self.last_words()}")
            if time.monotonic() > until:
                raise PenstockError(f"{self.name} does not listen after {patience:g} s:\n{self.last_words()}")
            await asyncio.sleep(_POLL)

    def kill(self) -> None:
        """End it at once, without a word to anybody (SIGKILL)."""
        self._is_wanted = False
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def pause(self) -> None:
        """Have it stand still (SIGSTOP): its connections stay, and it says nothing."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Have it go on after a pause (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self.pid is None or self._process is None:
            raise PenstockError(f"{self.name} does not run; no {number.name} for it")
        self._process.send_signal(number)

    async def terminate(self, patience: float = END_PATIENCE) -> int:
        """Ask it to end (SIGTERM); give its exit status. Without patience left, it is killed."""
        self._is_wanted = False
        process = self._process
        if process is None or process.poll() is not None:
            raise PenstockError(f"{self.name} does not run, and cannot be asked to end")
        process.send_signal(signal.SIGTERM)
        until = time.monotonic() + patience
        while process.poll() is None:
            if time.monotonic() > until:
                self.kill()
                break
            await asyncio.sleep(_POLL)
        return process.wait()

    def last_words(self) -> str:
        """The end of what it printed."""
        lines = self._said(0).decode(errors="replace").splitlines()
        return "\n".join(f"  {line}" for line in lines[-_TAIL:]) or "  nothing"

    def _started(self, log: IO[bytes]) -> "subprocess.Popen[bytes]":
        # In a session of its own: Ctrl-C is for us, and we end it.
        return subprocess.Popen(  # noqa: S603 - our own program, with arguments of our own
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def _said(self, begin: int) -> bytes:
        with self.log.open("rb") as log:
            log.seek(begin)
            return log.read()
