"""Who publishes where, as far as nodes that flood have told each other.

Each node says which clients publish there, and what their earlier brokers have acknowledged. Nodes pass on
what is news, and tell a neighbour that comes all that they know. When a node dies with the events that it
kept, the others find out here whether anything can have been missed: each publisher that is known has to be
heard of once more, from wherever it is by then.
"""

from collections.abc import Container, Iterable, Iterator
from typing import Final

import msgspec

from penstock.broker.flood.messages import Life, Publishes, Whereabouts
from penstock.broker.publishers import ANSWERED_KEEPS, FIRST_TURN, Publisher

_PUBLISHERS_MAX: Final = 10_000
"""With more, nobody knows any longer whether something was missed."""

_TURNS_MAX: Final = 16
"""Of one publisher, so many homes are remembered, the last ones."""

_AT_A_TIME: Final = 500
"""Publishers in one message."""

_SLACK_S: Final = 1.0
"""By so much earlier than a question an answer may have been given. Nobody finds a node, and has events
acknowledged there, within that time."""


class _Known:
    """What is known of one publisher."""

    __slots__ = ("lives", "publisher", "said", "said_at")

    def __init__(self) -> None:
        self.said: Publishes | None = None
        """The last statement about it."""
        self.said_at = float("-inf")
        self.publisher = Publisher()
        self.lives: dict[int, tuple[str, int]] = {}
        """Where it was in each of its turns: a node, and which life of it."""

    def learn_homes(self, homes: Iterable[tuple[int, str, int]]) -> bool:
        """Take where it was, the last turns; return whether that was news."""
        before = self.lives
        lives = {turn: (node, incarnation) for turn, node, incarnation in homes} | before
        self.lives = {turn: lives[turn] for turn in sorted(lives)[-_TURNS_MAX:]}
        return self.lives != before

    def statement(self, said: Publishes, now: float) -> Publishes:
        """What was said of it last, with all that is known."""
        later = said.aged(now - self.said_at - said.life.seconds)
        return msgspec.structs.replace(later, homes=self.homes)

    @property
    def homes(self) -> tuple[tuple[int, str, int], ...]:
        """Where it was, for others."""
        return tuple((turn, *life) for turn, life in self.lives.items())


