"""What came of a round, as the oracle judges it.

Always: nothing comes twice to a subscription, nothing comes that its filter does not match, nothing comes
otherwise than it was published, and what comes after later events of its publisher says so. Everything comes
that is wanted and was acknowledged, unless the contract excuses it (see `excuses`). Everything is
acknowledged, and no acknowledgement waits for a reader for longer than is promised.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from penstock.net.torture.excuses import ACK_MAX, Excuses
from penstock.net.torture.figures import Figures, Tables
from penstock.net.torture.records import Delivered, Interest, Published, wanted
from penstock.oracle import Finding, Ledger, Name, Who

SHOWN: Final = 10
"""Violations of a sort that are told one by one."""


class Verdict(msgspec.Struct):
    """What came of a round."""

    published: int = 0
    expected: int = 0
    got: int = 0
    late: int = 0
    lost: int = 0
    """Wanted, acknowledged, not come, and without an excuse."""
    told: int = 0
    """Wanted, not come, and the subscriber was told."""
    given_up: int = 0
    """The same, and the publisher was told."""
    unacknowledged: int = 0
    duplicates: int = 0
    unwanted: int = 0
    missed_notices: int = 0
    """How often clients were told `missed`."""
    missed_in_vain: int = 0
    """And how often, though they have missed nothing."""
    excused: list[str] = []
    """What of that, in words."""
    rows: dict[str, Figures] = {}
    """Figures by kind of fault, and of all."""
    wrong: list[str] = []


def check(
    interests: Iterable[Interest],
    published: Sequence[Published],
    delivered: Iterable[Delivered],
    excuses: Excuses,
    *,
    calm: bool = False,
) -> Verdict:
    """Judge what came of the events of a round; `delivered` is in the order in which it came.

    In a `calm` one, in which there was no fault, nothing comes late either.
    """
    judge = _Judge(interests, published, excuses)
    judge.take(delivered, calm=calm)
    return judge.judge()


class _Judge:
    """Takes down a round, and adds to the oracle's findings what the oracle does not know of."""

    def __init__(
        self, interests: Iterable[Interest], published: Sequence[Published], excuses: Excuses
    ) -> None:
        self._known: dict[Name, Published] = {one.key: one for one in published}
        self._interests: dict[Who, Interest] = {one.subscription: one for one in interests}
        self._excuses = excuses
        self._why: Counter[str] = Counter()
        self._excused: Counter[str] = Counter()
        self._told: defaultdict[int, set[Name]] = defaultdict(set)
        """By client: what it did not get, and was told of."""
        self._missing: set[int] = set()
        """Clients that did not get something."""
        self._tables = Tables(excuses.happened)
        self._came: defaultdict[int, list[tuple[Delivered, Published]]] = defaultdict(list)
        """By client."""
        self._strays: Counter[int] = Counter()
        self._wrong = _Wrong()
        self._verdict = Verdict()
        self._ledger = Ledger()
        self._wanting: dict[Name, list[int]] = {key: [] for key in self._known}
        wanting = self._wanting
        for interest in self._interests.values():
            for one in wanted(interest, published):
                wanting[one.key].append(interest.subscription)
        for key, one in self._known.items():
            self._ledger.publish(key, wanting[key])
            if not one.is_probe:
                self._verdict.published += 1
                self._verdict.expected += len(wanting[key])
                for row in self._tables.of(one):
                    row.wanted += len(wanting[key])
                    if one.acked is not None:
                        row.longest_ack_s = max(row.longest_ack_s, one.acked - one.at)

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
            if one is None:
                continue
            if not one.is_probe and delivery.subscription in self._wanting[key]:
                self._came[self._interests[delivery.subscription].client].append((delivery, one))
                if delivery.late:
                    for row in self._tables.of(one):
                        row.late += 1
            if one.event != delivery.event:
                self._wrong.add("altered", f"{_name(key)}: {_text(one)} became {dict(delivery.event)!r:.200}")

    def judge(self) -> Verdict:
        """Ask the oracle what is wrong with that."""
        missing = sum(not self._known[key].is_probe for key, _who in self._ledger.missing())
        tally, found = self._ledger.judge(self._is_excused)
        verdict = self._verdict
        verdict.got = verdict.expected - missing
        verdict.lost, verdict.duplicates, verdict.unwanted = tally.missed, tally.twice, tally.unwanted
        verdict.told, verdict.given_up = self._why["told"], self._why["given up"]
        for notice in self._excuses.told:
            if notice.kind == "missed":
                verdict.missed_notices += 1
                verdict.missed_in_vain += notice.client not in self._missing
        for client, keys in self._told.items():
            if len(keys) > (most := self._excuses.most_missed(client)):
                text = f"client {client} missed {len(keys):,} events, and was told of {most:,} at most"
                self._wrong.add("untold", text)
        for came in self._came.values():
            self._tables.take_gaps(came)
        self._tell_acknowledgements()
        self._tell(found)
        for subscription, count in self._strays.items():
            self._wrong.add("unknown", f"{count} events to subscription {subscription}, which nobody has")
        verdict.excused = [f"{text}, {count:,} events" for text, count in self._excused.items()]
        verdict.rows = dict(self._tables.rows)
        verdict.wrong = list(self._wrong.told())
        return verdict

    def _is_excused(self, key: Name, who: Who) -> bool:
        one, client = self._known[key], self._interests[who].client
        if one.acked is None or one.is_probe:
            return True
        why = self._excuses.excuse(one, client)
        self._why[why] += 1
        self._missing.add(client)
        if why == "told":
            self._told[client].add(key)
        if why:
            brokers = "+".join(sorted(one.brokers))
            self._excused[f"{why}: from client {one.publisher} at {brokers} to client {client}"] += 1
        for row in self._tables.of(one):
            row.lost += not why
            row.told += why in ("told", "given up")
        return bool(why)

    def _tell_acknowledgements(self) -> None:
        """Everything is acknowledged, and in time."""
        for key, one in self._known.items():
            if one.is_probe:
                continue
            if one.acked is None:
                self._verdict.unacknowledged += 1
                self._wrong.add("refused", f"{_name(key)}, published {one.at:.2f} s, was never acknowledged")
            elif (held := self._excuses.held(one)) > ACK_MAX:
                text = f"acknowledged after {one.acked - one.at:.1f} s, for {held:.1f} of which nothing"
                self._wrong.add("held", f"{_name(key)}, published {one.at:.2f} s, was {text} hindered it")

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


def _name(key: Name) -> str:
    publisher, sequence = key
    return f"event {sequence} of client {publisher}"


def _text(one: Published) -> str:
    return f"{dict(one.event)!r:.200}"
