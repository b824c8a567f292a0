"""What live brokers log, on standard error: a line each, so that whoever collects lines has them whole."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.errors import printable


class OneLine(logging.Formatter):
    """Time, level, who and what; the lines of a traceback behind each other."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        lines = (printable(line.strip()) for line in super().format(record).split("\n"))
        return " | ".join(line for line in lines if line)


@contextmanager
def logged_to_stderr(level: str) -> Iterator[None]:
    """Log to standard error meanwhile, from this level on: debug, info, warning or error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine())
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(level.upper())
    try:
        yield
    finally:
        root.setLevel(before)
        root.removeHandler(handler)
