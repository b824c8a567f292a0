"""SIGTERM and SIGINT as calls in an event loop, which sees them where it waits."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

_NUMBERS: Final = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def heeded(on_signal: Callable[[], None]) -> Iterator[None]:
    """Have each signal call this in the running loop; afterwards the handlers are as they were before."""
    loop = asyncio.get_running_loop()
    before = [signal.getsignal(number) for number in _NUMBERS]
    for number in _NUMBERS:
        try:
            loop.add_signal_handler(number, on_signal)
        except NotImplementedError:
            # Windows, where loops do not have them.
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(on_signal))
    try:
        yield
    finally:
        for number, handler in zip(_NUMBERS, before, strict=True):
            with suppress(NotImplementedError):
                loop.remove_signal_handler(number)
            if handler is not None:
                signal.signal(number, handler)
