"""The pipeline part of the demo: Spark routes the flights as they come out of the network.

It runs as processes of their own (see `demo_stream`), a Python program and the JVM below it, from before the
first broker is started: a JVM takes seconds. In the end its results are held against the plain matcher's.
"""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.cli.demo_scene import ROW
from penstock.cli.demo_stream import ADDED, IDS, ROUTED, Batch, Failed, Message, Ready, Saved, batch_folders
from penstock.errors import MissingExtraError
from penstock.filters.parsing import parse
from penstock.matching.matcher import Matcher
from penstock.workloads.flights import subscriptions

if TYPE_CHECKING:
    import pyarrow as pa

_PATIENCE: Final = 180.0
"""Seconds until it has done what it was asked to: kernels may have to be compiled for it."""
_QUIET: Final = 15.0
"""Seconds without a batch after which what is missing is taken to be lost."""
_END: Final = 20.0
_EVERY: Final = 1.0
"""Seconds between two lines on batches."""
_POLL: Final = 0.05
_TAIL: Final = 12

_TYPES: Final = {"int64": "bigint", "string": "string", "timestamp[s, tz=UTC]": "timestamp"}
"""The columns of the flights in Spark's words."""

Ids = Sequence[Sequence[str]]
"""For each flight, what it matches."""


def check_spark() -> None:
    """Raise MissingExtraError where Spark is not installed, or there is no Java for it."""
    for package in ("pyspark", "pandas"):
        if find_spec(package) is None:
            raise MissingExtraError(f"Spark needs {package}: pip install 'penstock[spark]'")
    from penstock.spark.java import find_java

    find_java()


class Routed(msgspec.Struct, frozen=True):
    """The results of a batch as they were found in its folder."""

    batch: int
    version: int | None
    """None if nobody has told of this batch."""
    rows: Sequence[int]
    ids: Ids


class Findings(msgspec.Struct, frozen=True):
    """What came of comparing results with the matcher's."""

    flights: int
    """Different ones that are there."""
    excused: int
    """Those that are not, and were under way when the broker was killed."""
    wrong: Sequence[str]


def expected(table: "pa.Table") -> dict[int, Ids]:
    """What each flight matches, by the plain matcher, in each version of the subscriptions."""
    found = {}
    sample = list(subscriptions())
    for version, known in enumerate((sample, [*sample, ADDED]), 1):
        matcher = Matcher((one.id, one.filter) for one in known)
        found[version] = matcher.match_batch(table).to_arrow(ordered=True).to_pylist()
    return found


def compare(
    results: Iterable[Routed], wanted: Mapping[int, Ids], count: int, is_excused: Callable[[int], bool]
) -> Findings:
    """Hold results against what each version gives for each of the flights: each once, with the same ids."""
    seen: Counter[int] = Counter()
    wrong: list[str] = []
    for result in results:
        seen.update(result.rows)
        by_version = wanted.get(result.version or 0)
        if by_version is None:
            wrong.append(f"batch {result.batch} has results of version {result.version}, which is not known")
            continue
        pairs = zip(result.rows, result.ids, strict=True)
        other = [row for row, ids in pairs if not 0 <= row < count or list(ids) != list(by_version[row])]
        if other:
            wrong.append(
                f"batch {result.batch}: {len(other):,} flights, such as row {other[0]:,}, have other ids "
                f"than the matcher gives by version {result.version}"
            )
    twice = sorted(row for row, times in seen.items() if times > 1)
    if twice:
        wrong.append(f"{len(twice):,} flights, such as row {twice[0]:,}, were routed twice")
    missing = [row for row in range(count) if row not in seen]
    lost = [row for row in missing if not is_excused(row)]
    if lost:
        wrong.append(f"{len(lost):,} flights, such as row {lost[0]:,}, never came, without excuse")
    return Findings(len(seen), len(missing) - len(lost), wrong)


