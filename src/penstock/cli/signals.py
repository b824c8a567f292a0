"""Ctrl-C and SIGTERM end the program, wherever it waits."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_INSIST_EVERY: Final = 0.05
"""Seconds between reminders, until the interpreter has seen the signal."""

_seen = threading.Event()


def end_on_signals() -> None:
    """Let SIGTERM end the program as Ctrl-C does, so that nothing half-written stays behind.

    Python's own handlers only leave a mark, which the interpreter finds between two instructions. A signal
    that comes on the way into a system call leaves its mark too late to be found, and too early to interrupt
    the call: the program then waits for its input as if nothing had been said. So a thread is told of each
    signal through a pipe, and repeats it until it has been seen.
    """
    signal.signal(signal.SIGTERM, _on_term)
    signal.signal(signal.SIGINT, _on_int)
    if not hasattr(signal, "pthread_kill"):
        return
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    threading.Thread(target=_insist, args=(told,), name="penstock-signals", daemon=True).start()


@contextmanager
def left_to_a_loop() -> Iterator[None]:
    """Let an event loop have the signals meanwhile: it sees them where it waits, and needs no reminders.

    There is one pipe for signals; the loop uses its own, and leaves none when it ends. So ours is laid aside.
    """
    tell = signal.set_wakeup_fd(-1)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            if handler is not None:
                signal.signal(number, handler)
        signal.set_wakeup_fd(tell, warn_on_full_buffer=False)


def _insist(told: int) -> None:
    while os.read(told, 1):
        while not _seen.wait(_INSIST_EVERY):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)


def _on_term(number: int, frame: FrameType | None) -> None:
    # Once is enough: what is being cleaned up must not be interrupted by our own reminders.
    if not _seen.is_set():
        _on_int(number, frame)


def _on_int(_signal: int, frame: FrameType | None) -> None:
    # What is raised in a callback goes nowhere, and kernels that are being compiled are missed later. A
    # reminder comes soon.
    if _is_in_callback(frame) and hasattr(signal, "pthread_kill"):
        return
    _seen.set()
    raise KeyboardInterrupt


def _is_in_callback(frame: FrameType | None) -> bool:
    """Whether this is within a function of llvmlite's that C calls while it compiles."""
    while frame is not None:
        if frame.f_code.co_name.startswith("_raw_object_cache_"):
            return True
        frame = frame.f_back
    return False
