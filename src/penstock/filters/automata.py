"""Matching regular expressions in linear time: Glushkov's automaton, with the places between characters.

Each character or class of an expression, written without repetitions, is a position. After each character
of a text a set of positions has been reached, a bit each; what can follow a position is known. Finding an
expression anywhere in a text is matching one that may have anything before and after it: two more
positions, which loop.

The conditions of `^ $ \\b \\B` depend on what stands before and after a place. So what follows a position
is found for each of these contexts: the start or end of the text, a character of words, another one.
Positions that may be either, in expressions with `\\b`, are two.

`Machine` remembers where each set of positions leads, so that most characters of a text are one look-up.
Kernels have the automaton itself as numbers: see `penstock.matching.regex_programs`.
"""

from bisect import bisect_right
from functools import lru_cache
from typing import Final, NamedTuple

from penstock.filters.regex import ANY, WORD, Assertion, Chars, Choice, Node, Ranges, Repeat, Sequence, read

_OUTSIDE, _OTHER, _WORD = range(3)
"""What stands beside a place: the end of the text, a character, or a character of words."""

_SETS_MAX: Final = 200
"""Sets of positions that a machine remembers before it begins anew."""


class Automaton(NamedTuple):
    """Positions are bits of integers."""

    positions: int
    starts: tuple[int, ...]
    """Where the classes of characters begin that are told apart; the first is 0."""
    allowed: tuple[int, ...]
    """For each of those, the positions at which such a character may stand."""
    first: int
    """Where a text may begin."""
    follow: tuple[int, ...]
    """For each position, where the next character may stand."""
    accepted: int
    """Where a text that matches may end."""
    found: int
    """The positions after which a text matches whatever comes."""
    empty: bool
    """Whether the empty text matches."""


class _Thompson:
    """The expression as nodes that lead to others, built from its end."""

    def __init__(self, root: Node) -> None:
        self.chars: list[Ranges | None] = []
        self.assertions: list[str] = []
        self.ways: list[list[int]] = []
        self.end = self._node()
        anything = Chars(ANY)
        last = self._star(anything, self.end)
        self.start = self._star(anything, self._entry(root, last))

    def _node(self, *ways: int, chars: Ranges | None = None, assertion: str = "") -> int:
        self.chars.append(chars)
        self.assertions.append(assertion)
        self.ways.append(list(ways))
        return len(self.ways) - 1

    def _star(self, part: Node, after: int) -> int:
        node = self._node(after)
        self.ways[node].append(self._entry(part, node))
        return node

    def _entry(self, node: Node, after: int) -> int:
        """Where a part begins that leads to what is there already."""
        if isinstance(node, Chars):
            return self._node(after, chars=node.ranges)
        if isinstance(node, Assertion):
            return self._node(after, assertion=node.kind)
        if isinstance(node, Sequence):
            for part in reversed(node.parts):
                after = self._entry(part, after)
            return after
        if isinstance(node, Choice):
            return self._node(*(self._entry(part, after) for part in node.parts))
        return self._repeated(node, after)

    def _repeated(self, node: Repeat, after: int) -> int:
        entry = after
        if node.high is None:
            if node.low:
                # The last of them may come again.
                again = self._node(after)
                entry = self._entry(node.part, again)
                self.ways[again].append(entry)
            else:
                entry = self._star(node.part, after)
        else:
            for _ in range(node.high - node.low):
                entry = self._node(self._entry(node.part, entry), after)
        for _ in range(node.low - (node.high is None and node.low > 0)):
            entry = self._entry(node.part, entry)
        return entry


class _Positions:
    """The characters of the nodes as bits, and what can be reached from a node without another one."""

    def __init__(self, nodes: _Thompson) -> None:
        self.nodes = nodes
        self.ranges: list[Ranges] = []
        self.kinds: list[int] = []
        self.after: list[int] = []
        self.words = any(kind in ("b", "B") for kind in nodes.assertions)
        self._bits: list[dict[int, int]] = []
        self._known: dict[tuple[int, int], list[int]] = {}
        for node, chars in enumerate(nodes.chars):
            bits: dict[int, int] = {}
            for kind, ranges in _by_kind(chars, self.words) if chars is not None else ():
                bits[kind] = 1 << len(self.ranges)
                self.ranges.append(ranges)
                self.kinds.append(kind)
                self.after.append(nodes.ways[node][0])
            self._bits.append(bits)
        self.end_bit = 1 << len(self.ranges)

    def reached(self, node: int, before: int, after: int) -> int:
        """The positions where the next character may stand; the end is a bit of its own."""
        found = self._known.get((before, after))
        if found is None:
            found = self._known[before, after] = self._closure(before, after)
        return found[node]

    def next(self, node: int, before: int) -> int:
        """The positions of any next character."""
        found = self.reached(node, before, _OTHER)
        return found | self.reached(node, before, _WORD) if self.words else found

    def _closure(self, before: int, after: int) -> list[int]:
        nodes = self.nodes
        open_to = {
            "": True,
            "^": before == _OUTSIDE,
            "$": after == _OUTSIDE,
            "b": (before == _WORD) is not (after == _WORD),
            "B": (before == _WORD) is (after == _WORD),
        }
        found = [bits.get(after, 0) for bits in self._bits]
        found[nodes.end] = self.end_bit if after == _OUTSIDE else 0
        passable = [
            (node, ways)
            for node, (ways, assertion, chars) in enumerate(
                zip(nodes.ways, nodes.assertions, nodes.chars, strict=True)
            )
            if chars is None and open_to[assertion]
        ]
        # Nodes lead to earlier ones, but for loops: a few turns are enough.
        changed = True
        while changed:
            changed = False
            for node, ways in passable:
                reached = found[node]
                for way in ways:
                    reached |= found[way]
                if reached != found[node]:
                    found[node] = reached
                    changed = True
        return found


