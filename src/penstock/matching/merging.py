"""Merging: several parts become one table, at once or in a thread behind the program's back."""

import threading
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.matching.columns import Columns, concatenate


class Mergeable(Protocol):
    """A part."""

    def columns(self, keep: NDArray[np.bool_], names: dict[str, int]) -> Columns:
        """The filters that are to be kept, as columns."""

    def alive(self) -> NDArray[np.bool_]:
        """Which filters are alive."""


class Merger(threading.Thread):
    """A thread that merges.

    No daemon: one that is stopped in a kernel takes the interpreter down with it. So the program waits for it
    at its end, and it ends when nothing else is left (`is_program_alive`).
    """


def is_program_alive() -> bool:
    """Whether a thread is alive that the program waits for, other than those that merge.

    Not only the main thread: a program may live on in others.
    """
    return any(
        thread.is_alive() and not thread.daemon and not isinstance(thread, Merger)
        for thread in threading.enumerate()
    )


def columns_of_parts(
    parts: Sequence[Mergeable], alive: Sequence[NDArray[np.bool_]], names: dict[str, int]
) -> Columns:
    """What was alive of several parts, end to end."""
    return concatenate(
        [part.columns(kept, names) for part, kept in zip(parts, alive, strict=True)], list(names)
    )


def removed_since(parts: Sequence[Mergeable], alive: Sequence[NDArray[np.bool_]]) -> NDArray[np.bool_]:
    """Which of the filters of `columns_of_parts` have been removed meanwhile."""
    still = [part.alive()[kept] for part, kept in zip(parts, alive, strict=True)]
    return ~np.concatenate(still)
