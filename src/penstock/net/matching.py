"""The matching engine as a broker uses it: filters under numbers, events in blocks.

A matcher remembers the names of attributes that its filters have ever had, and learning a new one takes
longer the more there are. Clients choose names, so they are spread over several matchers (`Shard`): when one
has very many, another is begun. One that is mostly empty is left a few filters at a time, and forgotten with
its names.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import islice
from typing import Any, Final, cast

import msgspec
import numpy as np

from penstock.broker.needs import Found, holds
from penstock.filters.disagreements import IDS_SHOWN
from penstock.filters.predicate import Predicate
from penstock.filters.relations import overlaps
from penstock.matching import warming
from penstock.matching.arrival import INTERPRETING, KERNELS, is_interpreting, tell
from penstock.matching.computed import is_held_apart, name_of
from penstock.matching.matcher import Matcher
from penstock.matching.times import TimeTexts
from penstock.model.events import Event, with_times
from penstock.model.names import Id
from penstock.model.packed import decode_event
from penstock.model.schema import Schema
from penstock.node.disagreements import CONCERNED_MAX, Concern
from penstock.wire.blocks import Block, Header
from penstock.wire.events import encode_event
from penstock.wire.messages import Events, Publish

_REMOVED_TOGETHER: Final = 64
"""Filters that are forgotten, and then removed from their matcher."""

_NAMES_MAX: Final = 8_192
"""Names of attributes in a matcher; then another is begun. Learning new ones takes some milliseconds then."""

_DEAD_MAX: Final = 10_000
"""Alternatives of clauses in a matcher whose filters are gone; then another is begun. A matcher forgets them
only with everything else."""

_MOVED: Final = 2
"""Filters that leave a matcher which is mostly empty, whenever something comes."""

_FEW: Final = 16
_OFTEN: Final = 3
"""Blocks of so few events are held against a predicate one by one, the first times that it is asked for."""

_PATIENCE: Final = 1_000
"""Events that come before it is said that none has an attribute, or none in the family asked for."""

_COMPARED_MAX: Final = 10_000
"""Pairs of a filter and an advertisement that are compared in one look: about a tenth of a second."""

_CHECKERS_MAX: Final = 1_000
"""Predicates for which a matcher of their own is kept ready: advertisements and grants in use."""


def warm(is_wanted: Callable[[], bool] = lambda: True) -> None:
    """Load the kernels before anybody waits for them, if there are any: they may be on their way.

    In another thread than `is_wanted` is decided in: ends soon after nobody wants them any more.
    """
    if is_interpreting():
        tell(INTERPRETING)
        return
    if not KERNELS.have(is_wanted):
        return
    block = Block.of(Header("", ""), [1], [encode_event(Event({"a": 1, "b": "x"}))])
    warming.warm(lambda matcher: matcher.match_packed(block.data, block.offsets))


class Shard:
    """A matcher, and the numbers of its filters."""

    def __init__(self, texts: TimeTexts) -> None:
        self.matcher = Matcher(texts=texts)
        self.numbers: dict[int, None] = {}
        self._added = 0
        """How many filters it has ever had."""
        self._dead = 0
        """How many alternatives of clauses those had that are gone."""
        self._removed: list[int] = []

    @property
    def is_sparse(self) -> bool:
        """Whether most of its filters are gone."""
        return 2 * len(self.numbers) < self._added

    @property
    def is_full(self) -> bool:
        """Whether it remembers so much that is gone, or may be, that another should take its place."""
        return self.matcher.name_count > _NAMES_MAX or self._dead > _DEAD_MAX

    def add(self, number: int, predicate: Predicate) -> None:
        """Know a filter."""
        self.matcher.add(number, predicate)
        self.numbers[number] = None
        self._added += 1

    def remove(self, number: int, predicate: Predicate) -> list[int]:
        """Forget a filter, soon; returns the numbers that are not found any more."""
        del self.numbers[number]
        self._dead += sum(len(clause) for f in predicate.filters for clause in f.clauses)
        self._dead += sum(is_held_apart(f) for f in predicate.filters if not f.clauses)
        self._removed.append(number)
        # Quicker for many at once.
        return self.flush() if len(self._removed) >= _REMOVED_TOGETHER or not self.numbers else []

    def flush(self) -> list[int]:
        """Have nothing found that was forgotten; returns what that was."""
        removed, self._removed = self._removed, []
        if removed:
            self.matcher.remove_many(removed)
        return removed


class EngineMatching:
    """Knows filters; finds those that match."""

    def __init__(self, schema: Schema | None = None) -> None:
        """`schema`: says which texts are times. Rules do not: brokers know different ones, and must agree."""
        times = frozenset() if schema is None else TimeTexts.of_schema(schema).always
        self._texts = TimeTexts(times, by_rules=False)
        self.sees_all = False
        """Whether events that were published elsewhere count for `disagreements`: where all of them come."""
        self._numbers: dict[Predicate, int] = {}
        self._known: list[Predicate | None] = []
        self._shard_of: list[Shard] = []
        self._free: list[int] = []
        self._checkers: OrderedDict[Predicate, Matcher | int] = OrderedDict()
        """A matcher, or how often there was no need of one."""

    @cached_property
    def _shards(self) -> list[Shard]:
        """The last one takes what comes. The first is made when it is asked for: it may wait for kernels."""
        return [Shard(self._texts)]

    def __len__(self) -> int:
        return len(self._numbers)

    def prepare(self, predicate: Predicate) -> None:
        """Have a filter hashed, and its clauses ready for the matcher."""
        hash(predicate)
        for f in predicate.filters:
            if is_held_apart(f):
                name_of(f)

    def add(self, predicate: Predicate) -> None:
        """Know a filter."""
        last = self._last()
        number = self._free.pop() if self._free else len(self._known)
        last.add(number, predicate)
        if number == len(self._known):
            self._known.append(None)
            self._shard_of.append(last)
        self._known[number], self._shard_of[number] = predicate, last
        self._numbers[predicate] = number
        if len(self._shards) > 1:
            self._move_on()

    def _last(self) -> Shard:
        """The matcher that takes what comes."""
        if self._shards[-1].is_full:
            self._shards.append(Shard(self._texts))
        return self._shards[-1]

    def remove(self, predicate: Predicate) -> None:
        """Forget a filter."""
        number = self._numbers.pop(predicate)
        # Until it is removed, the number stands for nothing.
        self._known[number] = None
        shard = self._shard_of[number]
        self._free += shard.remove(number, predicate)
        if self._last() is not shard and not shard.numbers:
            self._shards.remove(shard)

    def _move_on(self) -> None:
        """Have some filters leave a matcher that is mostly empty."""
        last = self._shards[-1]
        sparse = next((shard for shard in self._shards[:-1] if shard.is_sparse), None)
        if sparse is None:
            return
        for number in list(islice(sparse.numbers, _MOVED)):
            predicate = cast(Predicate, self._known[number])
            gone = (*sparse.remove(number, predicate), *sparse.flush())
            self._free += [free for free in gone if free != number]
            last.add(number, predicate)
            self._shard_of[number] = last
        if not sparse.numbers:
            self._shards.remove(sparse)

    def match(self, event: Event) -> list[Predicate]:
        """The filters that match one event."""
        numbers = (number for shard in self._shards for number in shard.matcher.match(event))
        found = (self._known[int(number)] for number in numbers)
        return [predicate for predicate in found if predicate is not None]

    def match_block(self, block: Block) -> Found:
        """The filters that match each event of a block. Raises EventError where one is not an event."""
        if len(self._shards) > 1:
            self._move_on()
        # Of events from elsewhere come those that match: they do not show what events are like.
        counted = self.sees_all or not block.header.hops
        found = [
            shard.matcher.match_packed(block.data, block.offsets, counted=counted) for shard in self._shards
        ]
        offsets, numbers = found[0].offsets, found[0].ids()
        if len(found) > 1:
            counts = [np.diff(matches.offsets) for matches in found]
            event = np.concatenate([np.repeat(np.arange(len(count)), count) for count in counts])
            numbers = np.concatenate([matches.ids() for matches in found])[np.argsort(event, kind="stable")]
            offsets = np.concatenate(([0], np.cumsum(sum(counts))))
        return Found(offsets, numbers.astype(np.int64, copy=False), self._known)

    def disagreements(
        self, schema: Schema | None = None, elsewhere: Sequence[Predicate] = ()
    ) -> list[Concern]:
        """What filters, the events that came, and their schema disagree about, in the order of attributes;
        filters by their text. Takes a while where there are very many: may be called in another thread.

        Filters that overlap what may be published `elsewhere` are left out: events that they match may come.
        """
        judged = _Judged(self._known, elsewhere)
        found: dict[tuple[str, str], Concern] = {}
        for shard in list(self._shards):
            some = shard.matcher.disagreements(
                patience=_PATIENCE, concerning=judged if elsewhere else None, ids_max=CONCERNED_MAX
            )
            for one in some:
                known = (self._known[int(number)] for number in one.ids)
                concerned = tuple(predicate for predicate in known if predicate is not None)
                if concerned:
                    texts = tuple(f"{predicate.to_sql():.80}" for predicate in concerned[:IDS_SHOWN])
                    told = msgspec.structs.replace(one, ids=texts, rule="", example="")
                    Concern(told, concerned).add_to(found)
            for one in () if schema is None else shard.matcher.misfits(schema):
                # A status is read by those who may not see what events have, nor what others subscribe to.
                told = msgspec.structs.replace(one, rules=0, ids=(), example="")
                Concern(told).add_to(found)
        return [found[key] for key in sorted(found)]

    def holds(self, predicate: Predicate, events: Events) -> Any:
        """Whether events match one predicate: of a block, which."""
        if isinstance(events, Publish):
            return predicate.matches(self._read(events.event))
        checker = self._checkers.pop(predicate, 0)
        if isinstance(checker, int):
            # Somebody may have very many that are asked for once, and making a matcher takes a while.
            checker = checker + 1 if len(events) <= _FEW and checker < _OFTEN else self._checker(predicate)
            if len(self._checkers) >= _CHECKERS_MAX:
                self._checkers.popitem(last=False)
        self._checkers[predicate] = checker
        if isinstance(checker, int):
            if not self._texts.always:
                return holds(predicate, events)
            read = (self._read(decode_event(data)) for data in events.events())
            return np.array([predicate.matches(event) for event in read], np.bool_)
        return np.diff(checker.match_packed(events.data, events.offsets).offsets) > 0

    def _checker(self, predicate: Predicate) -> Matcher:
        return Matcher([(0, predicate)], texts=self._texts)

    def _read(self, event: Event) -> Event:
        """The event as filters are matched with it; its bytes stay what they are."""
        times = self._texts.always
        return Event.from_flat(dict(with_times(event.attributes, times))) if times else event


class _Judged:
    """Whether what came here shows that a filter matches nothing: not if it overlaps what comes elsewhere."""

    def __init__(self, known: Sequence[Predicate | None], elsewhere: Sequence[Predicate]) -> None:
        self._known = known
        self._elsewhere = list(dict.fromkeys(elsewhere))
        self._left = _COMPARED_MAX

    def __call__(self, number: Id) -> bool:
        """By its number. Where too much would have to be compared, nothing is said."""
        predicate = self._known[int(number)]
        self._left -= len(self._elsewhere)
        if predicate is None or self._left < 0:
            return False
        return not any(overlaps(predicate, other) for other in self._elsewhere)
