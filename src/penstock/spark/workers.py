"""What runs in Spark's Python workers: batches of events in, batches with what they matched out.

Everything here is importable and takes plain data, so that tasks stay small and kernels are found compiled.
A worker process serves many tasks: the tables that it mapped last are kept.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.errors import EventError, PenstockError
from penstock.model.events import Unsupported
from penstock.model.places import Place

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.accumulators import Accumulator
    from pyspark.sql import DataFrame

    from penstock.matching.matcher import Matcher
    from penstock.spark.left_out import Counts
    from penstock.spark.shipping import Where

Output = Literal["ids", "rows"]

_KEPT: Final = 4
"""Tables that a process keeps mapped: a stream that goes over to a new version needs two for a moment."""

_ROWS: Final = 65_536
"""Rows are matched so many at a time, if need be several of Spark's batches at once: a call has its price."""

_BYTES: Final = 1 << 27
"""Bytes of a batch, about, where rows are wide: a column of text holds 2 GB, and memory is shared by many."""

BYTES: Final = 1 << 28
"""Bytes of ids that are held at once: an Arrow array of text cannot have 2 GB, and a worker should not."""

_FEW: Final = 100_000
"""So few ids need not be looked at for that."""

_loaded: "OrderedDict[tuple[str, int, int], list[Block]]" = OrderedDict()


class TooMuchError(Exception):
    """Rows match more than can be held at once: match fewer of them."""


class Found(NamedTuple):
    """What events matched: those of event i are `ids[offsets[i]:offsets[i + 1]]`, sorted as text."""

    offsets: NDArray[np.int64]
    ids: "pa.Array"
    subscribers: "pa.Array | None"


class Block:
    """A part of a table: a matcher, and its ids as text in the order of text."""

    def __init__(self, matcher: "Matcher", subscribers: "pa.Array | None" = None) -> None:
        """`subscribers` are those of the ids, in the order of their text."""
        self.matcher = matcher
        self._subscribers = subscribers

    @classmethod
    def load(cls, folder: Path, times: frozenset[Place] = frozenset()) -> "Block":
        """The block that was written into a folder; texts of the attributes `times` are read as times."""
        from penstock.matching.times import TimeTexts
        from penstock.spark.rules import load_block
        from penstock.spark.tables import read_subscribers

        matcher = load_block(folder)
        # Rules of other blocks count, too.
        matcher.texts = TimeTexts(times, by_rules=False)
        return cls(matcher, read_subscribers(folder))

    @property
    def skipped(self) -> "Counts":
        """What was left out of events in the life of this process."""
        return self.matcher.observed.skipping.counts()

    @cached_property
    def _order(self) -> "tuple[pa.Array, NDArray[np.int64]]":
        """All ids in the order of text, and for each number of an id its place among them."""
        import pyarrow.compute as pc

        matches = self.matcher.match_batch([])
        ids = matches.table.texts_of(np.arange(matches.table.count, dtype=np.int32))
        if len(ids) < 2 or pc.all(pc.less(ids[:-1], ids[1:])).as_py():
            return ids, np.arange(len(ids) + 1, dtype=np.int64)
        order = pc.sort_indices(ids).to_numpy()
        place = np.zeros(len(ids) + 1, np.int64)
        place[order] = np.arange(len(ids))
        return ids.take(order), place

    @cached_property
    def _lengths(self) -> NDArray[np.int64]:
        """The bytes of each id, in the order of text, or of its subscriber, if they are more."""
        import pyarrow.compute as pc

        texts = [self._order[0]] if self._subscribers is None else [self._order[0], self._subscribers]
        sizes = [pc.binary_length(text).fill_null(0).to_numpy(zero_copy_only=False) for text in texts]
        found: NDArray[np.int64] = np.max(sizes, axis=0).astype(np.int64)
        return found

    def match(self, rows: "pa.RecordBatch", unsupported: Unsupported, most: int = BYTES) -> Found:
        """What each row matches; raises TooMuchError where that is more bytes than these, of several rows."""
        import pyarrow as pa

        ids, place = self._order
        matches = self.matcher.match_batch(rows, unsupported=unsupported)
        places = matches.places(place)
        if len(places) > _FEW and rows.num_rows > 1 and self._lengths[places].sum() > most:
            raise TooMuchError
        taken = pa.array(places)
        subscribers = None if self._subscribers is None else self._subscribers.take(taken)
        return Found(matches.offsets, ids.take(taken), subscribers)


