"""How often each rule matched: the noisiest, and those that never did.

    summary = matcher.summary(matcher.match_batch(rows) for rows in batches)
    summary.noisiest(10)                # [("late", 1200), …]
    summary.never                       # ["typo", …]

Hits are counted by the numbers that ids have in the matcher, an array at a time.
"""

import threading
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.filters import html
from penstock.filters.disagreements import Disagreement, lines_of
from penstock.matching.ids import IdTable
from penstock.matching.matches import Matches
from penstock.model.names import Id, id_order

TOP: Final = 20
"""Rules that a text shows, of the noisiest and of those that never matched."""

_ID_LENGTH: Final = 60


class Summary(msgspec.Struct, frozen=True):
    """How often each rule matched some events."""

    events: int
    matched: int
    """Events that at least one rule matched."""
    hits: int
    """Pairs of a rule and an event that it matched."""
    by_rule: tuple[tuple[Id, int], ...]
    """Each rule with its hits: the noisiest first, those that never matched last."""
    disagreements: tuple[Disagreement, ...] = ()
    """What rules and events disagree about."""

    @property
    def never(self) -> list[Id]:
        """The rules that matched no event."""
        return [key for key, hits in self.by_rule if not hits]

    def noisiest(self, top: int = 10) -> list[tuple[Id, int]]:
        """The rules with most hits, and how many each has."""
        return [pair for pair in self.by_rule[:top] if pair[1]]

    def to_dict(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        return {
            "events": self.events,
            "matched": self.matched,
            "hits": self.hits,
            "rules": len(self.by_rule),
            "never": self.never,
            "by_rule": [{"id": key, "hits": hits} for key, hits in self.by_rule],
            "disagreements": [one.to_dict() for one in self.disagreements],
        }

    def __str__(self) -> str:
        never = self.never
        lines = [
            f"{_counted(self.events, 'event')}: {self.matched:,} matched{_share(self.matched, self.events)}, "
            f"{_counted(self.hits, 'hit')}",
            f"{_counted(len(self.by_rule), 'rule')}: {len(self.by_rule) - len(never):,} matched, "
            f"{len(never):,} never",
        ]
        noisiest = self.noisiest(TOP)
        if noisiest:
            shown = [(_shown(key), f"{hits:,}") for key, hits in noisiest]
            width, figures = (max(len(row[at]) for row in shown) for at in (0, 1))
            lines += ["", "noisiest:"]
            lines += [
                f"  {name.ljust(width)}  {figure.rjust(figures)}{_share(hits, self.events)}"
                for (name, figure), (_key, hits) in zip(shown, noisiest, strict=True)
            ]
        if never:
            more = f"\n  … and {len(never) - TOP:,} more" if len(never) > TOP else ""
            lines += ["", "never matched:", *(f"  {_shown(key)}" for key in never[:TOP])]
            lines[-1] += more
        if self.disagreements:
            lines += ["", "rules and events disagree:"]
            lines += [f"  {line}" for line in lines_of(self.disagreements)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        told = "\n".join(str(self).split("\n")[:2])
        rows = ((str(key), hits) for key, hits in self.by_rule)
        more = "".join(map(html.paragraph, lines_of(self.disagreements)))
        return html.paragraph(told) + html.table(("id", "hits"), rows, len(self.by_rule)) + more


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _share(part: int, whole: int) -> str:
    return f" ({part / whole:.1%})".replace("%", " %") if whole else ""


def _shown(key: Id) -> str:
    text = " ".join(str(key).split("\n"))
    return text if len(text) <= _ID_LENGTH else f"{text[:_ID_LENGTH]}…"


class Tally:
    """Counts hits, batch by batch; several threads may."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events = 0
        self._matched = 0
        self._counts: list[tuple[IdTable, NDArray[np.int64]]] = []
        """Of each table of ids, which a matcher replaces at times, the hits by number."""

    def see(self, matches: Matches, events: int | None = None) -> None:
        """Count a batch; `events` of its places hold an event, by default all."""
        counts = np.bincount(matches.numbers, minlength=matches.table.count)
        matched = int(np.count_nonzero(np.diff(matches.offsets)))
        with self._lock:
            self._events += len(matches) if events is None else events
            self._matched += matched
            for at, (table, before) in enumerate(self._counts):
                if table is matches.table:
                    self._counts[at] = table, _sum(before, counts)
                    return
            self._counts.append((matches.table, counts))

    def summary(self, ids: Iterable[Id], disagreements: Iterable[Disagreement] = ()) -> Summary:
        """What has been counted, of these ids and of all others that had hits; with what disagrees."""
        hits = dict.fromkeys(ids, 0)
        with self._lock:
            for table, counts in self._counts:
                numbers = np.flatnonzero(counts)
                for key, count in zip(_ids(table, numbers), counts[numbers].tolist(), strict=True):
                    hits[key] = hits.get(key, 0) + count
            by_rule = sorted(hits.items(), key=lambda pair: (-pair[1], id_order(pair[0])))
            matches = sum(hits.values())
            return Summary(self._events, self._matched, matches, tuple(by_rule), tuple(disagreements))


def _sum(a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.int64]:
    """The sum of counts, of which one may be of more ids."""
    if len(a) < len(b):
        a, b = b, a
    # It is nobody else's: bincount has made it.
    a[: len(b)] += b
    return a


def _ids(table: IdTable, numbers: NDArray[np.int64]) -> Sequence[Id]:
    found: list[Id] = table.objects_of(numbers.astype(np.int32)).tolist()
    return found
