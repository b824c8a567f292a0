"""Subscriptions from DataFrames: checked, compiled, and saved as a version of a table."""

import shutil
from collections.abc import Iterator
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import msgspec

from penstock.errors import InputError, PenstockError
from penstock.filters.parsing import LANGUAGES, Language
from penstock.matching.computed import plain_names
from penstock.spark.choices import check_choice
from penstock.spark.encoding import (
    Joined,
    Rejected,
    cut,
    encoded,
    joined,
    pack,
    pieces,
    refusal,
    unpack,
    write_block,
)
from penstock.spark.expecting import SAMPLE
from penstock.spark.places import write_whole
from penstock.spark.python import ready
from penstock.spark.shipping import block_name
from penstock.spark.tables import REJECTED, BlockFacts, Table, checked_folder, new_version, publish

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

Invalid = Literal["refuse", "quarantine"]
Compile = Literal["auto", "driver", "executors"]

DRIVER_MAX: Final = 4_000_000
"""More rows than these are compiled on the executors: the driver would need too much memory for them."""

BLOCK: Final = 2_000_000
"""Rows in a block that is compiled on an executor. Fewer, larger blocks are matched faster."""

_REJECTED_KEPT: Final = 1_000
"""Rejected rows of each block whose reasons come back from executors."""

_SOME: Final = 256
"""Rows of subscriptions by which their columns are told, in words."""


