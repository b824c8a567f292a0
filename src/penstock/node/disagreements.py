"""What a broker says of subscriptions that match nothing: in its status, in metrics, in the log, to clients.

There are two ways to know of one. Its filter does not go with the events that are published here (found by
whoever matches them), or it overlaps nothing that any publisher has advertised (`unadvertised`). Clients are
told of their own subscriptions only, once each.
"""

from collections import Counter
from collections.abc import Iterable, MutableMapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from penstock.broker.core import Core, Prospects
from penstock.errors import printable
from penstock.filters.asked import kinds_in
from penstock.filters.disagreements import Basis, Disagreement, Problem, suggestion
from penstock.filters.predicate import Predicate
from penstock.filters.schema_check import problem_by
from penstock.model.schema import Schema
from penstock.model.values import Family
from penstock.node.links import Link
from penstock.node.logs import LOG
from penstock.node.runtime import Runtime

TOLD_MAX: Final = 100
"""Disagreements that a status has in words; clients choose names of attributes, so there may be many."""

CONCERNED_MAX: Final = 1_000
"""Filters of which one disagreement keeps more than the text: those whose subscribers are told."""

_LOGGED_MAX: Final = 1_000
"""Disagreements that are logged in the life of a broker, once each."""

_NOTICES_MAX: Final = 100
"""Notices of this kind that a client is sent in the life of its link."""

_ADVERTISED_MAX: Final = 1_000
"""Different advertisements that filters are compared with, attribute by attribute."""

_SUGGESTED_MAX: Final = 100
"""Names for which a similar one is looked for in one look: some milliseconds each."""

_IN_VAIN: Final = frozenset({"unknown", "family", "unadvertised"})
"""Problems of a subscription that may match nothing at all: those that its client is told of."""

NOTICE: Final = "disagreement"
"""The kind of notice that clients get."""


class Concern(NamedTuple):
    """A disagreement, and filters that it is about."""

    found: Disagreement
    filters: tuple[Predicate, ...] = ()

    def add_to(self, known: MutableMapping[tuple[str, str], "Concern"]) -> None:
        """Put it with what is known of the same attribute."""
        key = self.found.attribute, self.found.problem
        before = known.get(key)
        if before is None:
            known[key] = self
        else:
            filters = (*before.filters, *self.filters)[:CONCERNED_MAX]
            known[key] = Concern(before.found.together(self.found), filters)


def unadvertised(filters: Iterable[Predicate], advertised: Iterable[Predicate]) -> list[Concern]:
    """Why filters overlap no advertisement: another family, perhaps a slip; of the rest, that they do not.

    What an advertisement does not name, its events may have: so a name that none has is reported only where
    it looks like a slip, beside whatever keeps the filter from overlapping.
    """
    schema = _schema_of(advertised)
    known: dict[tuple[str, str], Concern] = {}
    suggestions: dict[str, str | None] = {}
    for predicate in dict.fromkeys(filters):
        # One that matches nothing, its author has been told of when it was parsed.
        if not predicate.satisfiable:
            continue
        text = f"{predicate.to_sql():.80}"
        has_reason = False
        for name, kinds in sorted(kinds_in(predicate.filters).items()):
            problem = problem_by(schema, name, kinds)
            if problem == "unknown":
                if name not in suggestions and len(suggestions) < _SUGGESTED_MAX:
                    suggestions[name] = suggestion(name, schema.attributes)
                if suggestions.get(name) is None:
                    continue
            elif problem != "family":
                continue
            has_reason |= problem == "family"
            asked = sorted(kind for kind in kinds if isinstance(kind, Family))
            attribute = schema.attributes.get(name)
            told = _of_one(problem, text, name, tuple(family.label for family in asked))
            if attribute is None:
                told = msgspec.structs.replace(told, suggestion=suggestions.get(name))
            else:
                seen = {family.label: 0 for family in sorted(attribute.families)}
                told = msgspec.structs.replace(told, seen=seen, detail=f"a {attribute.type}")
            Concern(told, (predicate,)).add_to(known)
        if not has_reason:
            Concern(_of_one("unadvertised", text), (predicate,)).add_to(known)
    return [known[key] for key in sorted(known)]


def _of_one(problem: Problem, text: str, name: str = "", asked: tuple[str, ...] = ()) -> Disagreement:
    basis: Basis = "advertisements"
    return Disagreement(name, problem, asked, {}, 1, (text,), basis=basis)


