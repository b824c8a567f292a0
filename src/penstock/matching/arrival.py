"""Compiled kernels: whether they are there, and what is done until they are.

The first process of an installation finds none, and does not wait for them. The interpreter does small work
(`plain`), while other processes compile all kernels on all cores. When these are on disk, a thread loads
them. From then on kernels do everything. Large work waits for them: it would take longer without.

The processes that compile are detached. They finish even if the one that started them has ended, so that the
next one finds kernels; after TIMEOUT_S seconds they give up. However many processes start at once, one
compiles for all of them (`locking`). The others look now and then whether it is done, and leave nothing
behind.

Who waits for kernels is told so: on standard error if that is a terminal, else in the log.

PENSTOCK_KERNELS=wait in the environment has everybody wait for kernels, however small the work is.
"""

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Final

from penstock.errors import InputError
from penstock.matching import locking
from penstock.matching.merging import Merger, is_program_alive

TIMEOUT_S: Final = 600
"""Seconds after which the processes that compile give up: ten times as long as they take on one slow core."""

_POLL_S: Final = 0.05
VARIABLE: Final = "PENSTOCK_KERNELS"

WAITING: Final = "compiling kernels, which takes about half a minute; later runs find them on disk"
INTERPRETING: Final = (
    "kernels are being compiled in the background; until then the interpreter answers, more slowly"
)

_log: Final = logging.getLogger("penstock")


_told: Final[set[str]] = set()
"""What has been said in this process."""


def tell(text: str, *, aloud: bool = False) -> None:
    """Say something once in a process: on standard error if it is a terminal or `aloud`, else in the log."""
    if text in _told:
        return
    _told.add(text)
    if aloud or is_on_terminal():
        # In one line, however wide the terminal is.
        sys.stderr.write(f"penstock: note: {text}\n")
        sys.stderr.flush()
    else:
        _log.info("%s", text)


def is_on_terminal() -> bool:
    """Whether somebody reads what is written to standard error."""
    return sys.stderr is not None and sys.stderr.isatty()


class Arrival:
    """The kernels of this process. All methods may be called in any thread."""

    def __init__(self, *, always_wait: bool = False) -> None:
        self.are_here = False
        """Whether kernels are on disk or loaded. Once they are, they stay."""
        self.bring: Callable[[], None] | None = None
        """Has kernels brought from elsewhere before they are looked for, where there is an elsewhere."""
        self._always_wait = always_wait
        self._forget()

    def _forget(self) -> None:
        """Nobody waits, and no thread looks on: at the beginning, and in a process that was forked."""
        self._lock = threading.Lock()
        self._settled = threading.Event()
        self._watcher: Merger | None = None
        self._looked = False
        self._has_begun = False

    def is_interpreting(self) -> bool:
        """Whether work that is small has to be done without kernels, which are on their way then."""
        if self.are_here or self._always_wait:
            return False
        self.begin()
        return not self.are_here

    @property
    def is_compiling(self) -> bool:
        """Whether other processes compile kernels now."""
        return self._watcher is not None and not self._settled.is_set()

    def look(self) -> bool:
        """Whether kernels are here; looked for once."""
        with self._lock:
            return self._look()

    def _look(self) -> bool:
        if not self._looked:
            self._looked = True
            from penstock.matching.kernels.signatures import are_complete

            if self.bring is not None and not self.are_here:
                self.bring()
            self.are_here = self.are_here or are_complete()
        return self.are_here

    def begin(self) -> None:
        """Have kernels compiled, if they are not on disk, and nobody does that yet."""
        with self._lock:
            if self._look() or self._has_begun:
                return
            self._has_begun = True
            try:
                compiling = _start()
            except BlockingIOError:
                # Another process compiles: the watcher looks on.
                compiling = None
            else:
                if compiling is None:
                    from penstock.matching.kernels.signatures import is_noted

                    self.are_here = is_noted()
                    self._settled.set()
                    return
            self._watcher = Merger(target=self._watch, args=(compiling,), name="penstock-kernels")
            try:
                self._watcher.start()
            except RuntimeError:
                # No thread can be had now.
                self._watcher = None
                self._settled.set()

    def wait(self, is_wanted: Callable[[], bool] = lambda: True) -> bool:
        """Wait until kernels are here, as long as somebody wants them; say so where that takes a while.

        False where none came: whoever needs one has to compile it.
        """
        if not self.are_here:
            self.begin()
            if self.is_compiling:
                tell(WAITING)
                while is_wanted() and not self._settled.wait(_POLL_S):
                    pass
        return self.are_here

    def have(self, is_wanted: Callable[[], bool]) -> bool:
        """Wait for kernels, and compile them here where none come; false when nobody wants them any more."""
        if not self.wait(is_wanted) and is_wanted():
            from penstock.matching.kernels.signatures import load_all

            load_all(is_wanted)
        return is_wanted()

    def _watch(self, compiling: "subprocess.Popen[bytes] | None") -> None:
        """Wait for the processes that compile, then load what they made; a thread's whole life."""
        try:
            while compiling is None or compiling.poll() is None:
                if not is_program_alive():
                    return
                time.sleep(_POLL_S)
                if compiling is None:
                    try:
                        compiling = _start()
                    except BlockingIOError:
                        continue
                    if compiling is None:
                        break
            from penstock.matching.kernels.signatures import are_complete, load_all

            if are_complete():
                load_all(is_program_alive)
                self.are_here = True
        finally:
            self._settled.set()


def _start() -> "subprocess.Popen[bytes] | None":
    """Start the process that has kernels compiled; None where that is not possible, or they are there.

    Raises BlockingIOError where another process compiles them.
    """
    from penstock.matching.kernels.caching import folder
    from penstock.matching.kernels.signatures import is_noted

    place = folder()
    if place is None or not sys.executable:
        return None
    try:
        with locking.take(place) as lock:
            if is_noted():
                return None
            return subprocess.Popen(  # noqa: S603 - this very Python
                [sys.executable, "-m", "penstock.matching.compiling", str(lock.fileno())],
                # The lock is the other's from here on.
                pass_fds=(lock.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # Ctrl-C, or the end of a terminal, concerns whoever waits, not who compiles for all.
                start_new_session=True,
                env={**os.environ, VARIABLE: "wait", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
    except BlockingIOError:
        raise
    except OSError:
        return None


def _always_wait() -> bool:
    given = os.environ.get(VARIABLE, "auto")
    if given not in ("auto", "wait"):
        raise InputError(f"{VARIABLE}={given!r:.40}: say 'auto' or 'wait'")
    return given == "wait"


KERNELS: Final = Arrival(always_wait=_always_wait())
"""Those of this process."""

is_interpreting: Final[Callable[[], bool]] = KERNELS.is_interpreting

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=KERNELS._forget)
