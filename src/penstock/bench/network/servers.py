"""Brokers as processes of their own: started with a time limit, ended whatever happens."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from penstock.errors import PenstockError

START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 10.0
_POLL: Final = 0.05
_SHOWN: Final = 300
"""Characters at the end of a server's output that an error quotes."""

Found = TypeVar("Found")


class Process:
    """A server; what it prints goes to a file.

    It leads a session of its own: Ctrl-C does not reach it before we have done with it, and what it has
    started ends with it.
    """

    def __init__(self, name: str, command: Sequence[str], folder: Path, more: Mapping[str, str]) -> None:
        self.name = name
        self.output = folder / f"{name}.out"
        with self.output.open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603 - programs that we name
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={**os.environ, **more},
                start_new_session=True,
            )

    def said(self) -> str:
        """What it has printed."""
        return self.output.read_text("utf-8", errors="replace")

    def wait_for(self, look: Callable[[], Found | None], seconds: float = START_SECONDS) -> Found:
        """What `look` finds, as soon as it does; an error where the process ends, or time is up."""
        end = time.monotonic() + seconds
        while (found := look()) is None:
            ended = self._process.poll() is not None
            if ended or time.monotonic() > end:
                what = "ended when it was started" if ended else f"was not ready after {seconds:.0f} seconds"
                raise PenstockError(
                    f"{self.name} {what}: {self.said()[-_SHOWN:].strip() or 'it said nothing'}"
                )
            time.sleep(_POLL)
        return found

    def stop(self) -> None:
        """Ask it to end, and make it end if it does not."""
        for number, seconds in ((signal.SIGTERM, _STOP_SECONDS), (signal.SIGKILL, _STOP_SECONDS)):
            # To all of its session: a shell script that waits for the server does not pass signals on.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
                if not _lives(self._process.pid, seconds):
                    return


def _lives(group: int, seconds: float) -> bool:
    """Whether something of a session is still there after this time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except (ProcessLookupError, PermissionError):
            return False
        time.sleep(_POLL)
    return True


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that nobody listens on."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def answers(port: int) -> bool | None:
    """True where somebody listens on a port of the loopback interface, else None."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return None
