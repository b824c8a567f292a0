"""Penstock as it is after `pip install`: nothing is compiled, and the home is its own."""

import os
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path

import penstock
from patience import HANGS
from penstock.matching import locking


def installed_anew(folder: Path) -> dict[str, str]:
    """An environment in which Penstock has just been installed, and nothing is compiled."""
    home, site = Path(penstock.__file__).parent, folder / "site"
    if not site.exists():
        shutil.copytree(home, site / "penstock", ignore=shutil.ignore_patterns("__pycache__"))
    kept = {key: value for key, value in os.environ.items() if key not in ("NUMBA_CACHE_DIR",)}
    return {**kept, "PYTHONPATH": str(folder / "site"), "HOME": str(folder), "PENSTOCK_KERNELS": "auto"}


def folder_of_kernels(folder: Path) -> Path:
    """Where an installation keeps its kernels."""
    made = folder / "site" / "penstock" / "matching" / "kernels" / "__pycache__"
    made.mkdir(exist_ok=True)
    return made


def end_compiling(folder: Path) -> None:
    """End the processes that compile in the background of a test."""
    for lock in folder.rglob(locking.LOCK):
        if lock.read_text():
            with suppress(ProcessLookupError):
                os.killpg(int(lock.read_text()), signal.SIGKILL)


def compilers(folder: Path) -> list[int]:
    """The processes that compile for all others in an installation."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            command, environment = ((process / name).read_bytes() for name in ("cmdline", "environ"))
        except OSError:
            continue
        if b"penstock.matching.compiling" in command and os.fsencode(folder) in environment:
            found.append(int(process.name))
    return found


def await_compiler(folder: Path) -> None:
    """Wait until a process compiles, and says who it is."""
    patience = time.monotonic() + HANGS
    while not any(lock.read_text() for lock in folder.rglob(locking.LOCK)):
        assert time.monotonic() < patience
        time.sleep(0.05)
