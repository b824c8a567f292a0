"""Tables of figures on a terminal, or in a file."""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def console(width: int) -> "Console":
    """Where to print what is so wide."""
    from rich.console import Console

    made = Console(highlight=False)
    if not sys.stdout.isatty() or made.width < width:
        # Lines that a narrow terminal breaks are better than figures that are cut.
        made = Console(width=width, highlight=False)
    return made


def table(title: str, names: Iterable[str], figures: Iterable[str]) -> "Table":
    """A table with columns of names and then columns of figures."""
    from rich import box
    from rich.table import Table

    made = Table(
        title=title, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False, collapse_padding=True
    )
    for heading in names:
        made.add_column(heading, no_wrap=True)
    for heading in figures:
        made.add_column(heading, justify="right", no_wrap=True)
    return made