def blocks_of(where: "Where", first: int, last: int) -> list[Block]:
    """The blocks `first` to `last - 1` of a table; mapped once by each process."""
    key = (where.key, first, last)
    if key not in _loaded:
        folders = where.folders()[first:last]
        _loaded[key] = [Block.load(folder, where.times) for folder in folders]
        while len(_loaded) > _KEPT:
            _loaded.popitem(last=False)
    _loaded.move_to_end(key)
    return _loaded[key]


class Task(NamedTuple):
    """What a task has to know: where the table is, which blocks of it, and what to give."""

    where: "Where"
    first: int
    last: int
    """The blocks to match with: `first` to `last - 1`."""
    columns: tuple[str, ...]
    """The columns that are events; the others are only passed on."""
    output: Output = "ids"
    keep: bool = False
    """Whether rows that match nothing are passed on too."""
    unsupported: Unsupported = "refuse"
    names: tuple[str, ...] = ()
    """Those of the events' columns, where they come under others: see `under_plain_names`."""
    skipped: "Accumulator[Counts] | None" = None
    """What values that are left out are counted by: see `penstock.spark.left_out`."""


def under_plain_names(events: "DataFrame") -> "DataFrame":
    """The events, their columns called by their places.

    Spark looks columns up by name to hand them to Python, and takes a dot for a field, and `a` for `A`.
    """
    return events.toDF(*(f"__penstock_{at}" for at in range(len(events.columns))))


