"""Sessions at terminals, as the documentation shows them, played with the real program.

A block of a page that begins with `# terminal N` is what that terminal shows: commands after `$ `, and what
they print. A command need not have ended for the next block to begin; another block of the same terminal
then shows what it has printed since. `^C` and `^\\` are the keys, with their signals. `$ cat FILE` writes the
file that is shown. In what is printed, `…` stands for anything; times and the widths of columns may differ.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue

from patience import HANGS

TERMINAL = re.compile(r"# terminal (\d+)\n")
PORT = re.compile(r"(?<=127\.0\.0\.1:)(74\d\d)\b")
KEYS = {"^C": signal.SIGINT, "^\\": signal.SIGQUIT}


def _heed_keys() -> None:
    for number in KEYS.values():
        signal.signal(number, signal.SIG_DFL)


def is_live(block: str) -> bool:
    """Whether a block needs a network that runs: a session at a terminal, or code that names an address."""
    return TERMINAL.match(block) is not None or PORT.search(block) is not None


def with_free_ports(text: str) -> str:
    """A page with free ports in place of those that may be taken; of as many digits, so that tables stay.

    Pages are played side by side, and a port is free until a broker listens: each process has its own.
    """
    shown = sorted(set(PORT.findall(text)))
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    others = (str(port) for port in range(7500 + 100 * worker, 10_000) if _is_free(port))
    ports = {port: port if worker == 0 and _is_free(int(port)) else next(others) for port in shown}
    return PORT.sub(lambda found: ports[found[1]], text)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def is_as_shown(printed: str, shown: str) -> bool:
    """Whether a line that was printed is the one that the page shows."""
    pattern = re.escape(_plain(shown)).replace("…", ".*")
    return re.fullmatch(pattern, _plain(printed)) is not None


def _plain(line: str) -> str:
    line = re.sub(r"\d+\.\d+ ms", "0 ms", re.sub(r"\b\d+s\b", "0s", line))
    return re.sub(r"─+", "─", re.sub(r"\s+", " ", line)).strip()


class Terminal:
    """One terminal: a command at a time, which may still run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None
        self._lines: Queue[str] = Queue()
        self._reader: threading.Thread | None = None
        self._status = 0

    def run(self, command: str) -> None:
        """Begin a command; the one before it has to end by itself."""
        self.finish()
        programs = Path(sys.executable).parent
        self._process = subprocess.Popen(
            ["bash", "-c", command.replace(".venv/bin/", "")],  # noqa: S607
            cwd=self._folder,
            env={**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # A group of its own, to which keys go, as those of a terminal do.
            start_new_session=True,
            # Tests that run in the background may have been told to ignore keys.
            preexec_fn=_heed_keys,
        )
        self._status = 0
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()

    def _read(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            # Whether a neighbour that was killed is missed long enough to be told depends on the machine.
            if "WARNING penstock.net: no link to" not in line:
                self._lines.put(line.rstrip("\n"))

    def see(self, shown: str) -> None:
        """Wait for the next line, which has to be this one."""
        try:
            printed = self._lines.get(timeout=HANGS)
        except Empty:
            raise AssertionError(f"did not come: {shown}") from None
        assert is_as_shown(printed, shown), f"\nprinted: {printed}\nshown:   {shown}"

    def press(self, key: str) -> None:
        """End the command as a key does. What it prints then is seen after that."""
        assert self._process is not None
        os.killpg(self._process.pid, KEYS[key])
        self._status = 0 if key == "^C" else -KEYS[key]

    def finish(self) -> None:
        """Wait until the command has ended, as it should, and has printed nothing that is not shown."""
        if self._process is None:
            return
        assert self._process.wait(HANGS) == self._status, self._process.args
        self.close()
        assert self._lines.empty(), f"printed and not shown: {self._lines.get()}"

    def close(self) -> None:
        """End the command, whatever it does."""
        if self._process is None:
            return
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        assert self._reader is not None
        self._reader.join(HANGS)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None

    def left(self) -> list[str]:
        """The lines that have come and were not looked at."""
        return [self._lines.get() for _ in range(self._lines.qsize())]


class Terminals:
    """All terminals of a page."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._terminals: dict[str, Terminal] = {}

    def play(self, block: str) -> None:
        """Do what a block shows."""
        begin = TERMINAL.match(block)
        assert begin is not None, f"which terminal is this? {block}"
        terminal = self._terminals.setdefault(begin[1], Terminal(self._folder))
        # A command goes on where its line ends in a backslash.
        lines = re.sub(r" \\\n\s*", " ", block[begin.end() :]).splitlines()
        file: Path | None = None
        for line in lines:
            if line.startswith("$ cat ") and "<" not in line and "|" not in line:
                file = self._folder / line.removeprefix("$ cat ")
                file.write_text("")
            elif line.startswith("$ "):
                file = None
                terminal.run(line.removeprefix("$ "))
            elif file is not None:
                file.write_text(f"{file.read_text()}{line}\n")
            elif line in KEYS:
                terminal.press(line)
            else:
                terminal.see(line)
        if lines and lines[-1] in KEYS:
            # Nobody goes on before the command has ended.
            terminal.finish()

    def finish(self) -> None:
        """Everything that the page began has ended, or is ended by a key."""
        for terminal in self._terminals.values():
            terminal.finish()

    def close(self) -> None:
        """End everything."""
        for terminal in self._terminals.values():
            terminal.close()

    def left(self) -> list[str]:
        """What has been printed and not looked at, which often says why something else did not come."""
        return [
            f"terminal {number}: {line}"
            for number, terminal in self._terminals.items()
            for line in terminal.left()
        ]


@contextmanager
def terminals(folder: Path) -> Iterator[Terminals]:
    """Terminals of which none stays behind."""
    made = Terminals(folder)
    try:
        yield made
        made.finish()
    except AssertionError as error:
        made.close()
        for line in made.left():
            error.add_note(line)
        raise
    finally:
        made.close()
