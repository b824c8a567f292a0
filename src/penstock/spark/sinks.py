"""Where the results of a stream go. A sink is anything with `write(routed, batch)`.

A batch is handed over again if the query stopped after it was written and before Spark had noted that. Sinks
that have a folder for each batch put the new one in the place of the old: every event is there exactly once.
The others give it at least once; whoever reads can tell by the batch's number what came twice.
"""

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Literal, Protocol, runtime_checkable

import msgspec

from penstock.errors import InputError, UnsupportedValueError
from penstock.matching.folders import new_folder, put_in_place
from penstock.model.events import Unsupported
from penstock.spark.events import attributes_of
from penstock.spark.places import flush_files, for_spark, local_folder, write_whole

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

Delivery = Literal["exactly once", "at least once"]

BATCH: Final = "batch_id"
"""The column that readers of a sink's folder see the number of the batch in."""

_MARK: Final = "_penstock.json"
"""Spark does not read names with an underscore as data."""


@runtime_checkable
class Sink(Protocol):
    """Takes the results of batches."""

    def write(self, routed: "DataFrame", batch: int) -> None:
        """Write the results of a batch; return when they last."""


class Owner(msgspec.Struct, frozen=True):
    """The query whose results a folder has."""

    query: str
    checkpoint: str


class _FolderSink:
    """A folder with a folder for each batch: `batch_id=7`."""

    delivery: ClassVar[Delivery] = "exactly once"
    format: ClassVar[str]

    def __init__(
        self,
        folder: str | PathLike[str],
        *,
        partition_by: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = str(folder)
        self._local = local_folder(folder)
        self._partition_by = [partition_by] if isinstance(partition_by, str) else list(partition_by)
        self._options = dict(options or {})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.folder!r})"

    @property
    def place(self) -> str:
        """The folder, by the one name that it has."""
        return self.folder.rstrip("/") if self._local is None else str(self._local)

    def prepare(self, owner: Owner, schema: "StructType") -> None:
        """Make the folder this query's; raise InputError if it is another's, or columns cannot be written."""
        names = {field.name.lower() for field in schema.fields}
        if BATCH in names:
            raise InputError(
                f"{self.folder}: the results have a column {BATCH!r}, which is what the folders of batches "
                "are called: rename it"
            )
        for name in self._partition_by:
            if name.lower() not in names:
                raise InputError(f"{self.folder}: partition_by: the results have no column {name!r:.80}")
        if self._local is not None:
            _claim(self._local, owner)

    def write(self, routed: "DataFrame", batch: int) -> None:
        """Have the folder of a batch hold these results and nothing else."""
        if self._local is None:
            # Here readers may see a part of a batch: object stores cannot rename a folder.
            self._save(routed, f"{self.place}/{BATCH}={batch}")
            return
        try:
            for left in self._local.glob(f".{BATCH}=*"):
                shutil.rmtree(left, ignore_errors=True)
            target = self._local / f"{BATCH}={batch}"
            # It begins with a dot until it is whole: nobody takes that for data.
            written = new_folder(target)
            try:
                self._save(routed, for_spark(written))
                flush_files(written)
                put_in_place(written, target)
            finally:
                shutil.rmtree(written, ignore_errors=True)
        except OSError as error:
            raise _unwritten(self.folder, error) from None

    def _save(self, routed: "DataFrame", place: str) -> None:
        writer = routed.write.format(self.format).mode("overwrite").options(**self._options)
        if self._partition_by:
            writer = writer.partitionBy(*self._partition_by)
        writer.save(place)


class ParquetSink(_FolderSink):
    """Parquet files, each event exactly once: `spark.read.parquet(folder)` has also the column `batch_id`.

    Readers see whole batches only, in a folder of this machine or one that is mounted; in an object store
    (`s3a://…`) a batch that is being written, or written again, may be seen in part. `partition_by` are
    columns to make folders of below each batch; `options` are those of Spark's writer. Where versions of a
    table with and without subscribers follow each other, read with `mergeSchema`.
    """

    format = "parquet"


class JsonLinesSink(_FolderSink):
    """Files with a line of JSON for each row, each exactly once; for the rest see `ParquetSink`."""

    format = "json"


class ConsoleSink:
    """Shows the first rows of each batch."""

    delivery: ClassVar[Delivery] = "at least once"

    def __init__(self, rows: int = 20, *, truncate: bool | int = True) -> None:
        self.rows = rows
        self.truncate = truncate

    def write(self, routed: "DataFrame", batch: int) -> None:
        """Print them."""
        sys.stdout.write(f"batch {batch}\n")
        routed.show(self.rows, truncate=self.truncate)


class ForeachSink:
    """Calls a function with the results of each batch and its number: with some of them more than once."""

    delivery: ClassVar[Delivery] = "at least once"

    def __init__(self, function: "Callable[[DataFrame, int], object]") -> None:
        self.function = function

    def write(self, routed: "DataFrame", batch: int) -> None:
        """Call it."""
        self.function(routed, batch)


class PenstockSink:
    """Publishes each row as an event of a network; `options` are those of `format("penstock")`.

    An event has the ids that it matched as a list; with `output="rows"` there is an event for each match.
    """

    delivery: ClassVar[Delivery] = "at least once"

    def __init__(self, url: str, **options: str) -> None:
        self.url = url
        self._options = options

    def prepare(self, owner: Owner, schema: "StructType") -> None:
        """Raise InputError unless rows can be events."""
        unsupported: Unsupported = "skip" if self._options.get("unsupported") == "skip" else "refuse"
        try:
            attributes_of(schema, unsupported)
        except UnsupportedValueError as error:
            raise InputError(f"{self.url}: rows cannot be published: {error}") from None

    def write(self, routed: "DataFrame", batch: int) -> None:
        """Publish them; brokers have acknowledged them when this returns."""
        routed.write.format("penstock").options(url=self.url, **self._options).mode("append").save()


def prepare(sinks: Sequence[Sink], owner: Owner, schema: "StructType") -> None:
    """Have sinks look at what they will be given, before there is any."""
    places = [sink.place for sink in sinks if isinstance(sink, _FolderSink)]
    for place in places:
        if places.count(place) > 1:
            raise InputError(f"{place}: two sinks cannot share a folder")
    for sink in sinks:
        if isinstance(sink, _FolderSink | PenstockSink):
            sink.prepare(owner, schema)


def _claim(folder: Path, owner: Owner) -> None:
    """Mark a folder as that of a query; or raise InputError if it is another's."""
    mark = folder / _MARK
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if mark.exists():
            found = msgspec.json.decode(mark.read_bytes(), type=Owner)
            if found.query != owner.query:
                raise InputError(
                    f"{folder}: here are the results of another query (with the checkpoint "
                    f"{found.checkpoint}), and its batches have the same numbers: give each its own folder"
                )
            return
        there = min((entry.name for entry in folder.iterdir() if entry.name[0] not in "._"), default=None)
        if there is not None:
            raise InputError(
                f"{folder}: there is something else here ({there!r:.80}), which readers would take for "
                "results: give a folder that is new or empty"
            )
        write_whole(mark, msgspec.json.encode(owner))
    except OSError as error:
        raise _unwritten(str(folder), error) from None
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise InputError(f"{mark}: damaged: {error}") from None


def _unwritten(folder: str, error: OSError) -> InputError:
    return InputError(f"{folder}: cannot be written: {(error.strerror or str(error)).lower()}")
