"""Which filters cover which: the filters poset of a whole table of subscriptions, as a job.

What room `routing` keeps up to date one subscription at a time (Salo 2010, section 5.1; `routing/poset.py`),
here all at once, on as many cores as there are, with the same answer. In three steps:

1. Filters are parsed once (`predicates`) and sorted into blocks: those on the same attributes with ends near
   each other are in one block, equal ones always.
2. A task takes a column of cells: a block, and all blocks that may cover some of it, one after the other, and
   keeps for each filter the nearest covers seen so far (`cells`). Cells that cannot hold a pair are left out.
   What travels is blocks, each to the columns that need it; pairs of filters do not.
3. One task puts the links in order: identical filters, layers, roots (`layers`).

The cost: step 2 looks every filter up in an index of each block, in some tens of microseconds, and reads each
block once for each column. So its time grows with filters times blocks, which are few: 8 up to a million
filters. Each pair of which one may cover the other is looked at besides: a table in which most filters cover
most others takes time in proportion to its pairs. Cells that cannot hold a pair are left out. Step 2 ships b
times the table at most, for b blocks, and a task holds two blocks and the links of one. Many intervals of one
attribute are sorted and linked instead, and not looked at pair by pair. Step 3 is one task, with time and
memory in proportion to the links, some dozens of bytes each.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from penstock.errors import InputError
from penstock.spark.analysis.cells import Column, Links, cells, pack, read_summary
from penstock.spark.analysis.layers import rows_of
from penstock.spark.analysis.predicates import PLACE, parsed

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from penstock.filters.parsing import Language

SCHEMA: Final = "id string, parents array<string>, layer int, root boolean, same_as string"
"""Columns of the answer."""

_LINKS: Final = "ids array<string>, parents array<string>, twins array<string>"
_FEW: Final = 16_384
"""A block of fewer filters is not worth a task."""

_MANY: Final = 131_072
"""A block of more filters takes a task too much memory."""

_BLOCKS: Final = 8
"""Between the two, so many blocks: each filter is looked up in each block, so more blocks are more work."""


def covering(
    subscriptions: "DataFrame", *, language: "Language" = "sql", blocks: int | None = None
) -> "DataFrame":
    """For every id of subscriptions (id, filter) its place in the filters poset.

    The answer has a row for each id:

    - `parents array<string>`: the ids whose filters immediately cover it, with none between, sorted;
    - `layer int`: how long the longest chain of covers above it is; 0 where nothing covers it;
    - `root boolean`: whether it is of the root set, which covers all others: `where("root")` is what a broker
      under covering-based routing would forward;
    - `same_as string`: of ids with identical filters the smallest stands for all, and for it this is null.
      The others name it here, have its parents and its layer, and are neither parents nor roots.

    Several rows of one id are a disjunction. Where filters have patterns, covering is sound, not complete: a
    link may be missing, and a root be one too many; none is wrong, and roots cover all.

    The filters are parsed and put in blocks when this is called, so that a bad one raises here; the comparing
    is done when the answer is used. `blocks`: in how many the filters are split, by their number otherwise.
    On a cluster with many cores give as many as it has.
    """
    return poset_rows(linked(placed(subscriptions, language, blocks)))


def placed(subscriptions: "DataFrame", language: "Language", blocks: int | None) -> "DataFrame":
    """Step 1: the filters in blocks, done when this is called."""
    if blocks is not None and blocks < 1:
        raise InputError(f"filters are split in one block at least, not in {blocks}")
    rows, size = parsed(subscriptions, language)
    return (
        rows.repartitionByRange(blocks or blocks_for(size), *PLACE)
        .select("id", "data")
        .mapInArrow(_pack_partition, "number int, block binary, summary binary")
        .localCheckpoint()
    )


def poset_rows(links: "DataFrame") -> "DataFrame":
    """Step 3: the answer, from all links."""
    return links.repartition(1).mapInArrow(_finish, SCHEMA)


def blocks_for(count: int) -> int:
    """In how many blocks so many filters are split."""
    return max(1, min(-(-count // _FEW), _BLOCKS), -(-count // _MANY))


def linked(blocks: "DataFrame") -> "DataFrame":
    """Step 2: the links of all filters, a task for each block."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    summaries = {
        row.number: read_summary(row.summary) for row in blocks.select("number", "summary").collect()
    }
    numbers = sorted(summaries)
    pairs = [
        (special, special != general, numbers[general])
        for special, general in cells([summaries[number] for number in numbers])
    ]
    looked_at = blocks.sparkSession.createDataFrame(pairs, "column int, later boolean, number int")
    return (
        blocks.select("number", "block")
        .join(F.broadcast(looked_at), "number")
        .repartitionById(max(1, len(numbers)), "column")
        # A column's own block is the first, so that the others need not be kept.
        .sortWithinPartitions("column", "later", "number")
        .select("column", "block")
        .mapInArrow(_column_partition, _LINKS)
    )


def _pack_partition(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """The rows of a partition as one block, with the partition's number."""
    import pyarrow as pa
    from pyspark import TaskContext

    rows = [
        row
        for batch in batches
        for row in zip(batch["id"].to_pylist(), batch["data"].to_pylist(), strict=True)
    ]
    task = TaskContext.get()
    if rows and task is not None:
        block, summary = pack(rows)
        arrays = [pa.array([task.partitionId()], pa.int32()), pa.array([block]), pa.array([summary])]
        yield pa.record_batch(arrays, names=["number", "block", "summary"])


def _column_partition(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """The links of a column's filters; its own block comes first."""
    number: int | None = None
    column: Column | None = None
    for batch in batches:
        for at, block in zip(batch["column"].to_pylist(), batch["block"], strict=True):
            if column is None or at != number:
                if column is not None:
                    yield _batch(column.links())
                number, column = at, Column(block.as_py())
            else:
                column.against(block.as_py())
    if column is not None:
        yield _batch(column.links())


def _batch(links: list[Links]) -> "pa.RecordBatch":
    import pyarrow as pa

    columns = zip(*links, strict=True)
    return pa.record_batch([pa.array(c, pa.list_(pa.string())) for c in columns], names=Links._fields)


def _finish(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """All links in, all rows out."""
    import pyarrow as pa

    links = list(batches)
    if links:
        yield from rows_of(pa.Table.from_batches(links))
