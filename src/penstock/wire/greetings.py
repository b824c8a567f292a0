"""How a connection begins: who is there, may they come in, and where did we stop."""

from typing import Final, Literal, TypeVar

import msgspec

from penstock.errors import WireError
from penstock.model.limits import ID_LENGTH_MAX
from penstock.model.names import is_unicode
from penstock.wire.frames import Kind, frame

VERSION: Final = 8
"""Of the protocol; both sides must have the same."""

TOKEN_LENGTH_MAX: Final = 8 * 1024

_ROOM_MAX: Final = 2**32
"""Bytes of a window or a frame: no length that comes before a frame can say more."""

T = TypeVar("T")

GRANTED_LENGTH_MAX: Final = 8 * 1024
"""Characters of what a client is told that it may advertise; tokens are no longer."""

Role = Literal["client", "broker"]


class Hello(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """The first frame of whoever connects.

    `session` is new for each life of a session; `received` is the number of the last frame had in it, when
    it goes on after a lost connection. `incarnation` and `protocol` are those of a broker. `token` is a
    client's, or a broker's proof that it knows the secret that brokers share.
    """

    version: int
    role: Role
    name: str
    token: str
    session: str
    received: int
    incarnation: int = 0
    when_slow: Literal["pause", "drop"] = "pause"
    protocol: str = ""


class Welcome(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """The answer: whether the session goes on where it stopped, and with which frame; and what is allowed.

    `proof` shows a broker that this one knows the secret that brokers share. `granted` is what a client may
    advertise.
    """

    broker: str
    incarnation: int
    resumed: bool
    received: int
    window: int
    frame_bytes: int
    proof: str
    granted: str = "true"


class Refused(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """The other answer. `code`: "access", "busy", "draining", "version", "name", "protocol" or "slow"."""

    code: str
    reason: str


_ENCODER: Final = msgspec.msgpack.Encoder()
_HELLOS: Final = msgspec.msgpack.Decoder(Hello)
_WELCOMES: Final = msgspec.msgpack.Decoder(Welcome)
_REFUSALS: Final = msgspec.msgpack.Decoder(Refused)


def write_hello(hello: Hello) -> bytes:
    """A whole frame."""
    return frame(Kind.HELLO, _ENCODER.encode(hello))


def write_welcome(welcome: Welcome) -> bytes:
    """A whole frame."""
    return frame(Kind.WELCOME, _ENCODER.encode(welcome))


def write_refused(code: str, reason: str) -> bytes:
    """A whole frame."""
    return frame(Kind.REFUSED, _ENCODER.encode(Refused(code, reason[:1000])))


def read_hello(payload: memoryview) -> Hello:
    """Who is there. Raises WireError."""
    hello = _read(_HELLOS, payload, "a greeting")
    _check_name("name", hello.name)
    _check_name("session", hello.session)
    if len(hello.token) > TOKEN_LENGTH_MAX:
        raise WireError(f"a token has at most {TOKEN_LENGTH_MAX:,} characters")
    if hello.received < 0 or not 0 <= hello.incarnation < 2**62:
        raise WireError("a greeting has numbers that cannot be")
    return hello


def read_welcome(payload: memoryview) -> Welcome:
    """The answer to a greeting. Raises WireError."""
    welcome = _read(_WELCOMES, payload, "the answer to a greeting")
    _check_name("name", welcome.broker)
    if welcome.received < 0 or not 0 <= welcome.incarnation < 2**62:
        raise WireError("the answer to a greeting has numbers that cannot be")
    if not (0 < welcome.window <= _ROOM_MAX and 0 < welcome.frame_bytes <= _ROOM_MAX):
        raise WireError("the answer to a greeting leaves no room for anything, or more than there can be")
    if len(welcome.granted) > GRANTED_LENGTH_MAX:
        raise WireError("the answer to a greeting grants more than it has room for")
    return welcome


def read_refused(payload: memoryview) -> Refused:
    """Why not. Raises WireError."""
    return _read(_REFUSALS, payload, "a refusal")


def _check_name(what: str, text: str) -> None:
    if not 0 < len(text) <= ID_LENGTH_MAX or not is_unicode(text) or not text.isprintable():
        raise WireError(f"a greeting has a {what} of 1 to {ID_LENGTH_MAX} printable characters")


def _read(decoder: "msgspec.msgpack.Decoder[T]", payload: memoryview, what: str) -> T:
    try:
        return decoder.decode(payload)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise WireError(f"{what} that cannot be read: {error}") from None
