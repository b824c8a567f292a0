"""Messages between brokers as bytes: nested arrays, filters as their canonical SQL text."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import msgspec

from penstock.errors import PenstockError, WireError
from penstock.filters.languages import sql
from penstock.filters.predicate import Predicate
from penstock.model.names import Key
from penstock.wire.messages import (
    Advertise,
    Alive,
    Body,
    Control,
    Lost,
    Resync,
    Session,
    Subscribe,
    Sync,
    Unadvertise,
    Unreachable,
    Unsubscribe,
)
from penstock.wire.requests import Traced


class Returned(msgspec.Struct, frozen=True):
    """A frame of events could not be passed on to everybody: whoever they come from, send them again."""

    number: int


Spoken = Control | Sync | Resync | Alive | Traced | Returned
"""What brokers say to each other, besides events."""

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(list[Any])

_parse = lru_cache(4096)(sql.parse)


def write_spoken(message: Spoken) -> bytes:
    """A message as bytes."""
    return _ENCODER.encode(_plain(message))


def read_spoken(payload: memoryview) -> Spoken:
    """A message from its bytes. Raises WireError."""
    try:
        word, *rest = _DECODER.decode(payload)
        return _READERS[word](*rest)
    except (msgspec.MsgspecError, PenstockError, UnicodeError, RecursionError) as error:
        raise WireError(f"a message that cannot be read: {error}") from None
    except (TypeError, ValueError, KeyError, IndexError, AttributeError):
        raise WireError("a message that is none of those that brokers send") from None


def _plain(message: Spoken) -> list[Any]:
    if isinstance(message, Control):
        return ["control", message.session, message.number, [_plain_body(body) for body in message.bodies]]
    if isinstance(message, Sync):
        advertised = [_plain_body(body) for body in message.advertisements]
        asked = [_plain_body(body) for body in message.subscriptions]
        return ["sync", message.session, message.number, advertised, asked]
    if isinstance(message, Alive):
        return ["alive", message.session, message.number]
    if isinstance(message, Traced):
        return ["traced", message.trace, message.json]
    if isinstance(message, Returned):
        return ["returned", message.number]
    return ["resync"]


def _plain_body(body: Body) -> list[Any]:
    if isinstance(body, Advertise):
        return ["advertise", body.tree, body.filter.to_sql(), body.epoch]
    if isinstance(body, Subscribe):
        replaces = [_plain_key(key) for key in body.replaces]
        return ["subscribe", _plain_key(body.key), body.filter.to_sql(), sorted(body.trees), replaces]
    if isinstance(body, Unsubscribe):
        return ["unsubscribe", _plain_key(body.key)]
    if isinstance(body, Lost):
        return ["lost", body.broker, body.count, body.trees]
    return ["unadvertise" if isinstance(body, Unadvertise) else "unreachable", body.tree]


def _plain_key(key: Key) -> Any:
    return [key.to_sql()] if isinstance(key, Predicate) else key


def _key(plain: Any) -> Key:
    if isinstance(plain, list):
        (text,) = plain
        return _parse(_text(text))
    return _text(plain)


def _text(plain: Any) -> str:
    if not isinstance(plain, str):
        raise WireError("a name in a message is text")
    return plain


def _number(plain: Any) -> int:
    if type(plain) is not int:
        raise WireError("a number in a message is an integer")
    return plain


def _session(plain: Any) -> Session:
    life, ups = plain
    return _number(life), _number(ups)


def _read_subscribe(key: Any, text: Any, trees: Any, replaces: Any) -> Subscribe:
    known = frozenset(_text(tree) for tree in trees)
    return Subscribe(_key(key), _parse(_text(text)), known, tuple(_key(other) for other in replaces))


def _read_advertise(tree: Any, text: Any, epoch: Any) -> Advertise:
    return Advertise(_text(tree), _parse(_text(text)), _number(epoch))


def _read_lost(broker: Any, count: Any, trees: Any) -> Lost:
    return Lost(_text(broker), _session(count), tuple((_text(tree), _number(epoch)) for tree, epoch in trees))


_BODIES: Final[dict[Any, Callable[..., Body]]] = {
    "advertise": _read_advertise,
    "subscribe": _read_subscribe,
    "unsubscribe": lambda key: Unsubscribe(_key(key)),
    "unadvertise": lambda tree: Unadvertise(_text(tree)),
    "unreachable": lambda tree: Unreachable(_text(tree)),
    "lost": _read_lost,
}


def _body(plain: Any) -> Body:
    word, *rest = plain
    return _BODIES[word](*rest)


def _read_control(session: Any, number: Any, bodies: Any) -> Control:
    return Control(_session(session), _number(number), tuple(_body(body) for body in bodies))


def _read_sync(session: Any, number: Any, advertised: Any, asked: Any) -> Sync:
    return Sync(
        _session(session),
        _number(number),
        tuple(_read_advertise(*plain[1:]) for plain in advertised),
        tuple(_read_subscribe(*plain[1:]) for plain in asked),
    )


def _read_traced(trace: Any, json: Any) -> Traced:
    if not isinstance(json, bytes):
        raise WireError("the report of a trace is bytes")
    return Traced(_text(trace), json)


_READERS: Final[dict[Any, Callable[..., Spoken]]] = {
    "control": _read_control,
    "sync": _read_sync,
    "alive": lambda session, number: Alive(_session(session), _number(number)),
    "resync": Resync,
    "returned": lambda number: Returned(_number(number)),
    "traced": _read_traced,
}
