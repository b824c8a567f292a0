"""The garbage collector of a process that must not pause: it looks at what is new, and seldom at everything.

A full collection visits every object. A broker with 100,000 subscriptions has millions, almost all of which
stay, and everybody waits a fifth of a second. So what has survived a full collection is set aside
(`gc.freeze`), and the next one visits only what came since. Objects that are set aside and then let go of are
freed as always, unless they refer to each other in a circle. For those, all is looked at again once twice as
much is set aside as was left the last time.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

MORE: Final = 200_000
"""Objects, at least, that are set aside between two looks at everything."""


class _Keeper:
    """Sets aside what survives. `call_soon` has something called when no collection is under way."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._most = 0
        self._is_looking = False

    def look_at_all(self) -> None:
        """Collect whatever there is, and set the rest aside."""
        self._is_looking = True
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._most = 2 * gc.get_freeze_count() + MORE
        self._is_looking = False

    def on_collected(self, phase: str, info: dict[str, int]) -> None:
        """The collector has begun, or is done."""
        if phase == "stop" and info["generation"] == 2 and not self._is_looking:
            gc.freeze()
            if gc.get_freeze_count() > self._most:
                self._is_looking = True
                # A collection cannot begin within another one.
                self._call_soon(self.look_at_all)


@contextmanager
def collecting_what_is_new(call_soon: Callable[[Callable[[], None]], object]) -> Iterator[None]:
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
