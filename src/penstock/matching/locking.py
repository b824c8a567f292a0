"""The lock of a folder of kernels: one process at a time compiles into it, or lays kernels down there.

The system lets go of it when the process that holds it ends, however it ends. A process that starts another
can hand the lock over: then nobody comes in between, and the other need not wait for it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

LOCK: Final = "penstock-kernels.lock"
"""The file that is locked; it has the number of the process that compiles, or did last."""


def take(folder: Path, *, wait: bool = False) -> IO[bytes]:
    """Take the lock of a folder; closing what is returned lets go of it.

    Raises BlockingIOError where another process has it, unless this one is to wait.
    """
    file = (folder / LOCK).open("ab")
    try:
        _lock(file, wait=wait)
    except BaseException:
        file.close()
        raise
    return file


def _lock(file: IO[bytes], *, wait: bool) -> None:
    try:
        import fcntl
    except ImportError:
        # Windows. Two processes may compile there, which costs time and nothing else.
        return
    fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def taken_over(number: int) -> Iterator[None]:
    """Hold the lock that the process which started this one has handed over, under this file descriptor."""
    with os.fdopen(number, "ab") as file:
        sign(file)
        yield


def sign(file: IO[bytes]) -> None:
    """Write into the lock which process compiles."""
    file.truncate(0)
    file.write(f"{os.getpid()}\n".encode())
    file.flush()
