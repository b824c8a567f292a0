"""What clients ask of their broker, as the core has it."""

from penstock.errors import WireError
from penstock.filters.parsing import parse
from penstock.filters.predicate import Predicate
from penstock.wire.messages import Advertise, Message, Subscribe, Unadvertise, Unsubscribe
from penstock.wire.requests import KEY_MAX, Offer, Unoffer, Unwant, Want


def check_key(tree: str) -> None:
    """Clients publish under the keys of their advertisements, which are numbers."""
    if not (tree.isascii() and tree.isdigit() and len(tree) <= len(str(KEY_MAX)) and int(tree) <= KEY_MAX):
        raise WireError(f"events come under {tree!r:.40}, which is no key of an advertisement")


def message_of(request: Want | Unwant | Offer | Unoffer) -> Message:
    """A request for a change, as a message to the core. Raises FilterError or LimitError."""
    if isinstance(request, Want):
        return Subscribe(request.key, _predicate(request.filter), seconds=request.seconds)
    if isinstance(request, Unwant):
        return Unsubscribe(request.key)
    if isinstance(request, Offer):
        return Advertise(str(request.key), _predicate(request.filter))
    return Unadvertise(str(request.key))


def _predicate(text: str) -> Predicate:
    """What a filter says, if it can be said to other brokers too: in canonical form it may be longer."""
    predicate = parse(text)
    predicate.to_sql()
    return predicate