class Progress:
    """What the pipeline has told, and how that is said."""

    def __init__(self) -> None:
        self.is_ready = False
        self.failure: str | None = None
        self.versions: dict[int, int] = {}
        """How many subscriptions each version of the table has."""
        self.batches: dict[int, Batch] = {}
        self.last_batch = 0.0
        """When the last was told of, by the system's clock."""
        self._untold: list[Message] = []
        self._told = -_EVERY

    @property
    def flights(self) -> int:
        """How many have been routed."""
        return sum(batch.flights for batch in self.batches.values())

    def take(self, message: Message) -> None:
        """Take note of what it tells."""
        match message:
            case Ready():
                self.is_ready = True
            case Saved():
                self.versions[message.version] = message.ids
            case Batch():
                self.batches[message.batch] = message
                self.last_batch = time.monotonic()
            case Failed():
                self.fail(message.error)
        self._untold.append(message)

    def fail(self, why: str) -> None:
        """It does not go on; the first reason is what counts."""
        self.failure = self.failure or why

    def lines(self, now: float, *, over: bool = False) -> Iterator[str]:
        """What there is to say: of batches not more than once a second, unless it is over."""
        untold, self._untold = self._untold, []
        batches: list[Batch] = []
        for message in untold:
            if isinstance(message, Batch):
                if batches and batches[-1].version != message.version:
                    yield self._line(batches, now)
                    batches = []
                # Spark begins with a batch of nothing.
                batches += [message] if message.flights else []
                continue
            text = _told(message)
            if text and batches:
                yield self._line(batches, now)
                batches = []
            if text:
                yield text
        if batches and now < self._told + _EVERY and not over:
            self._untold = [*batches]
        elif batches:
            yield self._line(batches, now)

    def _line(self, batches: list[Batch], now: float) -> str:
        self._told = now
        flights = sum(one.flights for one in batches)
        matches = sum(one.matches for one in batches)
        rate = flights / max(sum(one.seconds for one in batches), 0.001)
        return (
            f"{_span(batches)}, {flights:,} flights routed by version {batches[0].version}, "
            f"{matches:,} matches, {rate:,.0f} flights a second"
        )

    def summary(self, findings: Findings, count: int, began: float) -> Iterator[str]:
        """What it has done with so many flights since the first of them, in two lines."""
        batches = [one for one in self.batches.values() if one.flights]
        parts = []
        for version, known in self.versions.items():
            own = [one for one in batches if one.version == version]
            parts += [f"{_span(own)} by version {version} ({known} subscriptions)"] if own else []
        yield (
            f"The pipeline routed {findings.flights:,} of {count:,} flights, "
            f"{sum(one.wanted for one in batches):,} of them to somebody, with "
            f"{sum(one.matches for one in batches):,} matches: {', '.join(parts)}."
        )
        gone = findings.excused
        every = f"{gone:,} flights were lost around the kill; every other" if gone else "every flight"
        verdict = f"{every} is there once, with the ids that the plain matcher gives"
        busy = sum(one.seconds for one in batches)
        yield (
            f"From the first flight to its last batch {max(self.last_batch - began, 0.0):.1f} s, "
            f"{busy:.1f} s of them for routing; "
            f"{'this is not what the plain matcher gives' if findings.wrong else verdict}."
        )


def _told(message: Message) -> str | None:
    if isinstance(message, Saved) and message.version > 1:
        return (
            f"version {message.version} of its table is saved, with {message.ids} subscriptions: "
            "the next batch has it"
        )
    if isinstance(message, Failed):
        return f"it has failed: {message.error.partition(chr(10))[0]}"
    return None


def _span(batches: Sequence[Batch]) -> str:
    first, last = batches[0].batch, batches[-1].batch
    return f"batch {first}" if first == last else f"batches {first} to {last}"


