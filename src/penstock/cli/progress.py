"""A progress bar, or a line on what is being done: on standard error, if that is a terminal; else nothing."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal


@contextmanager
def progress(
    what: str, total: int | None, unit: Literal["bytes", "rows"] = "bytes"
) -> Iterator[Callable[[int], None]]:
    """Give a function to call with how far the work has come since the last call."""
    if not sys.stderr.isatty():
        yield lambda _step: None
        return
    from rich import progress as bars
    from rich.console import Console

    amount: bars.ProgressColumn = bars.DownloadColumn() if unit == "bytes" else bars.MofNCompleteColumn()
    columns = (bars.TextColumn("{task.description}"), bars.BarColumn(), amount, bars.TimeRemainingColumn())
    out = Console(stderr=True)
    with bars.Progress(*columns, console=out, transient=True, redirect_stdout=sys.stdout.isatty()) as bar:
        task = bar.add_task(what, total=total)
        # Drawing costs more than matching: report a step in a hundred only.
        pending, step = 0, (total or 2**22) // 100 + 1

        def advance(amount_done: int) -> None:
            nonlocal pending
            pending += amount_done
            if pending >= step:
                bar.advance(task, pending)
                pending = 0

        yield advance


@contextmanager
def telling(what: str) -> Iterator[Callable[[str], None]]:
    """Give a function to call with what is being done now."""
    if not sys.stderr.isatty():
        yield lambda _text: None
        return
    from rich.console import Console
    from rich.live import Live
    from rich.spinner import Spinner
    from rich.text import Text

    # What is done may have brackets, which are not meant for the printer.
    spinner = Spinner("dots", Text(what), style="status.spinner")
    # Output goes above the line where both are on one terminal. In a file it would be missing.
    to_terminal = sys.stdout.isatty()
    out = Console(stderr=True)
    with Live(spinner, console=out, refresh_per_second=10, transient=True, redirect_stdout=to_terminal):
        yield lambda text: spinner.update(text=Text(f"{what}: {text}"))
