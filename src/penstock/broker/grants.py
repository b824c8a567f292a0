"""What a client may subscribe to, advertise and watch: access rules that understand filters.

A grant is a filter. A client may subscribe to whatever its grants cover: then nothing that the subscription
matches lies outside of them. Covering is sound and not complete (see `penstock.filters.relations`), so that
something allowed may be refused, where patterns or very many filters are involved, and nothing forbidden is
ever let through.

A grant is taken as it was written. Names of clients are never put into it, nor into anything else that is
parsed, so that nobody can call himself `%` or `' or true` and be granted more.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final, Literal, TypeAlias

import msgspec

from penstock.errors import FilterError, LimitError, PenstockError
from penstock.filters.filter import ALWAYS
from penstock.filters.parsing import parse
from penstock.filters.predicate import Predicate
from penstock.filters.relations import covers
from penstock.model.events import Event

GRANTS_MAX: Final = 1_000
"""Grants of one kind that a client may have: each subscription is held against them."""

COMPARISONS_MAX: Final = 100_000
"""Pairs of a grant's filter and a subscription's that are compared; past this the answer is the safe one, no.
Whoever subscribes chooses one of the two numbers, and the broker waits meanwhile."""

_ANSWERS_MAX: Final = 64
"""Answers that are kept: what was found out in a thread is asked again in the loop a moment later."""

_SHOWN_MAX: Final = 300
"""Characters of filters that a refusal shows: enough to see what is wrong, and no room for a flood."""

Verb: TypeAlias = Literal["subscribe", "advertise"]

_DOING: Final[dict[Verb, str]] = {"subscribe": "subscribe to", "advertise": "advertise"}


class Grants(msgspec.Struct, frozen=True):
    """What a client may do. None is everything; the predicate that matches nothing is nothing.

    `monitor` is leave to see what the broker says of itself and its clients, and to trace events.
    """

    subscribe: Predicate | None = None
    advertise: Predicate | None = None
    monitor: bool = False

    @classmethod
    def of(
        cls, *, subscribe: Iterable[str] = (), advertise: Iterable[str] = (), monitor: bool = False
    ) -> "Grants":
        """The grants that these filters, in SQL, say together; `true` is everything, no filter is nothing."""
        return cls(_union("subscribe", subscribe), _union("advertise", advertise), monitor)

    def has_any(self, verb: Verb) -> bool:
        """Whether anything of this kind is granted. Where not, a filter need not even be parsed."""
        granted = self.subscribe if verb == "subscribe" else self.advertise
        return granted is None or granted.satisfiable

    def may_subscribe(self, predicate: Predicate) -> bool:
        """Whether the grants cover all that the subscription can match."""
        return _is_covered(self.subscribe, predicate)

    def may_advertise(self, predicate: Predicate) -> bool:
        """Whether the grants cover all that the advertisement can match."""
        return _is_covered(self.advertise, predicate)

    def may_receive(self, event: Event) -> bool:
        """Whether a grant to subscribe matches the event, whatever way it comes."""
        return self.subscribe is None or self.subscribe.matches(event)

    def may_publish(self, event: Event) -> bool:
        """Whether a grant to advertise matches the event, whatever was advertised."""
        return self.advertise is None or self.advertise.matches(event)

    def why_not(self, verb: Verb, predicate: Predicate) -> str | None:
        """What to say to a client that may not subscribe to, or advertise, this; None if it may."""
        granted = self.subscribe if verb == "subscribe" else self.advertise
        if granted is None or _is_covered(granted, predicate):
            return None
        doing = _DOING[verb]
        refusal = f"not allowed to {doing} {_shown(predicate)}"
        if not granted.satisfiable:
            return f"{refusal}: nothing is granted; use a token that grants it"
        if _is_too_much(granted, predicate):
            many = f"{len(predicate.filters):,} filters"
            return f"{refusal}: {many} are too many to compare with what is granted; {verb} in smaller parts"
        return f"{refusal}: no grant covers it; granted is to {doing} {_shown(granted)}"


def _is_covered(granted: Predicate | None, predicate: Predicate) -> bool:
    return granted is None or _covers(granted, predicate)


@lru_cache(maxsize=_ANSWERS_MAX)
def _covers(granted: Predicate, predicate: Predicate) -> bool:
    return not _is_too_much(granted, predicate) and covers(granted, predicate)


def _is_too_much(granted: Predicate, predicate: Predicate) -> bool:
    return len(granted.filters) * len(predicate.filters) > COMPARISONS_MAX


def _union(verb: Verb, texts: Iterable[str]) -> Predicate | None:
    """The predicate that the grants say together; None where it matches everything."""
    if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
        raise FilterError(f"grants to {verb} are a list of filters, not {type(texts).__name__}")
    parts: list[Predicate] = []
    for number, text in enumerate(texts, 1):
        if number > GRANTS_MAX:
            raise LimitError(f"there are too many grants to {verb}", "GRANTS_MAX", GRANTS_MAX)
        parts.append(_parsed(verb, number, text))
    try:
        union = Predicate(f for part in parts for f in part.filters)
    except PenstockError as error:
        raise FilterError(f"the grants to {verb} together: {error}") from None
    return None if ALWAYS in union.filters else union


def _parsed(verb: Verb, number: int, text: str) -> Predicate:
    try:
        return parse(text)
    except PenstockError as error:
        raise FilterError(f"grant {number} to {verb}: {error}") from None


def _shown(predicate: Predicate) -> str:
    """The predicate in SQL, as far as there is room."""
    shown = ""
    for text in _pieces(predicate):
        shown += text
        if len(shown) > _SHOWN_MAX:
            return f"{shown[:_SHOWN_MAX]}…"
    return shown


def _pieces(predicate: Predicate) -> Iterator[str]:
    if not predicate.filters:
        yield "false"
    for number, f in enumerate(predicate.filters):
        yield f" or {f}" if number else str(f)


EVERYTHING: Final = Grants(monitor=True)
"""What a client may where nobody asks for tokens."""

NOTHING: Final = Grants(Predicate(), Predicate())
"""What a client may without any grant."""