def run(task: Task, batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """Match batches: what `mapInArrow` calls."""
    blocks = blocks_of(task.where, task.first, task.last)
    before = [block.skipped for block in blocks]
    for rows in gathered(batches):
        if task.names:
            rows = rows.rename_columns(list(task.names))
        for some, found in matched(rows, partial(_events, task), blocks, task.unsupported):
            yield from in_pieces(some, found, GIVE[task.output], keep=task.keep)
    if task.skipped is not None:
        from penstock.spark.left_out import of_blocks

        task.skipped.add(of_blocks(zip(before, (block.skipped for block in blocks), strict=True)))


def _events(task: Task, rows: "pa.RecordBatch") -> "pa.RecordBatch":
    return rows.select(list(task.columns))


def matched(
    rows: "pa.RecordBatch",
    events_of: "Callable[[pa.RecordBatch], pa.RecordBatch]",
    blocks: Sequence[Block],
    unsupported: Unsupported,
) -> "Iterator[tuple[pa.RecordBatch, Found]]":
    """The rows in order with what they match, as many at a time as can be held."""
    pending = [rows]
    while pending:
        some = pending.pop()
        try:
            found = match(events_of(some), blocks, unsupported)
        except TooMuchError:
            half = some.num_rows // 2
            pending += [some.slice(half), some.slice(0, half)]
            continue
        yield some, found


def gathered(
    batches: "Iterator[pa.RecordBatch]", rows: int = _ROWS, nbytes: int = _BYTES
) -> "Iterator[pa.RecordBatch]":
    """The same rows in batches of about so many rows or bytes: small ones are put together, in order."""
    import pyarrow as pa

    waiting: list[pa.RecordBatch] = []
    count = size = 0
    for batch in batches:
        if waiting and (count + batch.num_rows > rows or size + batch.nbytes > nbytes):
            # Even one alone would be copied.
            yield waiting[0] if len(waiting) == 1 else pa.concat_batches(waiting)
            waiting, count, size = [], 0, 0
        if batch.num_rows:
            waiting.append(batch)
            count += batch.num_rows
            size += batch.nbytes
    if waiting:
        yield waiting[0] if len(waiting) == 1 else pa.concat_batches(waiting)


def match(rows: "pa.RecordBatch", blocks: Sequence[Block], unsupported: Unsupported = "refuse") -> Found:
    """What each row matches in all blocks: later blocks have later ids."""

    try:
        most = BYTES // max(1, len(blocks))
        return _joined([block.match(rows, unsupported, most) for block in blocks], rows.num_rows)
    except PenstockError as error:
        raise _told(error, rows) from None


def _told(error: PenstockError, rows: "pa.RecordBatch") -> PenstockError:
    """The error with the event that it is about: the number of a row within a batch tells nobody which."""
    if error.row is None or not 0 <= error.row < rows.num_rows:
        return error
    try:
        event = {
            name: value
            for name, value in rows.slice(error.row, 1).to_pylist()[0].items()
            if value is not None
        }
    except (ValueError, OverflowError):
        # What is wrong with it is that it cannot be shown.
        return error
    shown = ", ".join(f"{name}={value!r:.40}" for name, value in event.items())
    return EventError(f"{error}; rows are those of a task's batch, this one is {shown:.200}")


def _joined(found: list[Found], events: int) -> Found:
    """What several blocks found, event by event."""
    import pyarrow as pa

    if not found:
        return Found(np.zeros(events + 1, np.int64), pa.array([], pa.string()), None)
    if len(found) == 1:
        return found[0]
    counts = np.stack([np.diff(one.offsets) for one in found])
    # The ids lie block by block; they are wanted event by event.
    event_of = np.concatenate([np.repeat(np.arange(events), row) for row in counts])
    order = pa.array(np.argsort(event_of, kind="stable"))
    offsets = np.zeros(events + 1, np.int64)
    np.cumsum(counts.sum(axis=0), out=offsets[1:])
    subscribers = None
    if found[0].subscribers is not None:
        subscribers = pa.concat_arrays([one.subscribers for one in found]).take(order)
    return Found(offsets, pa.concat_arrays([one.ids for one in found]).take(order), subscribers)


_PIECE: Final = 1 << 20
"""Ids in one batch that is given to Spark: events that match thousands must not fill the memory."""


def in_pieces(
    rows: "pa.RecordBatch", found: Found, give: "Callable[..., pa.RecordBatch]", *, keep: bool
) -> "Iterator[pa.RecordBatch]":
    """Give what was found in batches that are not too large."""
    begin, most = 0, _PIECE
    if give is give_rows and rows.num_rows:
        # Each id brings its row along.
        most = min(most, max(1, _BYTES * rows.num_rows // max(1, rows.nbytes)))
    while begin < rows.num_rows:
        end = int(np.searchsorted(found.offsets, found.offsets[begin] + most, side="right")) - 1
        end = min(max(end, begin + 1), rows.num_rows)
        first, last = int(found.offsets[begin]), int(found.offsets[end])
        subscribers = None if found.subscribers is None else found.subscribers[first:last]
        part = Found(found.offsets[begin : end + 1] - first, found.ids[first:last], subscribers)
        yield give(rows.slice(begin, end - begin), part, keep)
        begin = end


def give_ids(rows: "pa.RecordBatch", found: Found, keep: bool) -> "pa.RecordBatch":
    """The rows, each with the list of the ids that it matched."""
    return give_lists(rows, found._replace(subscribers=None), keep)


def give_lists(rows: "pa.RecordBatch", found: Found, keep: bool) -> "pa.RecordBatch":
    """The rows, each with the list of the ids that it matched, and one of their subscribers, if they have."""
    import pyarrow as pa

    offsets = found.offsets
    if not keep:
        some = np.diff(offsets) > 0
        if not some.all():
            rows = rows.filter(pa.array(some))
            # Those that go have no ids: the others' ids stay where they are.
            offsets = np.append(offsets[:-1][some], offsets[-1])
    ends = pa.array(offsets.astype(np.int32))
    more = [found.ids] if found.subscribers is None else [found.ids, found.subscribers]
    return _with_columns(rows, [pa.ListArray.from_arrays(ends, array) for array in more])


def give_rows(rows: "pa.RecordBatch", found: Found, keep: bool) -> "pa.RecordBatch":
    """A row for each (row, id); where rows are kept that match nothing, their id is null."""
    import pyarrow as pa

    counts = np.diff(found.offsets)
    more = [found.ids] if found.subscribers is None else [found.ids, found.subscribers]
    if keep and not counts.all():
        given = np.maximum(counts, 1)
        is_id = np.repeat(counts > 0, given)
        place = np.where(is_id, np.cumsum(is_id) - 1, 0)
        which = pa.array(place, mask=~is_id)
        more = [array.take(which) for array in more]
        counts = given
    if counts.size and (counts != 1).any():
        rows = rows.take(pa.array(np.repeat(np.arange(len(counts)), counts)))
    return _with_columns(rows, more)


GIVE: Final[dict[str, "Callable[[pa.RecordBatch, Found, bool], pa.RecordBatch]"]] = {
    "ids": give_ids,
    "rows": give_rows,
}
"""How each output is made."""


def _with_columns(rows: "pa.RecordBatch", more: "list[pa.Array]") -> "pa.RecordBatch":
    import pyarrow as pa

    columns = [*rows.columns, *more]
    # Spark takes columns by their place, and cannot read two that have the same name.
    return pa.RecordBatch.from_arrays(columns, [str(place) for place in range(len(columns))])