class Pipeline:
    """The processes, and what they leave."""

    def __init__(self, folder: Path, table: "pa.Table") -> None:
        self._folder = folder / "pipeline"
        self._folder.mkdir()
        self._log = folder / "pipeline.log"
        self._expected = expected(table)
        self._count = table.num_rows
        self.progress = Progress()
        self._findings: Findings | None = None
        self._messages: deque[Message] = deque()
        self._is_ending = False
        with self._log.open("wb") as log:
            # In a session of its own: Ctrl-C is for us, and we end it, with all that it has started.
            self._process = subprocess.Popen(  # noqa: S603 - our own program, with arguments of our own
                [sys.executable, "-m", "penstock.cli.demo_stream", str(self._folder), _columns(table)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read, name="penstock-pipeline", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The process, which leads the session of all of them."""
        return self._process.pid

    # What it is asked to do

    async def subscribe(self, urls: Sequence[str]) -> None:
        """Have it subscribe at the first of these brokers; return when it has, or has failed."""
        self._ask(f"subscribe {','.join(urls)}")
        await self._until(lambda: self.progress.is_ready, "it has not subscribed")

    def add_version(self) -> None:
        """Have it save the second version of the table."""
        self._ask("add")

    async def has_version(self, version: int) -> None:
        """Wait until a version is saved."""
        await self._until(lambda: version in self.progress.versions, f"version {version} is not there")

    async def arrived(self) -> None:
        """Wait until all flights have been routed, or nothing comes any more."""
        began = time.monotonic()
        while self.progress.failure is None and self.progress.flights < self._count:
            if time.monotonic() > max(began, self.progress.last_batch) + _QUIET:
                return
            await asyncio.sleep(_POLL)
            self.take()

    async def stop(self) -> None:
        """End it, and wait until it has."""
        self._is_ending = True
        self._ask("stop")
        until = time.monotonic() + _END
        # The JVM ends after the program has.
        while self._process.poll() is None or members(self.pid):
            if time.monotonic() > until:
                self.progress.fail(f"it has not ended {_END:g} s after it was asked to")
                break
            await asyncio.sleep(_POLL)
        self.end_now()

    def end_now(self) -> None:
        """Leave no process behind; this works without an event loop, too."""
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        if self._process.stdin.closed:
            return
        self._is_ending = True
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        until = time.monotonic() + _END
        while (left := members(self.pid)) and time.monotonic() < until:
            # Spark's workers are in a group of their own; and one that is ending may still write.
            for member in left:
                with suppress(ProcessLookupError):
                    os.kill(member, signal.SIGKILL)
            time.sleep(_POLL)
        self._process.wait()
        self._reader.join(_END)
        with suppress(OSError):
            self._process.stdin.close()

    def _ask(self, line: str) -> None:
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        # If nobody reads it any more, that is noticed elsewhere.
        with suppress(OSError):
            self._process.stdin.write(f"{line}\n".encode())
            self._process.stdin.flush()

    async def _until(self, is_done: Callable[[], bool], otherwise: str) -> None:
        until = time.monotonic() + _PATIENCE
        while not is_done() and self.progress.failure is None:
            if time.monotonic() > until:
                self.progress.fail(f"{otherwise} after {_PATIENCE:g} s")
            await asyncio.sleep(_POLL)
            self.take()

    # What it tells

    def _read(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        with self._process.stdout as out:
            for line in out:
                self._messages.append(msgspec.json.decode(line, type=Message))
        if not self._is_ending:
            self._messages.append(Failed(f"it ended by itself; it said:\n{self._last_words()}"))

    def take(self) -> None:
        """Take note of what it has told since the last time."""
        while self._messages:
            self.progress.take(self._messages.popleft())

    # What came of it

    def check(self, is_excused: Callable[[int], bool]) -> list[str]:
        """Compare its results with the matcher's; give what must not be."""
        self.take()
        if self.progress.failure is not None:
            return [f"the pipeline failed: {self.progress.failure}"]
        self._findings = compare(self._results(), self._expected, self._count, is_excused)
        return [f"pipeline: {line}" for line in self._findings.wrong]

    def summary(self, began: float) -> list[str]:
        """What it has done since then, if it has been checked."""
        if self._findings is None:
            return []
        return list(self.progress.summary(self._findings, self._count, began))

    def _results(self) -> Iterator[Routed]:
        import pyarrow.parquet as pq

        for batch, folder in batch_folders(self._folder / ROUTED).items():
            told = self.progress.batches.get(batch)
            table = pq.read_table(folder, columns=[ROW, IDS], partitioning=None)
            version = None if told is None else told.version
            yield Routed(batch, version, table[ROW].to_pylist(), table[IDS].to_pylist())

    def _last_words(self) -> str:
        lines = self._log.read_bytes().decode(errors="replace").splitlines()
        return "\n".join(f"  {line}" for line in lines[-_TAIL:]) or "  nothing"


def _columns(table: "pa.Table") -> str:
    """The columns that the subscriptions name, and the one by which a flight is known again."""
    named = {
        name
        for one in (*subscriptions(), ADDED)
        for f in parse(one.filter).filters
        for box in f.boxes()
        for name in box.conditions
    }
    columns = [f"{field.name} {_TYPES[str(field.type)]}" for field in table.schema if field.name in named]
    return ", ".join([*columns, f"{ROW} bigint"])


def members(session: int) -> list[int]:
    """The processes of a session, where the system lists them; none elsewhere."""
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # After the name, in parentheses: state, parent, group, session. Zombies have ended.
            state, _, _, its_session = file.read_bytes().rpartition(b")")[2].split()[:4]
            if int(its_session) == session and state != b"Z":
                found.append(int(file.parent.name))
    return found
