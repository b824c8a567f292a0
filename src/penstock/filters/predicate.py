"""The predicate: a disjunction of filters. What a subscription says, in any language.

Equality is by canonical form, and equal predicates always match the same events. For one filter, and for
predicates over one attribute and family, the converse holds too (where value sets are exact); two
disjunctions over several attributes may slice the same events differently: `identical` decides that.
"""

from collections.abc import Iterable, Mapping

from penstock.errors import FilterError, LimitError
from penstock.filters import html
from penstock.filters.clauses import settled
from penstock.filters.disjunction import canonical
from penstock.filters.filter import Filter, check_size
from penstock.filters.work import Work
from penstock.model.events import Event, Unsupported, as_event
from penstock.model.limits import DISJUNCTS_MAX


class Predicate:
    """A disjunction of filters in canonical form. Without a filter it matches nothing."""

    __slots__ = ("_hash", "filters")

    filters: tuple[Filter, ...]
    _hash: int | None

    def __init__(self, filters: Iterable[Filter] = ()) -> None:
        given = list(filters)
        for f in given:
            if not isinstance(f, Filter):
                raise FilterError(f"a predicate is made of filters, not of {type(f).__name__}")
        work = Work.on(given)
        if any(f.clauses for f in given):
            given = [one for f in given for one in (settled(f, work) if f.clauses else (f,))]
        self.filters, self._hash = within_limit(canonical(given, work)), None
        work.check_readable(self.filters)

    @property
    def satisfiable(self) -> bool:
        """False when it is known that no event can match."""
        return bool(self.filters)

    def matches(self, event: Event | Mapping[str, object], *, unsupported: Unsupported = "refuse") -> bool:
        """Whether one of the filters matches the event.

        `unsupported="skip"` leaves out attributes of a dict that have no family, such as bytes.
        """
        attributes = as_event(event, unsupported).attributes
        return any(f.admits(attributes) for f in self.filters)

    def to_sql(self) -> str:
        """Write the predicate as the boolean part of SQL's WHERE."""
        from penstock.filters.languages import sql

        return sql.write(self)

    def to_padres(self) -> str:
        """Write the predicate in the PADRES form, or raise InexpressibleError."""
        from penstock.filters.languages import padres

        return padres.write(self)

    def to_json(self) -> str:
        """Write the predicate in the JSON form."""
        from penstock.filters.languages import json

        return json.write(self)

    def __eq__(self, other: object) -> bool:
        return self.filters == other.filters if isinstance(other, Predicate) else NotImplemented

    def __hash__(self) -> int:
        # Tables look predicates up all the time.
        if self._hash is None:
            self._hash = hash(self.filters)
        return self._hash

    def __str__(self) -> str:
        return self.to_sql()

    def __repr__(self) -> str:
        return f"<Predicate {self}>"

    def _repr_html_(self) -> str:
        if not self.filters:
            return html.paragraph("false: no event can match")
        return html.table(("matches where",), ((f.to_sql(),) for f in self.filters), len(self.filters))

    def __reduce__(self) -> tuple[object, ...]:
        return of_canonical, (self.filters,)


def of_canonical(filters: tuple[Filter, ...]) -> Predicate:
    """The predicate of filters that are in canonical form already."""
    made = Predicate.__new__(Predicate)
    made.filters, made._hash = filters, None
    return made


def within_limit(filters: tuple[Filter, ...]) -> tuple[Filter, ...]:
    """The filters, or LimitError when they are too many, or too large, for one predicate."""
    if len(filters) > DISJUNCTS_MAX:
        what = f"the predicate is a disjunction of {len(filters):,} filters"
        raise LimitError(what, "DISJUNCTS_MAX", DISJUNCTS_MAX)
    for f in filters:
        check_size(f.conditions)
    return filters
