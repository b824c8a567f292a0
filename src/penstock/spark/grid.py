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
from penstock.spark.workers import (
    Task,
    blocks_of,
    gathered,
    give_lists,
    give_rows,
    in_pieces,
    matched,
    run,
    under_plain_names,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_PART: Final = "__penstock_part"
_CELL: Final = "__penstock_cell"
_ROW: Final = "__penstock_row"
_EVENT: Final = "__penstock_event"
_ANSWERS: Final = "__penstock_answers"
_SEED: Final = 1
_OWN: Final = 2
"""Columns that cells are given besides the events': the part and the row."""


def on_grid(events: "DataFrame", task: Task, layout: Layout, given: "StructType") -> "DataFrame":
    """The events with what they match, computed on a grid; `given` is the schema of what comes out."""
    if not layout.is_replicating:
        return under_plain_names(events.repartition(layout.event_parts)).mapInArrow(partial(run, task), given)
    from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

    events = under_plain_names(events)
    is_grouped = task.output == "ids" or task.keep
    # Streams know no such number, and need none: see `chosen_layout`.
    number = F.monotonically_increasing_id() if is_grouped else F.rand(_SEED)
    numbered = events.select("*", number.alias(_ROW))
    part = F.explode(F.array(*map(F.lit, range(layout.subscription_parts))))
    copied = numbered.select(*events.columns, part.alias(_PART), F.col(_ROW))
    # By a hash: rows are numbered densely within a partition only.
    event_part = F.pmod(F.xxhash64(F.col(_ROW)), F.lit(layout.event_parts)).cast("int")
    cell = F.col(_PART) * layout.event_parts + event_part
    cells = copied.select("*", cell.alias(_CELL)).repartitionById(layout.tasks, F.col(_CELL)).drop(_CELL)
    ranges = tuple((blocks.start, blocks.stop) for blocks in layout.parts(task.last))
    cell_task = partial(_run, _Cell(task, ranges, is_grouped))
    if not is_grouped:
        return cells.mapInArrow(cell_task, given)
    answers = cells.mapInArrow(cell_task, _answer_schema(events, given))
    return _brought_together(answers, events, task, given)


def _answer_schema(events: "DataFrame", given: "StructType") -> "StructType":
    """Events, which part and row they are of, and lists: of ids and, where rows have them, of subscribers."""
    from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType, StructField, StructType

    more = given.fields[len(events.columns) :]
    return StructType(
        [
            *events.schema.fields,
            StructField(_PART, IntegerType()),
            StructField(_ROW, LongType()),
            # Ids are all there; subscribers need not be.
            *(
                StructField(f"{_ANSWERS}_{at}", ArrayType(StringType(), at > 0), False)
                for at in range(len(more))
            ),
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
        F.first(F.struct(*events.columns)).alias(_EVENT),
        F.sort_array(F.collect_list(F.struct(_PART, *lists))).alias(_ANSWERS),
    )
    event = [F.col(_EVENT).getField(name).alias(name) for name in events.columns]
    joined = [F.flatten(F.col(_ANSWERS).getField(name)).alias(name) for name in lists]
    names = [field.name for field in given.fields]
    if task.output == "ids":
        return grouped.select(*event, joined[0]).toDF(*names)
    zipped = grouped.select(*event, F.explode_outer(F.arrays_zip(*joined)).alias(_ANSWERS))
    answer = [F.col(_ANSWERS).getField(name) for name in lists]
    return zipped.select(*events.columns, *answer).toDF(*names)


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

    for given in gathered(batches):
        rows = given.rename_columns([*cell.task.names, *given.schema.names[-_OWN:]])
        part_of = rows.column(rows.num_columns - _OWN).to_numpy(zero_copy_only=False)
        for part in np.unique(part_of).tolist():
            yield from _matched(cell, rows.filter(pa.array(part_of == part)), part)


def _matched(cell: _Cell, rows: "pa.RecordBatch", part: int) -> "Iterator[pa.RecordBatch]":
    task = cell.task
    blocks = blocks_of(task.where, *cell.ranges[part])

    def whole(some: "pa.RecordBatch") -> "pa.RecordBatch":
        # By place: a column may have the very name of one of ours.
        return some.select(list(range(len(task.names))))

    for some, found in matched(
        rows, lambda some: whole(some).select(list(task.columns)), blocks, task.unsupported
    ):
        if cell.is_grouped:
            # Where all events are to be there in the end, those of the first part are.
            yield from in_pieces(some, found, give_lists, keep=task.keep and part == 0)
        else:
            yield from in_pieces(whole(some), found, give_rows, keep=False)
