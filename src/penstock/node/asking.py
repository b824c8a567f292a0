"""What clients ask of their broker, as the core has it."""

import re
from collections.abc import Callable
from typing import Final, TypeAlias

from penstock.broker.grants import Grants, Verb
from penstock.errors import AccessError, FilterError, WireError
from penstock.filters.parsing import parse
from penstock.filters.predicate import Predicate
from penstock.filters.schema_check import why_not as why_not_fitting
from penstock.model.schema import Schema
from penstock.node.identity import Identity
from penstock.node.world import Pace, no_pace
from penstock.wire.messages import Advertise, Message, Subscribe, Unadvertise, Unsubscribe
from penstock.wire.requests import KEY_MAX, Offer, Request, Unoffer, Unwant, Want

PLAIN_LENGTH_MAX: Final = 1_024
"""Characters of a filter that is understood at once, if it is plain."""

_VERBS: Final[dict[type, Verb]] = {Want: "subscribe", Offer: "advertise"}
"""The requests that have filters, and what has to be granted for them."""

_NOT_PLAIN: Final = re.compile(
    r"\b(?:or|not|like|ilike|rlike|any|array_contains|list_contains)\b", re.IGNORECASE
)


def check_key(tree: str) -> None:
    """Clients publish under the keys of their advertisements, which are numbers."""
    if not (tree.isascii() and tree.isdigit() and len(tree) <= len(str(KEY_MAX)) and int(tree) <= KEY_MAX):
        raise WireError(f"events come under {tree!r:.40}, which is no key of an advertisement")


def message_of(request: Want | Unwant | Offer | Unoffer) -> Message:
    """A request for a change, as a message to the core. Raises FilterError or LimitError."""
    if isinstance(request, Want):
        return _subscribe(request, _predicate(request.filter))
    if isinstance(request, Unwant):
        return Unsubscribe(request.key)
    if isinstance(request, Offer):
        return _advertise(request, _predicate(request.filter))
    return Unadvertise(str(request.key))


Prepared: TypeAlias = Message | Exception
"""A request with a filter as a message to the core; or why not, be it the client's mistake or ours."""


class MisfitError(FilterError):
    """A filter that does not fit the schema of events."""


def why_not_asked(request: Request, identity: Identity | None) -> str | None:
    """What to say to a filter that need not be parsed, because nothing of its kind is granted; else None."""
    verb: Verb | None = _VERBS.get(type(request))
    if verb is None or identity is None or identity.grants.has_any(verb):
        return None
    return f"not allowed to {verb}: nothing is granted; use a token that grants it"


def is_plain(text: str) -> bool:
    """Whether a filter is understood in about as many steps as it has characters.

    Constraints that are joined by `and` are. What has alternatives, negations, patterns or conditions on
    lists need not be.
    """
    return len(text) <= PLAIN_LENGTH_MAX and _NOT_PLAIN.search(text) is None


def has_plain_filters(request: Want | Offer) -> bool:
    """Whether all filters of a request are plain."""
    before = request.before if isinstance(request, Want) else ()
    return is_plain(request.filter) and all(is_plain(one.filter) for one in before)


def prepared(
    request: Want | Offer,
    grants: Grants,
    prepare: Callable[[Predicate], object] = lambda _predicate: None,
    schema: Schema | None = None,
    pace: Pace = no_pace,
) -> Prepared:
    """A request with a filter as a message to the core, if that is granted. Raises nothing.

    `prepare`: called with a filter that will be matched. `schema`: what filters have to fit, if anything.
    """
    message: Subscribe | Advertise
    verb: Verb
    try:
        predicate = _predicate(request.filter, pace)
        pace()
        if isinstance(request, Want):
            message, verb = _subscribe(request, predicate, pace), "subscribe"
        else:
            message, verb = _advertise(request, predicate), "advertise"
        why_not = grants.why_not(verb, predicate)
        if why_not is None and schema is not None:
            misfit = why_not_fitting(predicate.filters, schema, pace)
            if misfit is not None:
                return MisfitError(misfit)
        if why_not is None and verb == "subscribe":
            pace()
            prepare(predicate)
    except Exception as error:
        return error
    return message if why_not is None else AccessError(why_not)


def _advertise(request: Offer, predicate: Predicate) -> Advertise:
    return Advertise(str(request.key), predicate, turn=request.turn, acked=request.acked)


def _subscribe(request: Want, predicate: Predicate, pace: Pace = no_pace) -> Subscribe:
    before = tuple((one.age, _predicate(one.filter, pace)) for one in request.before)
    seconds, unheard = request.seconds, request.unheard
    return Subscribe(request.key, predicate, seconds=seconds, age=request.age, before=before, unheard=unheard)


def _predicate(text: str, pace: Pace = no_pace) -> Predicate:
    """What a filter says, if it can be said to other brokers too: in canonical form it may be longer."""
    predicate = parse(text, request=True, pace=pace)
    pace()
    predicate.to_sql()
    return predicate
