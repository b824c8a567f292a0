"""What was published here lately, kept for those who could not be reached (`penstock.broker.effects.Keep`).

An event's time in it is when everybody who was known had dealt with it. So of those who could be reached
until a time, nobody has missed what was finished before.
"""

from bisect import bisect_left
from collections import deque
from itertools import takewhile
from typing import Final, NamedTuple, TypeAlias

from penstock.model.names import Tree
from penstock.node.links import Link
from penstock.wire.blocks import Block

Frame: TypeAlias = tuple[Link, int]
"""The link that a frame came by, and its number there."""


class Kept(NamedTuple):
    """Events, and when they were published."""

    published_at: float
    block: Block


BLOCK_BYTES: Final = 1_024
"""Bytes that a block takes besides its data: those of quiet publishers have one small event each."""

_BUCKET_S: Final = 1.0
_BUCKETS_MAX: Final = 3_600
"""Of what is no longer kept, how much it was is known by the second, for an hour."""


class History:
    """Blocks of events, for some seconds and bytes."""

    def __init__(self, keep: float, most: int) -> None:
        self.size = 0
        """Bytes that all that is kept takes."""
        self._keep = keep
        self._most = most
        self._open: dict[Frame, Kept] = {}
        self._open_by_tree: dict[Tree, dict[Frame, Kept]] = {}
        self._done: deque[tuple[float, Kept]] = deque()
        """With the time at which they were finished."""
        self._by_tree: dict[Tree, deque[tuple[float, Kept]]] = {}
        """The same of each tree: whoever asks for what was missed asks tree by tree."""
        self._dropped: dict[Tree, list[list[float]]] = {}
        """Of each tree, seconds and how many events of them have been dropped."""
        self._looked_at = 0.0
        """When trees of which nothing has been dropped for long were looked for."""

    def keep(self, block: Block, frame: Frame, now: float) -> None:
        """Keep events, from before anybody has dealt with them."""
        if frame not in self._open:
            block = block.unpinned()
            kept = self._open[frame] = Kept(now - block.header.age, block)
            self._open_by_tree.setdefault(block.header.tree, {})[frame] = kept
            self.size += _bytes_of(block)

    def finish(self, frame: Frame, now: float) -> None:
        """Everybody has dealt with them, or nobody waits any longer."""
        kept = self._open.pop(frame, None)
        if kept is not None:
            tree = kept.block.header.tree
            same = self._open_by_tree[tree]
            del same[frame]
            if not same:
                del self._open_by_tree[tree]
            self._put(now, kept)
        self.trim(now)

    def _put(self, now: float, kept: Kept) -> None:
        self._done.append((now, kept))
        self._by_tree.setdefault(kept.block.header.tree, deque()).append((now, kept))

    def unfinished(self, frame: Frame) -> Kept | None:
        """The events of a frame that somebody has yet to deal with, as they were admitted."""
        return self._open.get(frame)

    def trim(self, now: float) -> None:
        """Drop what is too old or too much."""
        done = self._done
        while done and (self.size > self._most or done[0][0] < now - self._keep):
            at, (_published_at, block) = done.popleft()
            self.size -= _bytes_of(block)
            tree = block.header.tree
            same = self._by_tree[tree]
            same.popleft()
            if not same:
                del self._by_tree[tree]
            self._note_dropped(block, at)

    def _note_dropped(self, block: Block, at: float) -> None:
        buckets = self._dropped.setdefault(block.header.tree, [])
        if buckets and at - buckets[-1][0] < _BUCKET_S:
            buckets[-1][1] += len(block)
            return
        buckets.append([at, len(block)])
        if len(buckets) > _BUCKETS_MAX:
            del buckets[0]
        if at - self._looked_at >= _BUCKET_S:
            self._looked_at = at
            for tree in [tree for tree, known in self._dropped.items() if known[-1][0] < at - _BUCKETS_MAX]:
                del self._dropped[tree]

    def since(self, tree: Tree, time: float) -> list[Kept]:
        """The events of a tree that were not finished at a time, in the order in which they were."""
        lately = takewhile(lambda one: one[0] >= time, reversed(self._by_tree.get(tree, deque())))
        kept = [kept for _at, kept in lately]
        kept.reverse()
        return [*kept, *self._open_by_tree.get(tree, {}).values()]

    def dropped_since(self, tree: Tree, time: float) -> int:
        """How many events of a tree that were not finished at a time are no longer kept."""
        buckets = self._dropped.get(tree, [])
        first = bisect_left(buckets, [time - _BUCKET_S, 0])
        return int(sum(count for at, count in buckets[first:] if at + _BUCKET_S > time))


def _bytes_of(block: Block) -> int:
    return len(block.data) + BLOCK_BYTES
