"""A word to those whose process is the first of an installation: kernels are being compiled."""

import sys
from functools import cache

from penstock.matching.arrival import KERNELS


@cache
def wait_for_kernels() -> None:
    """Have all kernels on disk; where that takes a while, say so on standard error.

    For what is measured, and what cannot do without. To be called when filters have been read well.
    """
    if not KERNELS.look():
        _note("compiling kernels, which takes about half a minute; later runs find them on disk")
        KERNELS.wait()


@cache
def note_if_interpreting() -> None:
    """Say on a terminal, once, that kernels are compiled while the interpreter answers."""
    if KERNELS.is_interpreting() and _is_on_terminal():
        _note("kernels are being compiled in the background; until then the interpreter answers, more slowly")


def _is_on_terminal() -> bool:
    return sys.stderr.isatty()


def _note(text: str) -> None:
    sys.stderr.write(f"penstock: note: {text}\n")
    sys.stderr.flush()
