"""Messages to bytes: MessagePack arrays, tagged by kind; filters as their canonical SQL text."""

from functools import lru_cache
from typing import Any, Final

import msgspec

from penstock.filters.languages import sql
from penstock.filters.predicate import Predicate


def _written(value: Any) -> Any:
    if isinstance(value, Predicate):
        return value.to_sql()
    raise NotImplementedError(f"{type(value).__name__} has no place in a message")


_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=_written)

_parse = lru_cache(4096)(sql.parse)


def encode(message: msgspec.Struct) -> bytes:
    """A message as bytes."""
    return _ENCODER.encode(message)


def read_filter(kind: type, value: Any) -> Any:
    """A filter from its text, for a decoder. Raises FilterError or LimitError."""
    if kind is Predicate:
        if not isinstance(value, str):
            raise ValueError("a filter is text")
        return _parse(value)
    raise NotImplementedError(f"{kind.__name__} has no place in a message")
