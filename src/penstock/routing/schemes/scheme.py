"""The interface of routing schemes.

A scheme object looks after one neighbour. It is told which offers there are for it (those from all other
links, on the trees that lead through the neighbour), one change at a time, and says how what has been asked
of the neighbour changes. It knows no messages and no links, so that the same broker runs under every scheme,
and a scheme is correct if this holds after every change: whatever some offer wants, something asked for
brings.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from typing import ClassVar, NamedTuple, TypeAlias, TypeVar

from penstock.filters.predicate import Predicate
from penstock.model.names import Key
from penstock.routing.offers import Offer

Name: TypeAlias = Hashable
"""What a scheme calls something: by the key of a subscription, or by its filter."""

K = TypeVar("K", bound=Name)


class Source(NamedTuple):
    """Who makes an offer: a link, and a key there. A subscription has one key on all links."""

    link: str
    key: Key


class Asked(NamedTuple):
    """Something to ask of the neighbour, under a key; what these other keys stand for is no longer needed."""

    key: Name
    offer: Offer
    replaces: tuple[Name, ...] = ()


class Steps(NamedTuple):
    """How what is asked changes. Asking comes before taking back, so that nothing goes missing."""

    ask: list[Asked]
    take_back: list[Name]


NO_STEPS = Steps([], [])


class Scheme(ABC):
    """What is asked of one neighbour."""

    floods: ClassVar[bool] = False
    """Whether events go to every broker, wanted or not."""

    knows_all: ClassVar[bool] = False
    """Whether each filter that is wanted is asked for as it is, so that events need matching only once."""

    packs: ClassVar[bool] = False
    """Whether all that one message leads to is sent in one."""

    perfect: bool = True
    """Whether nothing is asked for that nobody wants."""

    def __init__(self) -> None:
        self.asked: dict[Name, Offer] = {}

    @property
    def tests(self) -> int:
        """How many covering tests have been made."""
        return 0

    @abstractmethod
    def put(self, source: Source, offer: Offer) -> Steps:
        """A source makes an offer, in place of the one that it made before, if any."""

    @abstractmethod
    def drop(self, source: Source) -> Steps:
        """A source takes its offer back; it must have made one."""

    def _settle(self, changes: Mapping[K, Offer | None]) -> Steps:
        """Bring `asked` up to date with changes: an offer under each key, or None; say what is different."""
        steps = Steps([], [])
        for key, offer in changes.items():
            known = self.asked.get(key)
            if offer is None:
                if known is not None:
                    del self.asked[key]
                    steps.take_back.append(key)
            elif offer != known:
                self.asked[key] = offer
                steps.ask.append(Asked(key, offer))
        return steps


Difference: TypeAlias = tuple[Name, Offer | None, Offer | None]
"""A name, with what was wanted under it and what is: an offer, or nothing."""


class Wanted:
    """The different offers among those that were made, each with the trees of all that are the same.

    Offers are the same if their filters are; or if they are of one subscription, which may come over several
    links when trees part and meet again.
    """

    def __init__(self, *, by_subscription: bool = False) -> None:
        self._by_subscription = by_subscription
        self._made: dict[Source, Offer] = {}
        self._sources: dict[Name, dict[Source, frozenset[str]]] = {}
        self._wanted: dict[Name, Offer] = {}

    def of(self, name: Name) -> Offer | None:
        """What is wanted under this name."""
        return self._wanted.get(name)

    def put(self, source: Source, offer: Offer) -> list[Difference]:
        """Take an offer; return what is wanted otherwise than before."""
        known = self._made.get(source)
        if known == offer:
            return []
        changed = []
        if known is not None and known.filter != offer.filter:
            changed = self.drop(source)
        self._made[source] = offer
        name = self._name(source, offer)
        self._sources.setdefault(name, {})[source] = offer.trees
        return changed + self._recount(name, offer.filter)

    def drop(self, source: Source) -> list[Difference]:
        """Forget an offer; return what is wanted otherwise than before."""
        offer = self._made.pop(source)
        name = self._name(source, offer)
        sources = self._sources[name]
        del sources[source]
        if not sources:
            del self._sources[name]
        return self._recount(name, offer.filter)

    def _name(self, source: Source, offer: Offer) -> Name:
        return source.key if self._by_subscription else offer.filter

    def _recount(self, name: Name, predicate: Predicate) -> list[Difference]:
        was = self._wanted.get(name)
        sources = self._sources.get(name)
        if sources is None:
            del self._wanted[name]
            return [(name, was, None)]
        trees = next(iter(sources.values()))
        if len(sources) > 1:
            trees = trees.union(*sources.values())
        now = Offer(predicate, trees)
        if now == was:
            return []
        self._wanted[name] = now
        return [(name, was, now)]
