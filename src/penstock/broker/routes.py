"""Where events that match a filter go, ready for whole blocks: looked up once, until the table changes."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.broker.needs import Found

_UNKNOWN = -1


class Wanting(NamedTuple):
    """A link that wants some events of a block: which, rising, and for a client under which keys.

    An event that is wanted under several keys is there several times.
    """

    link: str
    events: NDArray[np.int64]
    keys: NDArray[np.int64]


class Routes:
    """The links that want the events of one tree, by the number of the filter that they match.

    `targets_of` says of a filter's number the links, and keys there, that it stands for.
    """

    def __init__(self, targets_of: Callable[[int], list[tuple[str, int]]]) -> None:
        self._targets_of = targets_of
        self._targets: dict[int, list[tuple[str, int]]] = {}
        """Of filters that single events matched."""
        self._links: dict[str, int] = {}
        self._first: NDArray[np.int64] = np.zeros(0, np.int64)
        self._count: NDArray[np.int64] = np.zeros(0, np.int64)
        self._to: list[int] = []
        self._under: list[int] = []
        self._arrays: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None

    def wanting_one(self, filters: list[int]) -> dict[str, list[int]]:
        """The links that want one event which matches these filters, with the keys there, 0 for none."""
        wanted: dict[str, list[int]] = {}
        for number in filters:
            targets = self._targets.get(number)
            if targets is None:
                targets = self._targets[number] = self._targets_of(number)
            for link, key in targets:
                if link in wanted:
                    wanted[link].append(key)
                else:
                    wanted[link] = [key]
        return wanted

    def wanting(self, found: Found) -> Iterator[Wanting]:
        """The links that want some of the events."""
        filters = found.filters
        if not len(filters):
            return
        self._learn(filters, len(found.known))
        if self._arrays is None:
            self._arrays = np.array(self._to, np.int64), np.array(self._under, np.int64)
        all_to, all_under = self._arrays
        # Every pair of an event and a filter becomes as many rows as the filter has targets.
        repeats = self._count[filters]
        events = np.repeat(np.arange(len(found.offsets) - 1), np.diff(found.offsets))
        rows = self._first[filters]
        if (repeats != 1).any():
            events = np.repeat(events, repeats)
            rows = np.repeat(rows - (np.cumsum(repeats) - repeats), repeats) + np.arange(len(events))
            if not len(events):
                return
        to, under = all_to[rows], all_under[rows]
        if len(self._links) == 1:
            yield Wanting(next(iter(self._links)), events, under)
            return
        order = np.argsort(to, kind="stable")
        bounds = np.searchsorted(to[order], np.arange(len(self._links) + 1))
        for link, at in self._links.items():
            mine = order[bounds[at] : bounds[at + 1]]
            if len(mine):
                yield Wanting(link, events[mine], under[mine])

    def _learn(self, filters: NDArray[np.int64], known: int) -> None:
        """Look up the targets of filters that have not been met."""
        if known > len(self._count):
            more = max(known, 2 * len(self._count)) - len(self._count)
            self._first = np.append(self._first, np.zeros(more, np.int64))
            self._count = np.append(self._count, np.full(more, _UNKNOWN, np.int64))
        unknown = filters[self._count[filters] == _UNKNOWN]
        if not len(unknown):
            return
        for number in np.unique(unknown).tolist():
            targets = self._targets_of(number)
            self._first[number], self._count[number] = len(self._to), len(targets)
            for link, key in targets:
                self._to.append(self._links.setdefault(link, len(self._links)))
                self._under.append(key)
        self._arrays = None
