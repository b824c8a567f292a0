"""What came, held against the oracle.

Always: nothing comes twice to a subscription, nothing comes that its filter does not match, nothing comes
otherwise than it was published. And everything comes that is wanted, in the order of each publisher, but for
*windows*: from a margin before something breaks until probes reach everybody again, events may be lost, and
are counted. A window is everybody's, or that of some clients.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from penstock.net.torture.oracle import Delivered, Interest, Published, wanted
from penstock.net.torture.plan import Fault

MARGIN: Final = 2.0
"""Seconds that an event may be under way where nothing holds it."""

SHOWN: Final = 10
"""Violations of a sort that are told one by one."""


class Happened(msgspec.Struct, frozen=True):
    """A fault, and when it really began and was mended."""

    fault: Fault
    begin: float
    end: float


class Window(msgspec.Struct, frozen=True):
    """A time in which events may be lost."""

    begin: float
    end: float
    client: int | None = None
    """Whose it is: only what this client publishes or subscribes to; None for everybody's."""

    def excuses(self, one: Published, subscriber: int) -> bool:
        """Whether this event may be missing for that client."""
        if self.client is not None and self.client not in (one.publisher, subscriber):
            return False
        last = one.at if one.acked is None else one.acked
        return one.at <= self.end and last >= self.begin


class Verdict(msgspec.Struct):
    """What came of a round."""

    published: int = 0
    expected: int = 0
    got: int = 0
    late: int = 0
    lost_inside: int = 0
    """Wanted, not come, and excused by a window."""
    unsure: int = 0
    """Published in a window without its broker having said that it took it."""
    duplicates: int = 0
    wrong: list[str] = []


def windows(happened: Sequence[Happened], recovered: float, margin: float = MARGIN) -> list[Window]:
    """When events may be lost, given what happened and when probes reached everybody again.

    What something held has been under way longer than usual when something else breaks: then a window
    begins when the holding did.
    """
    holding = [one for one in happened if not one.fault.breaks]
    found = []
    for one in happened:
        if not one.fault.breaks:
            continue
        held = [h.begin for h in holding if h.begin <= one.end and h.end + margin >= one.begin]
        begin = min([one.begin, *held]) - margin
        # A broker or a link is on anybody's way; a client is on nobody's but its own.
        client = one.fault.target if one.fault.on == "client" else None
        found.append(Window(begin, recovered, client))
    return found


def check(
    interests: Iterable[Interest],
    published: Sequence[Published],
    delivered: Iterable[Delivered],
    allowed: Sequence[Window],
) -> Verdict:
    """Judge what came of the events of a round; `delivered` is in the order in which it came."""
    verdict = Verdict(published=sum(not one.is_probe for one in published))
    wrong = _Wrong()
    came: defaultdict[int, list[Delivered]] = defaultdict(list)
    for delivery in delivered:
        came[delivery.subscription].append(delivery)
    for one in published:
        if one.acked is None and not one.is_probe:
            verdict.unsure += 1
            if not any(window.excuses(one, one.publisher) for window in allowed):
                wrong.add("refused", f"{_name(one)}, published {one.at:.2f} s, when nothing was broken")
    for interest in interests:
        judge = _Judge(interest, published, allowed, wrong)
        judge.look_at(came.pop(interest.subscription, []), verdict)
    for subscription, strays in came.items():
        wrong.add("unknown", f"{len(strays)} events to subscription {subscription}, which nobody has")
    verdict.wrong = list(wrong.told())
    return verdict


class _Judge:
    """Looks at one subscription."""

    def __init__(
        self, interest: Interest, published: Sequence[Published], allowed: Sequence[Window], wrong: "_Wrong"
    ) -> None:
        self._interest = interest
        self._known = {one.key: one for one in published}
        self._wanted = {one.key: one for one in wanted(interest, published)}
        self._allowed = allowed
        self._wrong = wrong
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
                verdict.lost_inside += 1
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
        """For each publisher; where something broke, only of what did not have to take another way."""
        newest: dict[int, int] = {}
        for delivery in deliveries:
            one = self._known.get(delivery.key)
            if one is None:
                continue
            broken = any(w.client in (None, one.publisher, self._interest.client) for w in self._allowed)
            if broken and (delivery.late or one.is_probe or self._excused(one)):
                continue
            before = newest.get(one.publisher, -1)
            if one.sequence < before:
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
