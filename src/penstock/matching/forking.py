"""What happens to stores when a process forks.

Only the thread that forks lives on in the child. A lock that another held would be held there for ever, and
threads that merged would be waited for. So all locks are taken before, and let go in both processes.
"""

import os
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from penstock.matching.store import Store

_stores: "WeakSet[Store]" = WeakSet()
_held: "list[Store]" = []


def look_after(store: "Store") -> None:
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
