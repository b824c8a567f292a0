"""What a stream remembers beside Spark's checkpoint: which version of the table each batch is matched with.

    <checkpoint>/penstock/
      query.json               whose folder this is; folders of results are marked with its id
      run.json                 who runs the query now
      versions/
        000000000007.json      batch 7: the version, where it lies, and a mark to know it by

An entry is written before its batch is matched. Spark does a batch again if it stopped before it had noted
that the batch is done: then the entry tells which version to take, whatever has become of the table since.
Spark goes back one batch at most, so one entry would do; as many are kept as Spark keeps batches of its own
(spark.sql.streaming.minBatchesToRetain is 100), for those who set a checkpoint back by hand.
"""

import re
import zlib
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from penstock.errors import InputError
from penstock.spark.places import write_whole
from penstock.spark.tables import MANIFEST, MATCHER, Table

HOME: Final = "penstock"
"""The folder below a checkpoint that is ours."""

KEPT: Final = 100
"""Entries that are kept. More than the one that Spark may come back to."""

_ENTRY: Final = re.compile(r"(\d{12,})\.json")
_QUERY: Final = "query.json"
_RUN: Final = "run.json"


class Entry(msgspec.Struct, frozen=True):
    """What a batch is matched with."""

    batch: int
    version: int | None
    """None where the table is a folder of `penstock compile`."""
    path: str
    mark: int
    """See `mark_of`."""


class Query(msgspec.Struct, frozen=True):
    """A query, from its first start until its checkpoint is removed."""

    id: str
    spark: str | None = None
    """Spark's own id of it, known from the first batch on."""


class Run(msgspec.Struct, frozen=True):
    """A query from one start to its end."""

    id: str
    host: str
    pid: int


_Kind = TypeVar("_Kind", Entry, Query, Run)


class VersionsLog:
    """The versions of batches, a file for each. Only one process writes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def file(self, batch: int) -> Path:
        """Where the entry of a batch is."""
        return self.folder / f"{batch:012}.json"

    def find(self, batch: int) -> Entry | None:
        """What a batch is to be matched with, if that has been decided."""
        found = _read(self.file(batch), Entry)
        if found is not None and found.batch != batch:
            raise InputError(f"{self.file(batch)}: damaged: this is about batch {found.batch}")
        return found

    def write(self, entry: Entry) -> None:
        """Decide what a batch is matched with. It lasts when this returns."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(self.file(entry.batch), msgspec.json.encode(entry))
        except OSError as error:
            raise _unwritten(self.folder, error) from None

    def batches(self) -> list[int]:
        """The batches that there are entries for, in order."""
        if not self.folder.is_dir():
            return []
        named = (_ENTRY.fullmatch(entry.name) for entry in self.folder.iterdir())
        return sorted(int(found[1]) for found in named if found)

    def forget(self, batch: int) -> None:
        """Remove the entries of batches so long before this one that they do not come again."""
        for old in self.batches():
            if old <= batch - KEPT:
                self.file(old).unlink(missing_ok=True)


class Home:
    """The folder of a query: whose it is, who runs it, and the log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = VersionsLog(folder / "versions")

    def claim(self, new: str) -> Query:
        """Whose folder this is; if it is nobody's yet, that of a query with this new id."""
        query = self.query()
        if query is None:
            query = Query(new)
            self._write(_QUERY, query)
        return query

    def begin(self, run: Run) -> None:
        """Say that a run begins, which ends those before it."""
        self._write(_RUN, run)

    def query(self) -> Query | None:
        """Whose folder this is, if it is somebody's."""
        return _read(self.folder / _QUERY, Query)

    def check(self, run: Run, spark: str | None) -> None:
        """Raise InputError unless this run is the latest, of the query that Spark knows by this id."""
        now = _read(self.folder / _RUN, Run)
        query = self.query()
        if now is None or query is None:
            raise InputError(f"{self.folder}: removed while the query ran; start it from a new checkpoint")
        if now != run:
            raise InputError(
                f"{self.folder}: another run of this query was started later (process {now.pid} on "
                f"{now.host}), so this one ends: two queries cannot share a checkpoint"
            )
        if spark is None:
            return
        if query.spark is None:
            self._write(_QUERY, Query(query.id, spark))
        elif query.spark != spark:
            raise InputError(
                f"{self.folder}: this is the log of another query, whose checkpoint is gone: remove this "
                "folder, and have results written to new ones"
            )

    def _write(self, name: str, what: Query | Run) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(self.folder / name, msgspec.json.encode(what))
        except OSError as error:
            raise _unwritten(self.folder, error) from None


def reopened(entry: Entry, file: Path) -> Table:
    """The version that a batch was to be matched with; or an error that says that it is gone."""
    try:
        table = Table.open(entry.path)
        why = f"{entry.path}: it is not the same any more" if mark_of(table) != entry.mark else None
    except InputError as error:
        why = str(error)
    if why is None:
        return table
    named = "the compiled table" if entry.version is None else f"version {entry.version} of the table"
    raise InputError(
        f"batch {entry.batch} is done again, and was to be matched with {named}, which cannot be had "
        f"({why}): put it back, or remove {file} to have the batch matched with the latest version"
    )


def mark_of(table: Table) -> int:
    """A checksum of a version: versions are numbered anew where somebody has removed all of them."""
    mark = 0
    # These have the checksums of everything else.
    for file in (Path(table.path) / MANIFEST, *(folder / MATCHER for folder in table.folders)):
        if file.exists():
            mark = zlib.crc32(file.read_bytes(), mark)
    return mark


def _read(file: Path, kind: type[_Kind]) -> _Kind | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{file}: {(error.strerror or str(error)).lower()}") from None
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise InputError(f"{file}: damaged: {error}") from None


def _unwritten(folder: Path, error: OSError) -> InputError:
    return InputError(f"{folder}: cannot be written: {(error.strerror or str(error)).lower()}")
