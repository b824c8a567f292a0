"""JSON in and out, with bounds on what comes in."""

from typing import Final

import msgspec

from penstock.errors import EventError

_DECODER: Final[msgspec.json.Decoder[object]] = msgspec.json.Decoder()


class MalformedError(EventError):
    """Something that is not what it says it is: broken JSON, a CloudEvent without an id."""


def decode_json(text: bytes | str, what: str = "the body") -> object:
    """Decode JSON; of a name that is there twice the last counts."""
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise MalformedError(f"{what} nests too deep") from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise MalformedError(f"{what} is not JSON: {error}") from None


def encode_json(value: object) -> bytes:
    """Encode as one line of JSON, with `<` escaped: what is pasted into a page is no markup there."""
    return msgspec.json.encode(value).replace(b"<", b"\\u003c")