def save_table(
    subscriptions: "DataFrame",
    folder: str | PathLike[str],
    *,
    language: Language = "sql",
    blocks: int | None = None,
    compile_on: Compile = "auto",
    invalid: Invalid = "refuse",
    profile: "DataFrame | None" = None,
) -> Table:
    """Compile subscriptions (id, filter and, if there is one, subscriber) into a new version of a table.

    The folder has to be one that the driver, and for `compile_on="executors"` also they, can write to.
    `blocks` is into how many parts to cut it, for a grid; by default one, or one for every two million rows
    where executors compile. With `invalid="quarantine"`, rows that are no subscriptions are left out, and
    listed in `rejected.jsonl`. `profile`, as `penstock.spark.profile` gives it, tells what events look like.
    """
    check_static(subscriptions)
    checked_columns(subscriptions.schema)
    check_choice("language", language, LANGUAGES)
    check_choice("invalid", invalid, ("refuse", "quarantine"))
    check_choice("compile_on", compile_on, ("auto", "driver", "executors"))
    if blocks is not None and blocks < 1:
        raise InputError(f"a table has at least one block, not {blocks}")
    home = checked_folder(folder)
    sample = None
    if profile is not None:
        from penstock.spark.analysis.distributions import sample_events

        sample = sample_events(profile, SAMPLE, 0)
    if compile_on == "auto":
        rows = subscriptions.count()
        compile_on = "driver" if rows <= DRIVER_MAX else "executors"
        if compile_on == "executors":
            blocks = blocks or -(-rows // BLOCK)
    written = new_version(home)
    try:
        make = _on_driver if compile_on == "driver" else _on_executors
        made = make(subscriptions, written, language, blocks or 1, invalid, sample)
        if made.rejected:
            lines = b"".join(msgspec.json.encode(row) + b"\n" for row in made.rejected)
            write_whole(written / REJECTED, lines)
        has_subscribers = "subscriber" in subscriptions.columns
        return publish(
            written,
            home,
            made.names,
            made.blocks,
            subscribers=has_subscribers,
            rejected=made.rejected_count,
        )
    finally:
        shutil.rmtree(written, ignore_errors=True)


class _Made(NamedTuple):
    names: list[str]
    blocks: list[BlockFacts]
    rejected: list[Rejected]
    rejected_count: int


def check_subscriptions(subscriptions: "DataFrame", *, language: Language = "sql") -> "DataFrame":
    """The rows that are no subscriptions: id, filter, and what is wrong (`error`). The quarantine."""
    checked_columns(subscriptions.schema)
    check_choice("language", language, LANGUAGES)
    schema = "id string, filter string, error string"
    ready(subscriptions.sparkSession)
    return _chosen(subscriptions).mapInArrow(partial(_rejected_rows, language), schema)


def check_static(subscriptions: object) -> None:
    """Raise InputError unless these are a DataFrame whose rows are there."""
    if not hasattr(subscriptions, "mapInArrow"):
        raise InputError(
            "subscriptions are a DataFrame (id, filter), a saved table or its folder, not "
            f"{type(subscriptions).__name__}"
        )
    if subscriptions.isStreaming:  # type: ignore[attr-defined]
        raise InputError(
            "subscriptions come as a static DataFrame or a saved table; for those that change while a query "
            "runs, save versions of a table and use route_stream"
        )


def checked_columns(schema: "StructType") -> None:
    """Raise InputError unless a DataFrame has the columns of subscriptions."""
    lower = [field.name.lower() for field in schema.fields]
    for name in ("id", "filter", "subscriber"):
        if lower.count(name) > 1:
            raise InputError(
                f"subscriptions have the column {name!r} twice, as Spark reads names: rename one"
            )
    kinds = {field.name: field.dataType.simpleString() for field in schema.fields}
    for name in ("id", "filter"):
        if name not in kinds:
            have = ", ".join(kinds)[:_SOME]
            raise InputError(f"subscriptions have a column {name!r}, which is missing; there are: {have}")
    wanted = {
        "id": ("string", "tinyint", "smallint", "int", "bigint"),
        "filter": ("string",),
        "subscriber": ("string",),
    }
    for name, allowed in wanted.items():
        if name in kinds and kinds[name] not in allowed:
            raise InputError(
                f"the column {name!r} of subscriptions is of type {kinds[name]}; it has to be "
                f"{' or '.join(allowed)}: cast it"
            )


def _chosen(subscriptions: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

    names = [name for name in ("id", "filter", "subscriber") if name in subscriptions.columns]
    # A dot in a name would mean a field.
    return subscriptions.select(*(F.col(f"`{name}`") for name in names))


def _on_driver(
    subscriptions: "DataFrame",
    folder: Path,
    language: Language,
    blocks: int,
    invalid: Invalid,
    sample: "pa.Table | None",
) -> _Made:
    """Have workers parse, and compile what they give here."""
    ready(subscriptions.sparkSession)
    packed = _chosen(subscriptions).mapInArrow(partial(_packed_pieces, language), "piece binary").toArrow()
    found = [unpack(data.as_py()) for data in packed.column("piece")]
    # Where there are no rows, it is still known whether they would have subscribers.
    found = found or [encoded((), language, subscribers="subscriber" in subscriptions.columns)]
    rejected = [row for piece in found for row in piece.rejected]
    if rejected and invalid == "refuse":
        raise refusal(rejected, sum(len(piece.ids) for piece in found) + len(rejected))
    whole = joined(found)
    parts = [whole] if blocks == 1 else cut(whole, blocks)
    made = [write_block(part, folder / block_name(at), sample) for at, part in enumerate(parts)]
    return _Made(plain_names(whole.columns.names), made, rejected, len(rejected))


def _on_executors(
    subscriptions: "DataFrame",
    folder: Path,
    language: Language,
    blocks: int,
    invalid: Invalid,
    sample: "pa.Table | None",
) -> _Made:
    """Have each worker compile a range of ids and write it into the folder, which all share."""
    from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

    ready(subscriptions.sparkSession)
    chosen = _chosen(subscriptions).withColumn("id", F.col("id").cast("string"))
    cut_by_id = chosen.repartitionByRange(blocks, F.col("id"))
    task = partial(_written_block, str(folder), language, sample)
    answers = [
        msgspec.msgpack.decode(row.report, type=_Report)
        for row in cut_by_id.mapInArrow(task, "report binary").collect()
    ]
    answers.sort(key=lambda answer: answer.number)
    errors = [answer.error for answer in answers if answer.error]
    if errors:
        raise InputError(errors[0])
    rejected = [row for answer in answers for row in answer.rejected]
    count = sum(answer.rejected_count for answer in answers)
    if rejected and invalid == "refuse":
        raise refusal(rejected, sum(answer.rows for answer in answers), count)
    made = [answer.block for answer in answers if answer.block is not None]
    missing = [block.folder for block in made if not (folder / block.folder).is_dir()]
    if missing:
        raise InputError(
            f"{folder}: executors wrote the block {missing[0]!r} where the driver does not see it: "
            "give a folder that all share, or compile_on='driver'"
        )
    if not made:
        return _on_driver(subscriptions.limit(0), folder, language, 1, invalid, sample)._replace(
            rejected=rejected, rejected_count=count
        )
    # Of a task that was run twice, the other's folder is no part of the table.
    for entry in folder.iterdir():
        if entry.name not in {block.folder for block in made}:
            shutil.rmtree(entry, ignore_errors=True)
    names = sorted({name for answer in answers for name in answer.names})
    return _Made(names, made, rejected, count)


# In workers


class _Report(msgspec.Struct):
    """What an executor tells of its block."""

    number: int
    rows: int
    names: list[str]
    rejected: list[Rejected]
    rejected_count: int
    block: BlockFacts | None = None
    error: str | None = None


def _packed_pieces(language: Language, batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    import pyarrow as pa

    for batch in batches:
        has_subscribers = batch.num_columns > 2
        for piece in pieces([batch], language, subscribers=has_subscribers):
            yield pa.RecordBatch.from_arrays([pa.array([pack(piece)], pa.binary())], ["piece"])


def _rejected_rows(language: Language, batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    import pyarrow as pa

    for piece in pieces((batch.select([0, 1]) for batch in batches), language, subscribers=False):
        rows = [(row.id, row.filter, row.error) for row in piece.rejected]
        arrays = [pa.array([row[at] for row in rows], pa.string()) for at in range(3)]
        yield pa.RecordBatch.from_arrays(arrays, ["id", "filter", "error"])


def _written_block(
    folder: str, language: Language, sample: Any, batches: "Iterator[pa.RecordBatch]"
) -> "Iterator[pa.RecordBatch]":
    import pyarrow as pa
    from pyspark import TaskContext

    context = TaskContext.get()
    number, attempt = (context.partitionId(), context.taskAttemptId()) if context else (0, 0)
    found = []
    for batch in batches:
        found += list(pieces([batch], language, subscribers=batch.num_columns > 2))
    rejected = [row for piece in found for row in piece.rejected]
    rows = sum(len(piece.ids) for piece in found) + len(rejected)
    report = _Report(number, rows, [], rejected[:_REJECTED_KEPT], len(rejected))
    if rows > len(rejected):
        try:
            report.names, report.block = _compiled(joined(found), Path(folder), number, attempt, sample)
        except PenstockError as error:
            report.error = str(error)
    yield pa.RecordBatch.from_arrays([pa.array([msgspec.msgpack.encode(report)], pa.binary())], ["report"])


def _compiled(
    given: Joined, folder: Path, number: int, attempt: int, sample: Any
) -> tuple[list[str], BlockFacts]:
    # By attempt: a task may run twice at the same time.
    place = folder / f"{block_name(number)}-{attempt}"
    return plain_names(given.columns.names), write_block(given, place, sample)
