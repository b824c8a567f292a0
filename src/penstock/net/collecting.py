"""The garbage collector of a process that must not pause: it looks at what is new, and seldom at everything.

A full collection visits every object. A broker with 100,000 subscriptions has millions, almost all of which
stay, and everybody waits a fifth of a second. So what has survived a full collection is set aside
(`gc.freeze`), and the next one, soon after, visits only what came since. Objects that are let go of later are
freed as always, unless they refer to each other in a circle. For those, all is looked at again once there is
twice as much as was left the last time.
"""

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

MORE: Final = 500_000
"""Blocks of memory, at least, that are added between two looks at everything."""

YOUNG_MAX: Final = 8
"""Collections of what is young before a full one: each has seen some thousand new objects."""


class _Keeper:
    """Sets aside what survives. `call_soon` has something called when no collection is under way."""

    def __init__(self, call_soon: Callable[[Callable[[], object]], object]) -> None:
        self._call_soon = call_soon
        self._most = 0
        self._is_looking = False
        self._young = 0
        """Collections of what is young, since the last full one."""

    def look_at_all(self) -> None:
        """Collect whatever there is, and set the rest aside."""
        self._is_looking = True
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._most = 2 * sys.getallocatedblocks() + MORE
        self._is_looking = False

    def on_collected(self, phase: str, info: dict[str, int]) -> None:
        """The collector has begun, or is done."""
        if phase != "stop" or self._is_looking:
            return
        if info["generation"] == 1:
            self._young += 1
            if self._young == YOUNG_MAX:
                # By itself, the collector waits until there is a quarter more than the last time.
                self._call_soon(gc.collect)
        elif info["generation"] == 2:
            self._young = 0
            gc.freeze()
            # Not `gc.get_freeze_count`, which goes through all of them.
            if sys.getallocatedblocks() > self._most:
                self._is_looking = True
                # A collection cannot begin within another one.
                self._call_soon(self.look_at_all)


@contextmanager
def collecting_what_is_new(call_soon: Callable[[Callable[[], object]], object]) -> Iterator[None]:
    """Collect in this way; all that is there now is set aside.

    `call_soon` may be called in any thread, and calls a function soon after: `loop.call_soon_threadsafe`.
    """
    keeper = _Keeper(call_soon)
    keeper.look_at_all()
    gc.callbacks.append(keeper.on_collected)
    try:
        yield
    finally:
        gc.callbacks.remove(keeper.on_collected)
        gc.unfreeze()
