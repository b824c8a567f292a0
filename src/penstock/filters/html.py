"""What notebooks show of predicates, matchers and matches. Everything is escaped: rules are others' text."""

from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice
from typing import Final

ROWS: Final = 20
"""Rows that are shown of a table."""

_CELL: Final = 300
"""Characters that are shown of a cell."""


def paragraph(text: str) -> str:
    """A line of text."""
    return f"<p>{_shown(text)}</p>"


def table(names: Sequence[str], rows: Iterable[Sequence[object]], total: int | None = None) -> str:
    """The first rows, and how many more there are of `total`; by default, of all rows."""
    given = rows if total is not None else list(rows)
    count = total if total is not None else len(list(given))
    shown = ["".join(f"<td>{_shown(cell)}</td>" for cell in row) for row in islice(given, ROWS)]
    head = "".join(f"<th>{_shown(name)}</th>" for name in names)
    body = "".join(f"<tr>{row}</tr>" for row in shown)
    more = paragraph(f"… and {count - len(shown):,} more") if count > len(shown) else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _shown(cell: object) -> str:
    text = f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else str(cell)
    return escape(text if len(text) <= _CELL else f"{text[:_CELL]}…")