def _by_kind(ranges: Ranges, words: bool) -> list[tuple[int, Ranges]]:
    """A class as the part of it that is of words, and the rest."""
    if not words:
        return [(_OTHER, ranges)]
    inside, outside = [], []
    for low, high in ranges:
        at = low
        for first, last in WORD:
            if first > high or last < at:
                continue
            if at < first:
                outside.append((at, first - 1))
            inside.append((max(at, first), min(high, last)))
            at = last + 1
        if at <= high:
            outside.append((at, high))
    return [(kind, tuple(part)) for kind, part in ((_OTHER, outside), (_WORD, inside)) if part]


@lru_cache(maxsize=256)
def automaton(text: str) -> Automaton:
    """The automaton of an expression, as it is written."""
    nodes = _Thompson(read(text).root)
    found = _Positions(nodes)
    end = found.end_bit
    count = len(found.ranges)
    follow = [found.next(found.after[at], found.kinds[at]) & ~end for at in range(count)]
    accepted = sum(
        1 << at for at in range(count) if found.reached(found.after[at], found.kinds[at], _OUTSIDE) & end
    )
    # The first node with characters is the loop behind the expression.
    behind = next(node for node, chars in enumerate(nodes.chars) if chars is not None)
    starts, allowed = _classes(found.ranges)
    return Automaton(
        positions=count,
        starts=starts,
        allowed=allowed,
        first=found.next(nodes.start, _OUTSIDE) & ~end,
        follow=tuple(follow),
        accepted=accepted,
        found=sum(found._bits[behind].values()),
        empty=bool(found.reached(nodes.start, _OUTSIDE, _OUTSIDE) & end),
    )


def _classes(ranges: list[Ranges]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Characters that may stand at the same positions, as one."""
    members: dict[Ranges, int] = {}
    for at, one in enumerate(ranges):
        members[one] = members.get(one, 0) | 1 << at
    changes: dict[int, int] = {0: 0}
    for one, bits in members.items():
        for low, high in one:
            changes[low] = changes.get(low, 0) ^ bits
            changes[high + 1] = changes.get(high + 1, 0) ^ bits
    starts: list[int] = []
    allowed: list[int] = []
    now = 0
    for start in sorted(changes):
        now ^= changes[start]
        if not allowed or now != allowed[-1]:
            starts.append(start)
            allowed.append(now)
    return tuple(starts), tuple(allowed)


class Machine:
    """Finds an expression in texts."""

    def __init__(self, found: Automaton) -> None:
        self._automaton = found
        self._ways: dict[int, dict[int, int]] = {}

    def finds(self, text: str) -> bool:
        """Whether some part of the text matches."""
        found = self._automaton
        if not text:
            return found.empty
        starts, ways = found.starts, self._ways
        now = -1  # before the first character
        for character in text:
            kind = bisect_right(starts, ord(character)) - 1
            try:
                now = ways[now][kind]
            except KeyError:
                now = self._step(now, kind)
            if now & found.found:
                return True
        return now & found.accepted != 0

    def _step(self, now: int, kind: int) -> int:
        found = self._automaton
        if len(self._ways) > _SETS_MAX:
            self._ways.clear()
        reached = 0
        if now == -1:
            reached = found.first
        else:
            left = now
            while left:
                low = left & -left
                reached |= found.follow[low.bit_length() - 1]
                left ^= low
        reached &= found.allowed[kind]
        self._ways.setdefault(now, {})[kind] = reached
        return reached


@lru_cache(maxsize=256)
def machine(text: str) -> Machine:
    """What finds an expression, as it is written."""
    return Machine(automaton(text))