class Register:
    """What one node knows of all."""

    def __init__(self, node: str, incarnation: int, keep: float) -> None:
        self._node = node
        self._incarnation = incarnation
        self._keep = keep
        self._number = 0
        self._lives: dict[str, tuple[Life, float]] = {}
        """What each node has said last, and when."""
        self._known: dict[str, _Known] = {}
        self._is_full = False
        self.changes = 0
        """How often something has become known."""
        self.renewals = 0
        """How often it has become known that a node has begun anew."""

    # What is said here

    def come(self, publisher: Publisher, now: float) -> Whereabouts:
        """A client publishes here; return what to tell everybody."""
        acked = publisher.ages(now)
        known = self._known.get(publisher.origin)
        homes = () if known is None else known.homes
        return self._say(Publishes(publisher.origin, publisher.turn, self._life(), acked, homes=homes), now)

    def leave(self, origin: str, now: float) -> Whereabouts | None:
        """A client does not publish here any more."""
        known = self._known.get(origin)
        if known is None or known.said is None or not self._is_here(known.said):
            return None
        acked = known.publisher.ages(now)
        said = Publishes(origin, known.said.turn, self._life(), acked, left=True, homes=known.homes)
        return self._say(said, now)

    def answer(self, now: float) -> Iterator[Whereabouts]:
        """Say that this node is there, and who publishes here."""
        life = self._life()
        here = [
            Publishes(origin, known.said.turn, life, known.publisher.ages(now), homes=known.homes)
            for origin, known in self._known.items()
            if known.said is not None and self._is_here(known.said) and not known.said.left
        ]
        for message in _in_parts([life], here):
            self.learn(message, now)
            yield message

    def _say(self, said: Publishes, now: float) -> Whereabouts:
        message = Whereabouts((said.life,), (said,))
        self.learn(message, now)
        return message

    def _life(self) -> Life:
        self._number += 1
        return Life(self._node, self._incarnation, self._number)

    def _is_here(self, said: Publishes) -> bool:
        return said.life.node == self._node and said.life.incarnation == self._incarnation

    # What is heard

    def learn(self, message: Whereabouts, now: float) -> Whereabouts | None:
        """Take what a node says; return what of it was news."""
        lives = tuple(life for life in message.lives if self._learn_life(life, now))
        publishers = tuple(said for said in message.publishers if self._learn_publisher(said, now))
        if not lives and not publishers:
            return None
        self.changes += 1
        return Whereabouts(lives, publishers)

    def _learn_life(self, life: Life, now: float) -> bool:
        before = self._lives.get(life.node)
        if before is not None:
            known = before[0]
            if (known.incarnation, known.number) >= (life.incarnation, life.number):
                return False
            self.renewals += life.incarnation > known.incarnation
        self._lives[life.node] = life, now - life.seconds
        return True

    def _learn_publisher(self, said: Publishes, now: float) -> bool:
        known = self._known.get(said.origin)
        if known is None:
            if len(self._known) >= _PUBLISHERS_MAX:
                self._is_full = True
                return False
            known = self._known[said.origin] = _Known()
        is_news = known.learn_homes((*said.homes, (said.turn, said.life.node, said.life.incarnation)))
        if known.said is not None and known.said.version >= said.version:
            return is_news
        known.said, known.said_at = said, now - said.life.seconds
        acked = tuple((known.said_at - age, count, turn) for age, count, turn in said.acked)
        known.publisher = Publisher(said.origin, said.turn, acked)
        return True

    def all(self, now: float) -> Iterator[Whereabouts]:
        """All that is known, for a neighbour that comes."""
        lives = [life.aged(now - at - life.seconds) for life, at in self._lives.values()]
        publishers = [
            known.statement(known.said, now) for known in self._known.values() if known.said is not None
        ]
        return _in_parts(lives, publishers)

    def forget(self, now: float) -> None:
        """Forget publishers that have left for so long that no question is about them."""
        old = now - 2 * ANSWERED_KEEPS * self._keep
        for origin, known in list(self._known.items()):
            if known.said is not None and known.said.left and known.said_at < old:
                del self._known[origin]

    # What was lost

    def is_there(self, life: tuple[str, int], asked_at: float) -> bool:
        """Whether a node has said since a question that it is there, in this life."""
        node, incarnation = life
        said, at = self._lives.get(node, (Life(node, -1, 0), 0.0))
        return said.incarnation == incarnation and at >= asked_at - _SLACK_S

    def missed(self, life: tuple[str, int], since: float, asked_at: float, waited: float) -> int | None:
        """How many events may have been missed since a time, now that a life of a node is over.

        Nodes wait so long for who is away before they acknowledge anything. None as long as that is not
        known: a publisher is yet to be heard of.
        """
        if self._is_full:
            return None
        count = 0
        for known in self._known.values():
            said = known.said
            if said is None:
                continue
            home = said.life.node, said.life.incarnation
            is_answered = known.said_at >= asked_at - _SLACK_S
            if home == life:
                if not said.left or known.said_at >= since:
                    return None
            elif not said.left and not is_answered:
                return None
            count += self._acked(known, since, asked_at, waited)
        return count

    def own(self, origins: Iterable[str], since: float, asked_at: float, waited: float) -> int:
        """How many of these are of certain publishers."""
        found = (self._known[origin] for origin in origins if origin in self._known)
        return sum(self._acked(known, since, asked_at, waited) for known in found)

    def _acked(self, known: _Known, since: float, asked_at: float, waited: float) -> int:
        # Those that are there answer for what they keep.
        others = {turn for turn, at in known.lives.items() if self.is_there(at, asked_at)}
        return known.publisher.acked_since(since, known.lives.keys() - others, waited, others)

    def unheard(self, client: str, since: float, accounted: Container[tuple[str, int]], waited: float) -> int:
        """How many events nodes acknowledged since a time of which nobody here has heard, and that are over.

        So their publishers report. Those of the client itself do not count, nor do lives that are accounted
        for. Nodes waited so long for who was away before they acknowledged anything: those that acknowledged
        something before that time, and the first ones.
        """
        count = 0
        for origin, known in self._known.items():
            if origin.startswith(f"{client}/"):
                # Nothing of its own was acknowledged before it had dealt with it.
                continue
            before = {turn for at, _count, turn in known.publisher.acked if at < since}
            others = {turn for turn, at in known.lives.items() if at in accounted or not self._is_over(at)}
            count += known.publisher.acked_since(since, before | {FIRST_TURN}, waited, others)
        return count

    def _is_over(self, life: tuple[str, int]) -> bool:
        """Whether a node has begun anew since."""
        node, incarnation = life
        return node in self._lives and self._lives[node][0].incarnation > incarnation


def _in_parts(lives: list[Life], publishers: Iterable[Publishes]) -> Iterator[Whereabouts]:
    """Messages that are not too long."""
    left = list(publishers)
    yield Whereabouts(tuple(lives), tuple(left[:_AT_A_TIME]))
    for at in range(_AT_A_TIME, len(left), _AT_A_TIME):
        yield Whereabouts((), tuple(left[at : at + _AT_A_TIME]))
