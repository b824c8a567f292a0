"""What happens to stores when a process forks.

Only the thread that forks lives on in the child. A lock that another held would be held there for ever, and
threads that merged would be waited for. So all locks are taken before, and let go in both processes.
"""

import os
import threading
from typing import Protocol
from weakref import WeakSet


class Forkable(Protocol):
    """A store."""

    lock: "threading.RLock"

    def forget_mergers(self) -> None:
        """Know that this is a new process, in which no thread merges yet."""


_stores: WeakSet[Forkable] = WeakSet()
_held: list[Forkable] = []


def look_after(store: Forkable) -> None:
    """Have a store survive forks."""
    _stores.add(store)


def _hold() -> None:
    for store in list(_stores):
        store.lock.acquire()
        _held.append(store)


def _let_go() -> None:
    while _held:
        _held.pop().lock.release()


def _begin_anew() -> None:
    for store in _held:
        store.forget_mergers()
    _let_go()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold, after_in_parent=_let_go, after_in_child=_begin_anew)
