"""Events × subscriptions on a grid: the layouts of `layout`, as a Spark job.

The cell (s, e) is a task that has part s of the table and part e of the events. Every event goes to the cells
(0, e) … (S - 1, e) of its part e. Parts of the table have later ids than those before them, so that the
answers to an event, laid end to end in the order of the parts, are sorted. Where each match is a row of its
own, cells give rows, and nothing need be brought together.
"""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from penstock.spark.layout import Layout
from penstock.spark.workers import Task, blocks_of, gathered, give_lists, give_rows, in_pieces, match, run

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

_PART: Final = "__penstock_part"
_CELL: Final = "__penstock_cell"
_ROW: Final = "__penstock_row"
_EVENT: Final = "__penstock_event"
_ANSWERS: Final = "__penstock_answers"
_OWN: Final = 2
"""Columns that cells are given besides the events': the part and the row."""


def on_grid(events: "DataFrame", task: Task, layout: Layout, given: "StructType") -> "DataFrame":
    """The events with what they match, computed on a grid; `given` is the schema of what comes out."""
    if not layout.is_replicating:
        return events.repartition(layout.event_parts).mapInArrow(partial(run, task), given)
    from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

    columns = [_column(name) for name in events.columns]
    numbered = events.select(*columns, F.monotonically_increasing_id().alias(_ROW))
    part = F.explode(F.array(*map(F.lit, range(layout.subscription_parts))))
    copied = numbered.select(*columns, part.alias(_PART), F.col(_ROW))
    # By a hash: rows are numbered densely within a partition only.
    event_part = F.pmod(F.xxhash64(F.col(_ROW)), F.lit(layout.event_parts)).cast("int")
    cell = F.col(_PART) * layout.event_parts + event_part
    cells = copied.select("*", cell.alias(_CELL)).repartitionById(layout.tasks, F.col(_CELL)).drop(_CELL)
    ranges = tuple((blocks.start, blocks.stop) for blocks in layout.parts(task.last))
    if task.output == "rows" and not task.keep:
        return cells.mapInArrow(partial(_run, _Cell(task, ranges, is_grouped=False)), given)
    answers = cells.mapInArrow(
        partial(_run, _Cell(task, ranges, is_grouped=True)), _answer_schema(events, given)
    )
    return _brought_together(answers, events, task, given)


def _column(name: str) -> "Column":
    from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

    # Dots and quotes in a name are just that.
    return F.col(f"`{name.replace('`', '``')}`")


def _answer_schema(events: "DataFrame", given: "StructType") -> "StructType":
    """Events, which part and row they are of, and lists: of ids and, where rows have them, of subscribers."""
    from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType, StructField, StructType

    more = given.fields[len(events.columns) :]
    texts = ArrayType(StringType(), True)
    return StructType(
        [
            *events.schema.fields,
            StructField(_PART, IntegerType()),
            StructField(_ROW, LongType()),
            *(StructField(f"{_ANSWERS}_{at}", texts) for at in range(len(more))),
        ]
    )


def _brought_together(
    answers: "DataFrame", events: "DataFrame", task: Task, given: "StructType"
) -> "DataFrame":
    """One row for each event, with the answers of all parts in order; then, if so asked, one for each id."""
    from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

    more = given.fields[len(events.columns) :]
    lists = [f"{_ANSWERS}_{at}" for at in range(len(more))]
    grouped = answers.groupBy(_ROW).agg(
        F.first(F.struct(*map(_column, events.columns))).alias(_EVENT),
        F.sort_array(F.collect_list(F.struct(_PART, *lists))).alias(_ANSWERS),
    )
    event = [F.col(_EVENT).getField(name).alias(name) for name in events.columns]
    joined = [F.flatten(F.col(_ANSWERS).getField(name)).alias(name) for name in lists]
    if task.output == "ids":
        return grouped.select(*event, joined[0].alias(more[0].name))
    zipped = grouped.select(*event, F.explode_outer(F.arrays_zip(*joined)).alias(_ANSWERS))
    answer = [
        F.col(_ANSWERS).getField(name).alias(field.name) for name, field in zip(lists, more, strict=True)
    ]
    return zipped.select(*map(_column, events.columns), *answer)


class _Cell(NamedTuple):
    """What the task of a cell has to know."""

    task: Task
    ranges: tuple[tuple[int, int], ...]
    """The blocks of each part of the table."""
    is_grouped: bool
    """Whether answers are lists, to be brought together, or rows."""


def _run(cell: _Cell, batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """Match batches: what `mapInArrow` calls."""
    import pyarrow as pa

    for rows in gathered(batches):
        part_of = rows.column(rows.num_columns - _OWN).to_numpy(zero_copy_only=False)
        for part in np.unique(part_of).tolist():
            yield from _matched(cell, rows.filter(pa.array(part_of == part)), part)


def _matched(cell: _Cell, rows: "pa.RecordBatch", part: int) -> "Iterator[pa.RecordBatch]":
    task = cell.task
    blocks = blocks_of(task.where, *cell.ranges[part])
    found = match(rows.select(list(task.columns)), blocks, task.unsupported)
    if cell.is_grouped:
        # Where all events are to be there in the end, those of the first part are.
        yield from in_pieces(rows, found, give_lists, keep=task.keep and part == 0)
    else:
        yield from in_pieces(rows.select(rows.schema.names[:-_OWN]), found, give_rows, keep=False)
