"""Penstock installed anew: an empty folder with its files, where nothing is compiled, and a home of its own.

Dependencies are those of this environment, so that nobody waits for a network. Or all is as users have it:
`pip install` of a wheel into a new virtual environment, with the dependencies that pip chooses.
"""

import os
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import penstock
from penstock.errors import InputError
from penstock.matching.arrival import VARIABLE
from penstock.matching.locking import LOCK

_PACKAGES: Final = ("penstock", "pyspark_penstock")
_KEPT_OUT: Final = ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT", VARIABLE)


class Installation:
    """A folder in which Penstock is installed."""

    def __init__(self, folder: Path, wheel: Path | None = None, extras: Sequence[str] | None = None) -> None:
        """From a wheel, or as this process has it; with `extras`, by pip, into a virtual environment."""
        self.folder = folder
        self._site = folder / "site"
        self._python = sys.executable
        self.environment = {
            **{key: value for key, value in os.environ.items() if key not in _KEPT_OUT},
            "HOME": str(folder),
            "PYTHONPATH": str(self._site),
            "PYTHONDONTWRITEBYTECODE": "",
        }
        if wheel is not None and extras is not None:
            self._install(wheel, extras)
            return
        self._site.mkdir()
        if wheel is None:
            home = Path(penstock.__file__).parent
            for name in _PACKAGES:
                if (home.parent / name).is_dir():
                    compiled = shutil.ignore_patterns("__pycache__")
                    shutil.copytree(home.parent / name, self._site / name, ignore=compiled)
        else:
            try:
                with zipfile.ZipFile(wheel) as packed:
                    packed.extractall(self._site)
            except (OSError, zipfile.BadZipFile) as error:
                raise InputError(f"{wheel}: not a wheel that can be read: {error}") from None
        # As pip does it. Not counted as compiling: it is part of installing.
        self.run("-m", "compileall", "-q", str(self._site))

    def _install(self, wheel: Path, extras: Sequence[str]) -> None:
        """Have pip install the wheel, with extras, into a virtual environment."""
        del self.environment["PYTHONPATH"]
        self.run("-m", "venv", str(self.folder / "venv"))
        self._python = str(self.folder / "venv" / "bin" / "python")
        wanted = f"[{','.join(extras)}]" if extras else ""
        # Compiled to bytecode as it is installed: that is pip's default.
        self.run("-m", "pip", "install", "--quiet", f"{wheel.absolute()}{wanted}")

    def start(self, *program: str) -> "subprocess.Popen[bytes]":
        """A program of this installation, whose output can be read."""
        return subprocess.Popen(  # noqa: S603 - this very Python, or a copy of it
            [self._python, *program],
            env=self.environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, *program: str) -> bytes:
        """The output of a program; InputError where it fails."""
        return finished(self.start(*program))

    def end_compiling(self) -> None:
        """End the processes that compile kernels in the background, which are a group of their own."""
        for lock in self.folder.rglob(LOCK):
            number = lock.read_text().strip()
            if number:
                with suppress(OSError):
                    os.killpg(int(number), signal.SIGKILL)


def first_line(process: "subprocess.Popen[bytes]") -> bytes:
    """The first line that a program writes; nothing where it ends without."""
    return b"" if process.stdout is None else process.stdout.readline()


def finished(process: "subprocess.Popen[bytes]") -> bytes:
    """The output of a program that ends by itself; InputError where it fails."""
    out, wrong = process.communicate()
    if process.returncode:
        shown = wrong.decode(errors="replace").strip().rpartition("\n")[2]
        raise InputError(f"a program that was to be timed failed: {shown:.300}")
    return out


@contextmanager
def installed(wheel: Path | None, extras: Sequence[str] | None = None) -> Iterator[Installation]:
    """An installation for as long as it is needed."""
    with TemporaryDirectory(prefix="penstock-start-", ignore_cleanup_errors=True) as folder:
        made = Installation(Path(folder), wheel, extras)
        try:
            yield made
        finally:
            made.end_compiling()
