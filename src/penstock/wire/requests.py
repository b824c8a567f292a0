"""What clients ask of their broker, and what it answers. Events travel in blocks, not in these."""

from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from penstock.errors import WireError
from penstock.model.limits import TEXT_LENGTH_MAX

KEY_MAX: Final = 2**32 - 1
"""Keys of subscriptions and advertisements are numbers that the client gives."""

BEFORE_MAX: Final = 8
"""Changes of a subscription that are remembered."""

ACKED_MAX: Final = 32
"""Groups of events of which a publisher says when they were acknowledged; each goes back twice as far."""

ClientKey = Annotated[int, msgspec.Meta(ge=0, le=KEY_MAX)]
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=2**31)]
_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
FilterText = Annotated[str, msgspec.Meta(max_length=TEXT_LENGTH_MAX)]


class _Request(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    request: Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
    """Comes back with the answer."""


class Before(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """What a subscription was before it was changed, and how many seconds ago it became that."""

    age: _Seconds
    filter: FilterText


class Want(_Request, frozen=True, tag="want"):
    """Subscribe, or have another filter under the same key.

    Who comes back after a failure says for how many seconds it has heard nothing, and is sent what it missed,
    also of publishers that its last broker had not heard of for longer (`unheard`);
    but for what is older than the subscription, which was made or changed `age` seconds ago, and of what is
    older than a change, what it wanted `before` too; the last change first.
    """

    key: ClientKey
    filter: FilterText
    seconds: _Seconds = 0.0
    age: _Seconds = 0.0
    before: Annotated[tuple[Before, ...], msgspec.Meta(max_length=BEFORE_MAX)] = ()
    unheard: _Seconds = 0.0


class Unwant(_Request, frozen=True, tag="unwant"):
    """Subscribe no longer."""

    key: ClientKey


class Offer(_Request, frozen=True, tag="offer"):
    """Advertise, or have another filter under the same key.

    Who comes from another broker says how often it has begun anew (`turn`), and what was acknowledged there:
    how long ago, how many events, and in which turn (0: in several).
    """

    key: ClientKey
    filter: FilterText
    turn: _Count = 0
    acked: Annotated[tuple[tuple[_Seconds, _Count, _Count], ...], msgspec.Meta(max_length=ACKED_MAX)] = ()


class Unoffer(_Request, frozen=True, tag="unoffer"):
    """Advertise no longer."""

    key: ClientKey


class Ask(_Request, frozen=True, tag="ask"):
    """What the broker has to say of itself."""

    what: Literal["status"] = "status"


class Bye(_Request, frozen=True, tag="bye"):
    """The client goes, and all it wanted with it."""


Request: TypeAlias = Want | Unwant | Offer | Unoffer | Ask | Bye


class _Answer(msgspec.Struct, array_like=True, frozen=True):
    pass


class Done(_Answer, frozen=True, tag="done"):
    """It is so."""

    request: int
    json: bytes = b""


class Denied(_Answer, frozen=True, tag="denied"):
    """It is not. `code`: "access", "quota", "filter", "event" or "protocol"."""

    request: int
    code: str
    reason: str


class Rejected(_Answer, frozen=True, tag="rejected"):
    """Events that were not accepted, by their numbers under an advertisement."""

    key: int
    numbers: list[int]
    code: str
    reason: str


class Notify(_Answer, frozen=True, tag="notify"):
    """Something that a client should know."""

    kind: str
    text: str
    count: int = 0


class Traced(_Answer, frozen=True, tag="traced"):
    """The way that a marked event took from here on, as JSON."""

    trace: str
    json: bytes


class Behind(_Answer, frozen=True, tag="behind"):
    """Events of the last seconds may be missing, and are yet to come (`penstock.broker.effects.Behind`).

    With 0, all have come.
    """

    seconds: float
    unheard: float = 0.0


Answer: TypeAlias = Done | Denied | Rejected | Notify | Traced | Behind

_ENCODER: Final = msgspec.msgpack.Encoder()
_REQUESTS: Final[msgspec.msgpack.Decoder[Request]] = msgspec.msgpack.Decoder(Request)
_ANSWERS: Final[msgspec.msgpack.Decoder[Answer]] = msgspec.msgpack.Decoder(Answer)


def write_request(request: Request) -> bytes:
    """As it travels."""
    return _ENCODER.encode(request)


def write_answer(answer: Answer) -> bytes:
    """As it travels."""
    return _ENCODER.encode(answer)


def read_request(payload: memoryview) -> Request:
    """What a client asks. Raises WireError."""
    try:
        return _REQUESTS.decode(payload)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise WireError(f"a request that cannot be read: {error}") from None


def read_answer(payload: memoryview) -> Answer:
    """What a broker answers. Raises WireError."""
    try:
        return _ANSWERS.decode(payload)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise WireError(f"an answer that cannot be read: {error}") from None
