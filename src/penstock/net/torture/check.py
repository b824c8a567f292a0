"""What came, held against the oracle.

Always: nothing comes twice to a subscription, nothing comes that its filter does not match, nothing comes
otherwise than it was published, and what comes after younger events of its publisher says so. And everything
comes that is wanted and was acknowledged, but for *windows*: while publisher and subscriber are separated
(see `separation`) events may be lost, and are counted.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from penstock.net.torture.oracle import Delivered, Interest, Published, wanted
from penstock.net.torture.separation import Window

SHOWN: Final = 10
"""Violations of a sort that are told one by one."""


class Verdict(msgspec.Struct):
    """What came of a round."""

    published: int = 0
    expected: int = 0
    got: int = 0
    late: int = 0
    lost_apart: int = 0
    """Wanted, not come, and excused: publisher and subscriber were separated."""
    unsure: int = 0
    """Published without an acknowledgement by a client that was separated."""
    duplicates: int = 0
    wrong: list[str] = []


def check(
    interests: Iterable[Interest],
    published: Sequence[Published],
    delivered: Iterable[Delivered],
    allowed: Sequence[Window],
    *,
    calm: bool = False,
) -> Verdict:
    """Judge what came of the events of a round; `delivered` is in the order in which it came.

    In a `calm` one, in which there was no fault, nothing comes late either.
    """
    verdict = Verdict(published=sum(not one.is_probe for one in published))
    wrong = _Wrong()
    came: defaultdict[int, list[Delivered]] = defaultdict(list)
    for delivery in delivered:
        came[delivery.subscription].append(delivery)
    for one in published:
        if one.acked is None and not one.is_probe:
            verdict.unsure += 1
            if not any(one.publisher in (w.client, w.other) and one.at <= w.end for w in allowed):
                wrong.add("refused", f"{_name(one)}, published {one.at:.2f} s, was never acknowledged")
    for interest in interests:
        judge = _Judge(interest, published, allowed, wrong, calm=calm)
        judge.look_at(came.pop(interest.subscription, []), verdict)
    for subscription, strays in came.items():
        wrong.add("unknown", f"{len(strays)} events to subscription {subscription}, which nobody has")
    verdict.wrong = list(wrong.told())
    return verdict


class _Judge:
    """Looks at one subscription."""

    def __init__(
        self,
        interest: Interest,
        published: Sequence[Published],
        allowed: Sequence[Window],
        wrong: "_Wrong",
        *,
        calm: bool,
    ) -> None:
        self._interest = interest
        self._known = {one.key: one for one in published}
        self._wanted = {one.key: one for one in wanted(interest, published)}
        self._allowed = allowed
        self._wrong = wrong
        self._calm = calm
        self._who = f"subscription {interest.subscription} of client {interest.client} ({interest.filter})"

    def look_at(self, deliveries: list[Delivered], verdict: Verdict) -> None:
        """Check everything; add to the counts."""
        times = Counter(delivery.key for delivery in deliveries)
        for delivery in deliveries:
            self._content(delivery)
        for key, count in times.items():
            if count > 1:
                verdict.duplicates += count - 1
                self._wrong.add("duplicate", f"{_name(key)} came {count} times to {self._who}")
        for key, one in self._wanted.items():
            if one.is_probe:
                continue
            verdict.expected += 1
            verdict.got += key in times
            if key in times or one.acked is None:
                continue
            if self._excused(one):
                verdict.lost_apart += 1
            else:
                self._wrong.add(
                    "lost", f"{_name(one)}, published {one.at:.2f} s, never came to {self._who}: {_text(one)}"
                )
        verdict.late += sum(delivery.late for delivery in deliveries)
        self._order(deliveries)

    def _content(self, delivery: Delivered) -> None:
        one = self._known.get(delivery.key)
        if one is None:
            self._wrong.add("unknown", f"{_name(delivery.key)} came to {self._who}; nobody published it")
        elif one.event != delivery.event:
            self._wrong.add("altered", f"{_name(one)}: {_text(one)} became {dict(delivery.event)!r:.200}")
        elif one.key not in self._wanted:
            self._wrong.add("unwanted", f"{_name(one)} came to {self._who}: {_text(one)}")

    def _order(self, deliveries: list[Delivered]) -> None:
        """For each publisher: what comes after younger events has to say so."""
        newest: dict[int, int] = {}
        for delivery in deliveries:
            one = self._known.get(delivery.key)
            if one is None:
                continue
            before = newest.get(one.publisher, -1)
            if one.sequence < before and (self._calm or not delivery.late):
                self._wrong.add("disordered", f"{_name(one)} came after {before} to {self._who}")
            newest[one.publisher] = max(before, one.sequence)

    def _excused(self, one: Published) -> bool:
        return any(window.excuses(one, self._interest.client) for window in self._allowed)


class _Wrong:
    """Violations by their sort, of which only some are told."""

    def __init__(self) -> None:
        self._by_sort: defaultdict[str, list[str]] = defaultdict(list)
        self._counts: Counter[str] = Counter()

    def add(self, sort: str, text: str) -> None:
        """Note one."""
        self._counts[sort] += 1
        if self._counts[sort] <= SHOWN:
            self._by_sort[sort].append(text)

    def told(self) -> Iterator[str]:
        """One line each."""
        for sort, texts in self._by_sort.items():
            yield from (f"{sort}: {text}" for text in texts)
            if self._counts[sort] > SHOWN:
                yield f"{sort}: and {self._counts[sort] - SHOWN:,} more"


def _name(one: Published | tuple[int, int]) -> str:
    publisher, sequence = one if isinstance(one, tuple) else one.key
    return f"event {sequence} of client {publisher}"


def _text(one: Published) -> str:
    return f"{dict(one.event)!r:.200}"
