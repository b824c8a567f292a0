"""Which filters of a table have been removed, and when."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

ALIVE: Final = np.iinfo(np.int64).max
"""The version at which a filter dies that is alive."""

_NONE: NDArray[np.int64] = np.empty(0, np.int64)


class Deaths:
    """For each filter the version of the matcher at which it was removed.

    A reader that took its snapshot at some version sees what died later as alive, so writing here disturbs
    nobody. The array is made when the first filter is removed.
    """

    def __init__(self) -> None:
        self.died = _NONE
        self.dead = 0
        """How many filters have been removed."""

    @property
    def size(self) -> int:
        """How many filters there are, dead or alive."""
        raise NotImplementedError

    @property
    def live(self) -> int:
        """How many filters are not removed."""
        return self.size - self.dead

    def kill(self, positions: NDArray[np.int64], version: int) -> None:
        """Remove filters, which are alive, as of a version."""
        self._have_deaths()
        self.died[positions] = version
        self.dead += len(positions)

    def alive(self, version: int) -> NDArray[np.bool_]:
        """Which filters are alive at a version."""
        return self.died[: self.size] > version if len(self.died) else np.ones(self.size, np.bool_)

    def are_alive(self, positions: NDArray[np.signedinteger]) -> NDArray[np.bool_]:
        """Which of some filters are alive now."""
        return self.died[positions] == ALIVE if len(self.died) else np.ones(len(positions), np.bool_)

    def deaths(self) -> NDArray[np.int64]:
        """For each filter when it died."""
        return self.died[: self.size] if len(self.died) else np.full(self.size, ALIVE, np.int64)

    def _have_deaths(self) -> None:
        if len(self.died) < self.size:
            grown = np.full(self.size + self.size // 2, ALIVE, np.int64)
            grown[: len(self.died)] = self.died
            self.died = grown
