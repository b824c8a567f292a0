"""Kernels loaded before anybody waits for them."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from penstock.matching.arrival import KERNELS
from penstock.matching.encode import batch_of_events
from penstock.matching.lines import Lines
from penstock.matching.matcher import Matcher
from penstock.matching.matches import Matches

_FILTERS: Final = ("a = 1", "a > 0 and b like 'x%'", "b in ('x', 'y') or a between 3 and 4")
_EVENT: Final = {"a": 1, "b": "x"}
_RANGES: Final = 200
"""Filters of ranges, enough for the planes that such are kept in."""


def warm(match: Callable[[Matcher], Matches]) -> None:
    """Have a matcher do what a changing one does, with events in the form in which `match` gives them."""
    KERNELS.wait()
    matcher = Matcher(enumerate(_FILTERS))
    match(matcher)
    matcher.compact()
    matcher.add(len(_FILTERS), "b = 'x'")
    match(matcher)
    matcher.remove(len(_FILTERS))
    matcher.remove(0)
    match(matcher)
    # To merge what is there already takes kernels of its own.
    matcher.compact()


def warm_all(say: Callable[[str], None]) -> None:
    """Do all that takes kernels; `say` is told what is done."""
    import numpy as np
    import pyarrow as pa

    from penstock.matching.intervals import nearest_holding
    from penstock.matching.kernels.observe import count_values
    from penstock.matching.kernels.results import sort_places

    say("events one by one")
    warm(lambda matcher: matcher.match_batch([_EVENT]))
    say("events as JSON lines")
    warm(lambda matcher: matcher.match_json(b'{"a": 1, "b": "\\u0078"}\n'))
    say("events as Arrow columns")
    for text in (pa.string(), pa.large_string()):
        rows = pa.table({"a": [1], "b": pa.array(["x"], text)})
        warm(lambda matcher, rows=rows: matcher.match_batch(rows))  # type: ignore[misc]
    say("tables")
    ends = [(n, n + _RANGES // 2) for n in range(_RANGES)]
    ranges = [f"a between {low} and {high} and c between {low} and {high}" for low, high in ends]
    # Integers beyond what doubles can tell apart are compared by more.
    matcher = Matcher({str(n): text for n, text in enumerate([*_FILTERS, *ranges, f"a = {2**53 + 1}"])})
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        matcher.save(Path(folder) / "table")
        matches = Matcher.load(Path(folder) / "table").match_batch([_EVENT]).sorted()
    # Small batches are counted without it.
    none = np.zeros(0, np.int32)
    count_values(none, none, np.zeros(0, np.uint8), np.zeros(0, np.int64))
    sort_places(matches.offsets, matches.numbers, np.arange(len(matcher), dtype=np.int64))
    nearest_holding(np.zeros((2, 0)), np.zeros((2, 0)), np.zeros(0, np.int64))
    say("lines")
    Lines(matches.table, 0).write(batch_of_events([_EVENT], matcher.names), matches, np.zeros(1, np.int64), 0)