def _schema_of(advertised: Iterable[Predicate]) -> Schema:
    """The attributes that advertisements name, and the families that they say these have."""
    families: dict[str, frozenset[Family]] = {}
    for predicate in list(dict.fromkeys(advertised))[:_ADVERTISED_MAX]:
        for name, kinds in kinds_in(predicate.filters).items():
            said = frozenset(kind for kind in kinds if isinstance(kind, Family))
            if len(said) < len(kinds):
                # That it is there, or is not, says nothing of families.
                said = frozenset(Family)
            families[name] = families.get(name, frozenset()) | said
    return Schema.of_families(families)


class Disagreements:
    """The latest look at them. See the module."""

    def __init__(self, name: str, runtime: Runtime) -> None:
        self._name = name
        self._runtime = runtime
        self._found: Sequence[Disagreement] = ()
        self._logged: set[tuple[str, ...]] = set()
        self._unadvertised: frozenset[Predicate] = frozenset()

    def lasting(self, prospects: Prospects) -> list[Predicate]:
        """What clients want and nobody advertises, and did not at the look before either.

        Publishers may come a moment after those who wait for them.
        """
        before, self._unadvertised = self._unadvertised, frozenset(prospects.unadvertised)
        return [predicate for predicate in prospects.unadvertised if predicate in before]

    def see(self, concerns: Sequence[Concern], prospects: Prospects) -> None:
        """Take what a look has found; log what is new, and tell the clients that it concerns."""
        self._found = [concern.found for concern in concerns]
        for found, filters in concerns:
            key: tuple[str, ...] = found.attribute, found.problem
            if found.problem == "unadvertised":
                # It is about no attribute: others may be concerned by now.
                key += tuple(map(str, found.ids))
            if key not in self._logged and len(self._logged) < _LOGGED_MAX:
                self._logged.add(key)
                LOG.warning("%s: %s", self._name, printable(str(found)))
            for predicate in filters if found.problem in _IN_VAIN else ():
                for name in prospects.subscribers(predicate):
                    link = self._runtime.links.get(name)
                    if link is not None and link.is_client:
                        self._tell(link, found, predicate)
        self._runtime.flush()

    def _tell(self, link: Link, found: Disagreement, predicate: Predicate) -> None:
        """Tell a client of a subscription of its own, if it has not been told."""
        text = predicate.to_sql()
        key = text, found.attribute, found.problem
        if key in link.doubts or len(link.doubts) >= _NOTICES_MAX:
            return
        link.doubts.add(key)
        self._runtime.notify(link, NOTICE, f"{text:.200}: {_why(found, link)}")

    def told(self) -> dict[str, Any]:
        """For the status: how many attributes by problem (`unadvertised`: filters), and some in words."""
        # Events and advertisements may both show the same of one attribute.
        counts = Counter(problem for _name, problem in {(one.attribute, one.problem) for one in self._found})
        counts.update({one.problem: one.rules - 1 for one in self._found if one.problem == "unadvertised"})
        return {
            "counts": dict(sorted(counts.items())),
            "texts": [printable(str(one)) for one in self._found[:TOLD_MAX]],
        }


def _why(found: Disagreement, link: Link) -> str:
    """The sentence for one subscription. Who may not see all events is not told what others have."""
    grants = None if link.identity is None else link.identity.grants
    if grants is not None and grants.subscribe is not None and found.attribute:
        return f"nothing that is published goes with what the filter asks of {found.attribute!r:.80}"
    return str(msgspec.structs.replace(found, rules=1, ids=()))


class Observing(Protocol):
    """Whoever matches events, and so knows what they were like."""

    def disagreements(self, schema: Schema | None, elsewhere: Sequence[Predicate]) -> list[Concern]:
        """What filters, the events that came and a schema disagree about; nothing of filters that overlap
        what may be published elsewhere."""


class Look:
    """One look at what subscriptions ask for in vain: begun and finished where the node runs.

    `compare` takes a while where there are very many: it may be called in another thread.
    """

    def __init__(self, told: Disagreements, core: Core, schema: Schema | None) -> None:
        self._told = told
        self._prospects = core.prospects()
        self._lasting = told.lasting(self._prospects)
        self._schema = schema
        self.found: list[Concern] = []

    def compare(self, observing: Observing) -> None:
        """Hold what is asked for against events and advertisements."""
        prospects = self._prospects
        self.found = [
            *observing.disagreements(self._schema, prospects.elsewhere),
            *unadvertised(self._lasting, prospects.advertised),
        ]

    def finish(self) -> None:
        """Have log, status and clients say what was found."""
        self._told.see(self.found, self._prospects)
