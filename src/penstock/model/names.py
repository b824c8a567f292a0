"""What may name an attribute, and what may identify a subscription or a subscriber."""

from penstock.errors import EventError, LimitError, PenstockError
from penstock.model.limits import ID_LENGTH_MAX, INTEGER_MAX, INTEGER_MIN, NAME_LENGTH_MAX

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
        raise EventError(f"an attribute name is a string, not {type(name).__name__}: {name!r:.80}")
    if not name:
        raise EventError("an attribute name is empty")
    if len(name) > NAME_LENGTH_MAX:
        what = f"the attribute name {name[:40]!r}… has {len(name):,} characters"
        raise LimitError(what, "NAME_LENGTH_MAX", NAME_LENGTH_MAX)
    if not is_unicode(name):
        raise EventError(f"the attribute name {name!r:.80} is not Unicode text (it has a lone surrogate)")
    return name


def check_id(identifier: object) -> Id:
    """Return the id, or raise: non-empty Unicode text within the limit, or a 64-bit integer."""
    if isinstance(identifier, int) and not isinstance(identifier, bool):
        if INTEGER_MIN <= identifier <= INTEGER_MAX:
            return identifier
        raise PenstockError(f"the id {identifier} does not fit 64 bits")
    if not isinstance(identifier, str):
        raise PenstockError(f"an id is text or an integer, not {type(identifier).__name__}")
    if not identifier:
        raise PenstockError("an id is empty")
    if len(identifier) > ID_LENGTH_MAX:
        what = f"the id {identifier[:40]!r}… has {len(identifier):,} characters"
        raise LimitError(what, "ID_LENGTH_MAX", ID_LENGTH_MAX)
    if not is_unicode(identifier):
        raise PenstockError(f"the id {identifier!r:.80} is not Unicode text (it has a lone surrogate)")
    return identifier


def id_order(identifier: Id) -> tuple[bool, Id]:
    """Sort key for ids: integers first, each kind in its own order."""
    return isinstance(identifier, str), identifier
