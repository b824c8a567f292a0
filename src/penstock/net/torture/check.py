"""What came of a round, as the oracle judges it.

Always: nothing comes twice to a subscription, nothing comes that its filter does not match, nothing comes
otherwise than it was published, and what comes after later events of its publisher says so. And everything
comes that is wanted and was acknowledged, but for *windows*: while publisher and subscriber are separated
(see `separation`) events may be lost, and are counted.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from penstock.net.torture.records import Delivered, Interest, Published, wanted
from penstock.net.torture.separation import Window
from penstock.oracle import Finding, Ledger, Name, Who

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
    judge = _Judge(interests, published, allowed)
    judge.take(delivered, calm=calm)
    return judge.judge()


class _Judge:
    """Takes down a round, and adds to the oracle's findings what the oracle does not know of."""

    def __init__(
        self, interests: Iterable[Interest], published: Sequence[Published], allowed: Sequence[Window]
    ) -> None:
        self._known: dict[Name, Published] = {one.key: one for one in published}
        self._interests: dict[Who, Interest] = {one.subscription: one for one in interests}
        self._allowed = allowed
        self._strays: Counter[int] = Counter()
        self._wrong = _Wrong()
        self._verdict = Verdict()
        self._ledger = Ledger()
        wanting: dict[Name, list[int]] = {key: [] for key in self._known}
        for interest in self._interests.values():
            for one in wanted(interest, published):
                wanting[one.key].append(interest.subscription)
        for key, one in self._known.items():
            self._ledger.publish(key, wanting[key])
            if not one.is_probe:
                self._verdict.published += 1
                self._verdict.expected += len(wanting[key])

    def take(self, delivered: Iterable[Delivered], *, calm: bool) -> None:
        """Take down what came."""
        for delivery in delivered:
            key = delivery.key
            if delivery.subscription not in self._interests:
                self._strays[delivery.subscription] += 1
                continue
            self._verdict.late += delivery.late
            # In a calm round it does not help to say so.
            self._ledger.deliver(delivery.subscription, key, late=delivery.late and not calm)
            one = self._known.get(key)
            if one is not None and one.event != delivery.event:
                self._wrong.add("altered", f"{_name(key)}: {_text(one)} became {dict(delivery.event)!r:.200}")

    def judge(self) -> Verdict:
        """Ask the oracle what is wrong with that."""
        missing = [self._known[key] for key, _who in self._ledger.missing()]
        tally, found = self._ledger.judge(self._excuses)
        verdict = self._verdict
        verdict.got = verdict.expected - sum(not one.is_probe for one in missing)
        verdict.lost_apart = tally.excused - sum(not _must_come(one) for one in missing)
        verdict.duplicates = tally.twice
        self._tell_refused()
        self._tell(found)
        for subscription, count in self._strays.items():
            self._wrong.add("unknown", f"{count} events to subscription {subscription}, which nobody has")
        verdict.wrong = list(self._wrong.told())
        return verdict

    def _excuses(self, key: Name, who: Who) -> bool:
        one, client = self._known[key], self._interests[who].client
        return not _must_come(one) or any(window.excuses(one, client) for window in self._allowed)

    def _tell_refused(self) -> None:
        """Only a publisher that is separated goes without acknowledgements."""
        for key, one in self._known.items():
            if one.acked is None and not one.is_probe:
                self._verdict.unsure += 1
                if not any(one.publisher in (w.client, w.other) and one.at <= w.end for w in self._allowed):
                    text = f"published {one.at:.2f} s, was never acknowledged"
                    self._wrong.add("refused", f"{_name(key)}, {text}")

    def _tell(self, found: Iterable[Finding]) -> None:
        again: Counter[tuple[Name, Who]] = Counter()
        for sort, key, who, after in found:
            if sort == "twice":
                again[key, who] += 1
            elif sort == "unknown":
                self._wrong.add(sort, f"{_name(key)} came to {self._who(who)}; nobody published it")
            elif sort == "unwanted":
                self._wrong.add(sort, f"{_name(key)} came to {self._who(who)}: {_text(self._known[key])}")
            elif sort == "missed":
                one = self._known[key]
                text = f"published {one.at:.2f} s, never came to {self._who(who)}: {_text(one)}"
                self._wrong.add("lost", f"{_name(key)}, {text}")
            # What is late to a client need not be late to each of its subscriptions.
            elif after is not None:
                self._wrong.add(sort, f"{_name(key)} came after {after} to {self._who(who)}")
        for (key, who), times in again.items():
            self._wrong.add("duplicate", f"{_name(key)} came {times + 1} times to {self._who(who)}")

    def _who(self, who: Who) -> str:
        interest = self._interests[who]
        return f"subscription {interest.subscription} of client {interest.client} ({interest.filter})"


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


def _must_come(one: Published) -> bool:
    return one.acked is not None and not one.is_probe


def _name(key: Name) -> str:
    publisher, sequence = key
    return f"event {sequence} of client {publisher}"


def _text(one: Published) -> str:
    return f"{dict(one.event)!r:.200}"
