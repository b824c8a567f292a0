"""What may name an attribute, and what may identify a subscription, a subscriber or an advertisement."""

from numbers import Integral
from typing import TypeAlias

from penstock.errors import EventError, LimitError, PenstockError
from penstock.model.limits import ID_LENGTH_MAX, INTEGER_MAX, INTEGER_MIN, NAME_LENGTH_MAX

Tree: TypeAlias = str
"""A tree identifier (TID; seed paper 004, section 3.2): an advertisement, and the tree that it spans."""

Key: TypeAlias = str | int
"""What a subscription is called on one link: by an id, or where the scheme has none, by its filter's text."""

Id = str | int
"""Ids are the user's own: text, or 64-bit integers where a table has such keys."""


def is_unicode(text: str) -> bool:
    """Whether the text can be written as UTF-8, that is, has no lone surrogate."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_name(name: object) -> str:
    """Return the attribute name, or raise: any non-empty Unicode text within the limit is one."""
    if not isinstance(name, str):
        raise EventError(f"an attribute name is a string, not {type(name).__name__}")
    if not (name.isascii() and 0 < len(name) <= NAME_LENGTH_MAX):
        _check_text(name, "attribute name", "NAME_LENGTH_MAX", NAME_LENGTH_MAX, EventError)
    return name


def check_id(identifier: object) -> Id:
    """Return the id, or raise: non-empty Unicode text within the limit, or a 64-bit integer."""
    if type(identifier) is str and identifier.isascii() and 0 < len(identifier) <= ID_LENGTH_MAX:
        return identifier
    if type(identifier) is int and INTEGER_MIN <= identifier <= INTEGER_MAX:
        return identifier
    if isinstance(identifier, str):
        _check_text(identifier, "id", "ID_LENGTH_MAX", ID_LENGTH_MAX, PenstockError)
        return identifier
    if isinstance(identifier, Integral) and not isinstance(identifier, bool):
        identifier = int(identifier)  # also of NumPy's
    if not isinstance(identifier, int) or isinstance(identifier, bool):
        raise PenstockError(f"an id is text or an integer, not {type(identifier).__name__}")
    if not INTEGER_MIN <= identifier <= INTEGER_MAX:
        raise PenstockError("an id that is an integer has at most 64 bits")
    return identifier


def _check_text(text: str, what: str, limit_name: str, limit: int, kind: type[PenstockError]) -> None:
    if not text:
        raise kind(f"an {what} is empty")
    if len(text) > limit:
        raise LimitError(f"the {what} {text[:40]!r}… has {len(text):,} characters", limit_name, limit)
    if not is_unicode(text):
        raise kind(f"the {what} {text!r:.80} is not Unicode text (it has a lone surrogate)")


def id_order(identifier: Id) -> tuple[bool, Id]:
    """Sort key for ids: integers first, each kind in its own order."""
    return isinstance(identifier, str), identifier
