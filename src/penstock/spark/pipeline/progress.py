"""What a pipeline tells of itself: meanwhile a line, in the end a summary. Others ask Spark, and print."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import unquote

import msgspec

EVENTS: Final = "penstock_events"
"""The name under which a stream observes its events."""


class Summary(msgspec.Struct, kw_only=True):
    """What was done. Seconds are those of the job, without the time that Spark takes to start."""

    name: str
    kind: Literal["batch", "stream"]
    ended: Literal["finished", "interrupted", "failed"] = "finished"
    batches: int = 0
    events: int = 0
    routed: int = 0
    matches: int = 0
    malformed: int = 0
    """Lines of the source that were none of its schema."""
    rejected: int = 0
    """Subscriptions that are none, where that is allowed."""
    first_rejected: str | None = None
    missed: int = 0
    """How often events of the network may have been missed."""
    is_cut_off: bool = False
    """Whether a batch was running when it was stopped."""
    seconds: float = 0.0
    events_per_s: float = 0.0
    table: str = ""
    table_version: int | None = None
    sinks: list[str] = []
    checkpoint: str | None = None
    resumes: bool = True
    """Whether another run can go on from the checkpoint."""
    error: str | None = None

    def lines(self) -> list[str]:
        """The summary for people."""
        how = {"finished": "finished", "interrupted": "interrupted", "failed": "failed"}[self.ended]
        batches = f"{_count(self.batches, 'batch', 'es')}, " if self.kind == "stream" else ""
        version = "" if self.table_version is None else f" (version {self.table_version})"
        found = [
            f"{self.name}: {how} after {self.seconds:,.1f} s: {batches}{_count(self.events, 'event')} in, "
            f"{_count(self.routed, 'row')} out, {_count(self.matches, 'match', 'es')}, "
            f"{self.events_per_s:,.0f} events/s",
        ]
        if self.malformed:
            lines = "line was" if self.malformed == 1 else "lines were"
            found.append(f"malformed: {self.malformed:,} {lines} routed as far as Spark could read")
        if self.rejected:
            why = "" if self.first_rejected is None else f"; the first, {self.first_rejected}"
            found.append(f"quarantined: {_count(self.rejected, 'subscription')}{why}")
        if self.missed:
            times = "once" if self.missed == 1 else f"{self.missed:,} times"
            found.append(f"missed: the connection was lost so that events may not have come, {times}")
        if self.is_cut_off:
            found.append("the last batch did not end in time: the next run does it again")
        # Neither is known of a run that was stopped before it began.
        if self.table:
            found.append(f"table: {self.table}{version}")
        found += [f"results: {sink}" for sink in self.sinks]
        if self.checkpoint is not None:
            next_run = "the next run goes on from there" if self.resumes else "the next run needs another"
            found.append(f"checkpoint: {self.checkpoint}; {next_run}")
        return found


def _count(number: int, what: str, plural: str = "s") -> str:
    """A number of something, in words."""
    return f"{number:,} {what}{'' if number == 1 else plural}"


class Tally:
    """Batches of a stream, added up from what Spark reports of each."""

    def __init__(self) -> None:
        self.batches = 0
        self.events = 0
        self.malformed = 0
        self.last: int | None = None
        """The number of the last batch that is done."""
        self.rows_per_s = 0.0
        """Of that batch."""
        self.since: datetime | None = None
        """When it began: all that the source had to offer until then is done, if it was not too much."""

    def missed(self, report: Mapping[str, Any]) -> bool:
        """Whether there were others between this report and the last."""
        return self.last is not None and int(report["batchId"]) > self.last + 1

    def add(self, report: Mapping[str, Any]) -> bool:
        """Take a report; say whether it was of a batch that had not been counted."""
        number = int(report["batchId"])
        durations = report.get("durationMs") or {}
        # Spark also reports now and then that there was nothing to do.
        if "addBatch" not in durations or (self.last is not None and number <= self.last):
            return False
        observed = (report.get("observedMetrics") or {}).get(EVENTS)
        # Without it: what was read counts once for each time that it was read.
        events = int(observed["n"]) if observed is not None else int(report.get("numInputRows") or 0)
        self.last = number
        self.batches += 1
        self.events += events
        if observed is not None and "malformed" in observed:
            self.malformed += int(observed["malformed"])
        took = int(durations.get("triggerExecution") or 0)
        self.rows_per_s = events * 1000 / took if took else 0.0
        self.since = datetime.fromisoformat(str(report["timestamp"]).replace("Z", "+00:00"))
        return True

    def lag_s(self, now: datetime, *, busy: bool) -> float | None:
        """How old the results are: seconds since the last batch began that is done.

        While a batch runs, or waits for its time, it grows; it is 0 where the source has nothing more. Where
        a batch may take only so much, more may be waiting: see `waiting_files`.
        """
        if not busy:
            return 0.0
        return None if self.since is None else max(0.0, (now - self.since).total_seconds())


def stream_line(tally: Tally, lag_s: float | None, waiting: str | None) -> str:
    """How far a stream is, in a line."""
    if tally.last is None:
        return "waiting for the first batch" if waiting is None else f"in the first batch, {waiting}"
    parts = [
        f"batch {tally.last:,}",
        f"{tally.events:,} events",
        f"{tally.rows_per_s:,.0f} rows/s",
        "lag unknown" if lag_s is None else f"lag {lag_s:,.1f} s",
    ]
    return ", ".join([*parts, waiting] if waiting else parts)


def files_waiting(count: int) -> str:
    """How many files no batch has taken, in words."""
    return f"{_count(count, 'file')} waiting"


def not_connected(seconds: float) -> str:
    """That there is no broker, in words."""
    return f"not connected for {max(0.0, seconds):,.0f} s"


def batch_line(done: int, tasks: int, seconds: float) -> str:
    """How far a batch is, in a line."""
    return f"{done:,} of {tasks:,} tasks, {seconds:,.0f} s" if tasks else f"planning, {seconds:,.0f} s"


class Backlog:
    """Files of a folder that no batch has taken yet, by the log that Spark keeps of those it has."""

    def __init__(self, folder: Path, checkpoint: Path) -> None:
        self._folder = folder
        self._log = checkpoint / "sources" / "0"
        self._read: set[str] = set()
        self._taken: set[str] = set()

    def waiting(self) -> int | None:
        """How many there are; None where that cannot be told."""
        try:
            for entry in self._log.iterdir():
                if entry.name not in self._read and not entry.name.startswith("."):
                    self._taken.update(_paths(entry.read_bytes()))
                    self._read.add(entry.name)
            there = {
                entry.name
                for entry in self._folder.iterdir()
                if not entry.name.startswith((".", "_")) and entry.is_file()
            }
        except (OSError, msgspec.MsgspecError):
            return None
        return len(there - self._taken)


def _paths(log: bytes) -> list[str]:
    """The names of the files in a log: a line with its version, and then an object for each."""
    lines = log.splitlines()[1:]
    return [unquote(str(msgspec.json.decode(line)["path"]).rpartition("/")[2]) for line in lines if line]


def now() -> datetime:
    """The time, as Spark reports it."""
    return datetime.now(UTC)
