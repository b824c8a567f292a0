"""Every error that Penstock raises on purpose, under one root.

Each message says what was wrong, where, and what to do about it.
"""

__all__ = [
    "AccessError",
    "DisagreementError",
    "EventError",
    "FilterError",
    "FilterSyntaxError",
    "InexpressibleError",
    "InputError",
    "LimitError",
    "MissingExtraError",
    "NetworkError",
    "PenstockError",
    "UnknownSubscriptionError",
    "UnsupportedValueError",
    "WireError",
]

_SNIPPET_BEFORE = 24
_SNIPPET_AFTER = 24


class PenstockError(Exception):
    """The root of all errors of Penstock.

    `row` is the row of a table that the error is about, where it is about one.
    """

    row: int | None = None
    _column: str | None = None
    _told: str | None = None
    """The message without row and column."""

    def in_row(self, row: int, column: str | None = None) -> "PenstockError":
        """The same error, saying in which row, and column, of a table it happened."""
        return self._located(row, column, str(self))

    def in_list(self, row: int, column: str) -> "PenstockError":
        """The same of an error about an element of a list in this row, whose own row was its number."""
        inner = self._column or ""
        joint = "." if inner and not inner.startswith("[]") else ""
        return self._located(
            row, f"{column}[]{joint}{inner}", str(self) if self._told is None else self._told
        )

    def _located(self, row: int, column: str | None, told: str) -> "PenstockError":
        place = f"row {row}" if column is None else f"row {row}, column {column!r:.80}"
        located = _rebuild(type(self), f"{place}: {told}", dict(vars(self)))
        located.row, located._column, located._told = row, column, told
        return located


class EventError(PenstockError, ValueError):
    """An event that cannot be one: no attributes, a bad name, a name given twice."""


class UnsupportedValueError(EventError):
    """A value that belongs to no family (bytes, a map), or lies outside its family's range."""


class FilterError(PenstockError, ValueError):
    """A constraint or filter that cannot be one: an unknown operator, a value it does not take."""


class InexpressibleError(FilterError):
    """A predicate that the language asked for has no words for."""


class InputError(PenstockError, ValueError):
    """A file that cannot be read as what it was said to be; the message names file and line."""


class DisagreementError(PenstockError, ValueError):
    """Rules and events, or rules and a schema, disagree, and whoever asked wants no answer then."""


class MissingExtraError(PenstockError, ImportError):
    """A part of Penstock that needs an optional package; the message has the command to install it."""


class NetworkError(PenstockError, ConnectionError):
    """A broker that cannot be reached, or a connection that has ended; the message says which."""


class AccessError(PenstockError, PermissionError):
    """Something that whoever asks may not do, or a token that is not taken; the message says why not."""


class WireError(PenstockError, ValueError):
    """Bytes from the other side of a connection that are no message; the connection is closed over it."""


class LimitError(PenstockError, ValueError):
    """Something exceeds a limit, of `penstock.model.limits` or of a matcher; the message names it."""

    def __init__(self, what: str, limit_name: str, limit: int) -> None:
        super().__init__(f"{what}: the limit is {limit:,} ({limit_name})")
        self.limit_name = limit_name
        self.limit = limit

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), str(self), dict(vars(self)))


class FilterSyntaxError(FilterError):
    """A text that is no filter in its language.

    `position` is the 0-based offset in `text` (None where only a path is known, as in the JSON form);
    `expected` says what could have stood there, `what` is the message without the place.
    """

    def __init__(
        self,
        expected: str,
        text: str,
        position: int | None,
        *,
        found: str | None = None,
        reason: str | None = None,
    ) -> None:
        self.expected = expected
        self.text = text
        self.position = position
        self.what = reason or f"expected {expected}" + (f", found {found}" if found else "")
        super().__init__(_placed(self.what, text, position))

    def pointer(self) -> str:
        """Two lines: the text around the error, and a caret under the place."""
        start, end = _window(self.text, self.position or 0)
        shown = "".join(c if c.isprintable() else " " for c in self.text[start:end])
        return f"{shown}\n{' ' * ((self.position or 0) - start)}^"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), str(self), dict(vars(self)))


def _rebuild(kind: type[PenstockError], message: str, state: dict[str, object]) -> PenstockError:
    """Unpickle an error whose constructor takes more than its message."""
    error = kind.__new__(kind, message)
    error.args = (message,)
    error.__dict__.update(state)
    return error


def _window(text: str, position: int) -> tuple[int, int]:
    return max(0, position - _SNIPPET_BEFORE), min(len(text), position + _SNIPPET_AFTER)


def _placed(what: str, text: str, position: int | None) -> str:
    """One line: the place, what is wrong there, and the text around it."""
    if position is None:
        return what
    start, end = _window(text, position)
    before = ("…" if start else "") + printable(text[start:position])
    after = printable(text[position:end]) + ("…" if end < len(text) else "")
    place = f"column {position + 1}"
    if "\n" in text[:position]:
        line = text.count("\n", 0, position)
        place = f"line {line + 1}, column {position - text.rfind(chr(10), 0, position)}"
    # ⟨here⟩, because a caret would need a second line.
    return f"{place}: {what}: {before}⟨here⟩{after}"


def printable(text: str) -> str:
    """What others have written, with what a terminal would take for a command as an escape, such as `\\x1b`.

    Everything that reaches a log or a terminal and that somebody else may have chosen passes here: names of
    clients, reasons of refusals, texts of filters.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class UnknownSubscriptionError(PenstockError, LookupError):
    """Nothing is subscribed under an id, or not the filter that was to be removed."""
