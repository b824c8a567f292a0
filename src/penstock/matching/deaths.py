"""Which filters of a table have been removed."""

import numpy as np
from numpy.typing import NDArray

_NONE: NDArray[np.uint64] = np.empty(0, np.uint64)
_ONE = np.uint64(1)


class Deaths:
    """A bit for each filter, set when it is removed.

    The array of bits never changes: a removal makes another one. So a reader who holds it sees what there was
    when it took hold of it, and pays for removals with a look at a bit for each filter that matches.
    """

    def __init__(self) -> None:
        self.gone = _NONE
        """The bits, 64 to a word; empty where nothing has been removed."""
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

    def kill(self, positions: NDArray[np.int64]) -> None:
        """Remove filters, which are alive."""
        gone = np.zeros(max(len(self.gone), _words(self.size)), np.uint64)
        gone[: len(self.gone)] = self.gone
        np.bitwise_or.at(gone, positions >> 6, _ONE << (positions & 63).astype(np.uint64))
        self.gone = gone
        self.dead += len(positions)

    def alive(self) -> NDArray[np.bool_]:
        """Which filters are alive."""
        return alive_of(self.gone, self.size)

    def are_alive(self, positions: NDArray[np.signedinteger]) -> NDArray[np.bool_]:
        """Which of some filters are alive."""
        if not len(self.gone):
            return np.ones(len(positions), np.bool_)
        words = self.gone[positions >> 6] >> (positions & 63).astype(np.uint64)
        alive: NDArray[np.bool_] = (words & _ONE) == 0
        return alive

    def have_room(self) -> None:
        """Have a bit for each filter, when some have been added."""
        if len(self.gone) and len(self.gone) < _words(self.size):
            gone = np.zeros(2 * _words(self.size), np.uint64)
            gone[: len(self.gone)] = self.gone
            self.gone = gone


def alive_of(gone: NDArray[np.uint64], size: int) -> NDArray[np.bool_]:
    """Which of so many filters are alive, according to bits."""
    if not len(gone):
        return np.ones(size, np.bool_)
    bits = np.unpackbits(gone.astype("<u8").view(np.uint8), count=size, bitorder="little")
    alive: NDArray[np.bool_] = bits == 0
    return alive


def _words(size: int) -> int:
    return -(-size // 64)
