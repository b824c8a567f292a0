"""Subscriptions from rows: parsed and turned into flat arrays in pieces, which are put together and compiled.

Parsing is Python, and takes most of the time: workers do it, each for its rows. What they send back is arrays
(`Columns`), which the driver, or whoever makes a block, lays end to end in the order of the ids and compiles.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import numpy as np

from penstock.errors import FilterError, InputError, PenstockError
from penstock.filters.filter import NEVER
from penstock.filters.parsing import Language, parse
from penstock.matching.arrival import INTERPRETING, is_interpreting, tell
from penstock.matching.columns import Columns, ColumnsBuilder, concatenate, take
from penstock.model.names import check_id, is_unicode
from penstock.spark.rules import Rules, are_few, write_rules
from penstock.spark.tables import BlockFacts, facts_of, write_subscribers

if TYPE_CHECKING:
    import pyarrow as pa

PIECE: Final = 50_000
"""Rows in a piece: some megabytes."""

_ARRAYS: Final = {
    "ids": np.int32,
    "offsets": np.int64,
    "attribute": np.int32,
    "kind": np.uint8,
    "cut_offsets": np.int64,
    "cut_high": np.int64,
    "cut_low": np.int16,
    "pattern_offsets": np.int64,
    "pattern": np.int32,
}


class Rejected(msgspec.Struct, frozen=True):
    """A row that is no subscription, and why not."""

    id: str | None
    filter: str | None
    error: str


class Piece(msgspec.Struct, frozen=True):
    """Some subscriptions: the filters of row i have the id `ids[i]`."""

    ids: list[str]
    subscribers: list[str | None] | None
    columns: Columns
    rejected: list[Rejected]
    language: Language = "sql"
    texts: list[str] | None = None
    """The filters as they were given, if they are few."""


class _Packed(msgspec.Struct):
    """A piece as it travels."""

    ids: list[str]
    subscribers: list[str | None] | None
    names: list[str]
    literals: list[bytes]
    patterns: list[bytes]
    arrays: dict[str, bytes]
    rejected: list[Rejected]
    language: Language
    texts: list[str] | None


def encoded(rows: Iterable[Sequence[Any]], language: Language, *, subscribers: bool) -> Piece:
    """Rows (id, filter) or (id, filter, subscriber) as a piece; what is no subscription is put aside."""
    ids: list[str] = []
    owners: list[str | None] = []
    texts: list[str] = []
    rejected: list[Rejected] = []
    builder = ColumnsBuilder({})
    known: dict[str, Any] = {}
    for row in rows:
        try:
            key = _text_of(row[0])
            if not isinstance(row[1], str):
                raise FilterError("there is no filter" if row[1] is None else "a filter is text")
            if subscribers and row[2] is not None and not is_unicode(row[2]):
                raise InputError(f"the subscriber {row[2]!r:.80} is not Unicode text")
            filters = known.get(row[1])
            if filters is None:
                filters = known[row[1]] = parse(row[1], language).filters or (NEVER,)
        except PenstockError as error:
            rejected.append(Rejected(_or_none(row[0]), _or_none(row[1]), " ".join(str(error).split())))
            continue
        for each in filters:
            builder.add(len(ids), each)
        ids.append(key)
        texts.append(row[1])
        if subscribers:
            owners.append(row[2])
    kept = texts if are_few(texts) else None
    return Piece(ids, owners if subscribers else None, builder.build(), rejected, language, kept)


def _text_of(given: object) -> str:
    if given is None:
        raise InputError("there is no id")
    # Integers are ids too; in a DataFrame of matches all are text.
    return str(check_id(given))


def _or_none(given: object) -> str | None:
    # What is no Unicode cannot be shown as it is.
    return None if given is None else str(given).encode("utf-8", "replace").decode()


def pack(piece: Piece) -> bytes:
    """A piece as bytes."""
    columns = piece.columns
    return msgspec.msgpack.encode(
        _Packed(
            ids=piece.ids,
            subscribers=piece.subscribers,
            names=list(columns.names),
            literals=list(columns.literals),
            # Wildcards are surrogates there, which are no UTF-8.
            patterns=[pattern.encode("utf-8", "surrogatepass") for pattern in columns.patterns],
            arrays={name: getattr(columns, name).astype(kind).tobytes() for name, kind in _ARRAYS.items()},
            rejected=piece.rejected,
            language=piece.language,
            texts=piece.texts,
        )
    )


def unpack(data: bytes) -> Piece:
    """The piece that was packed."""
    found = msgspec.msgpack.decode(data, type=_Packed)
    # Copies: kernels want arrays that could be written to.
    arrays: dict[str, Any] = {
        name: np.frombuffer(found.arrays[name], kind).copy() for name, kind in _ARRAYS.items()
    }
    patterns = [pattern.decode("utf-8", "surrogatepass") for pattern in found.patterns]
    columns = Columns(names=found.names, literals=found.literals, patterns=patterns, **arrays)
    return Piece(found.ids, found.subscribers, columns, found.rejected, found.language, found.texts)


def pieces(batches: "Iterable[pa.RecordBatch]", language: Language, *, subscribers: bool) -> Iterator[Piece]:
    """The subscriptions of batches with the columns id, filter and, if so said, subscriber."""
    for batch in batches:
        for at in range(0, batch.num_rows, PIECE):
            columns = [_values(column) for column in batch.slice(at, PIECE).columns]
            yield encoded(zip(*columns, strict=True), language, subscribers=subscribers)


def _values(column: "pa.Array") -> list[Any]:
    """The values of a column. A text of Spark's may be none: what is wrong with it is said where it is."""
    import pyarrow as pa

    try:
        return column.to_pylist()  # type: ignore[no-any-return]
    except UnicodeDecodeError:
        found = column.cast(pa.large_binary()).to_pylist()
        return [None if text is None else text.decode("utf-8", "surrogateescape") for text in found]


class Joined(NamedTuple):
    """Many subscriptions, their ids as text in order, each once."""

    ids: "pa.Array"
    subscribers: "pa.Array | None"
    columns: Columns
    """`columns.ids` are places in `ids`; filters are in their order."""
    rules: Rules | None = None
    """The same as text, if they are few."""


def joined(parts: Sequence[Piece]) -> Joined:
    """All subscriptions of some pieces. An id that is there more than once has all their filters."""
    import pyarrow as pa
    import pyarrow.compute as pc

    parts = parts or [encoded((), "sql", subscribers=False)]
    given = pa.chunked_array([pa.array(part.ids, pa.large_string()) for part in parts], pa.large_string())
    encoded_ids = given.combine_chunks().dictionary_encode()
    ids = encoded_ids.dictionary
    order = pc.sort_indices(ids).to_numpy()
    place = np.empty(len(ids), np.int64)
    place[order] = np.arange(len(ids))
    place_of_row = place[encoded_ids.indices.to_numpy(zero_copy_only=False)]
    names: dict[str, int] = {}
    renumbered, row = [], 0
    for part in parts:
        numbers = np.array([names.setdefault(n, len(names)) for n in part.columns.names] or [0], np.int32)
        renumbered.append(
            part.columns._replace(
                attribute=numbers[part.columns.attribute],
                ids=place_of_row[row + part.columns.ids].astype(np.int32),
            )
        )
        row += len(part.ids)
    columns = concatenate(renumbered, list(names))
    columns = take(columns, np.argsort(columns.ids, kind="stable"))
    return Joined(ids.take(order), _subscribers(parts, place_of_row, len(ids)), columns, _rules(parts))


def _rules(parts: Sequence[Piece]) -> Rules | None:
    """All rules as text, in the order of ids; those of one id as they came."""
    if any(part.texts is None for part in parts):
        return None
    rules = [pair for part in parts for pair in zip(part.ids, part.texts or (), strict=True)]
    rules.sort(key=itemgetter(0))
    found = Rules(parts[0].language, rules)
    return found if found.are_few else None


def _subscribers(parts: Sequence[Piece], place_of_row: Any, count: int) -> "pa.Array | None":
    """The subscriber of each id; or an error where an id has two."""
    import pyarrow as pa

    if not parts or parts[0].subscribers is None:
        return None
    found: list[str | None] = [None] * count
    rows = (pair for part in parts for pair in zip(part.ids, part.subscribers or (), strict=True))
    for place, (key, subscriber) in zip(place_of_row.tolist(), rows, strict=True):
        if found[place] is not None and subscriber is not None and found[place] != subscriber:
            raise InputError(
                f"the id {key!r:.80} has two subscribers, {found[place]!r:.80} and {subscriber!r:.80}: "
                "give each its own id"
            )
        if subscriber is not None:
            found[place] = subscriber
    return pa.array(found, pa.string())


def write_block(given: Joined, folder: Path, sample: "pa.Table | None" = None) -> BlockFacts:
    """Compile subscriptions and write them into a folder; `sample`: events to learn from."""
    from penstock.matching.matcher import Matcher

    if given.rules is not None and is_interpreting():
        # Without arrays, and without what a sample tells: for few rules it makes no difference.
        tell(INTERPRETING)
        matcher = Matcher(given.rules)
        folder.mkdir(parents=True)
    else:
        matcher = Matcher()
        matcher.add_columns(given.columns, given.ids)
        if sample is not None and sample.num_rows:
            matcher.learn(sample, unsupported="skip")
        matcher.save(folder)
    if given.rules is not None:
        write_rules(folder, msgspec.structs.replace(given.rules, asked=matcher.asked))
    if given.subscribers is not None:
        write_subscribers(folder, given.subscribers)
    return facts_of(matcher, folder, folder.name, given.columns.filters)


def cut(given: Joined, blocks: int) -> list[Joined]:
    """Subscriptions in so many parts of about as many filters, each with later ids than the one before."""
    ends = [round(len(given.columns.ids) * at / blocks) for at in range(1, blocks)]
    # All filters of an id are in one part.
    of_filter = np.append(given.columns.ids, len(given.ids))
    bounds = [0, *of_filter[ends].tolist(), len(given.ids)]
    made = []
    for first, last in pairwise(bounds):
        begin, end = np.searchsorted(given.columns.ids, [first, last]).tolist()
        columns = take(given.columns, np.arange(begin, end))
        subscribers = None if given.subscribers is None else given.subscribers[first:last]
        columns = columns._replace(ids=(columns.ids - first).astype(np.int32))
        made.append(Joined(given.ids[first:last], subscribers, columns, _between(given, first, last)))
    return made


def _between(given: Joined, first: int, last: int) -> Rules | None:
    """The rules as text of ids that are next to each other."""
    if given.rules is None:
        return None
    ids = set(given.ids[first:last].to_pylist())
    return Rules(given.rules.language, [rule for rule in given.rules.rules if rule[0] in ids])


def refusal(rejected: Sequence[Rejected], of: int, count: int | None = None) -> FilterError:
    """The error that says that some rows are no subscriptions; of `count`, some may not have been kept."""
    count = len(rejected) if count is None else count
    first = rejected[0]
    named = "a row without an id" if first.id is None else f"subscription {first.id!r:.80}"
    others = f" (and {count - 1:,} more of {of:,})" if count > 1 else ""
    return FilterError(
        f"{named}: {first.error}{others}; check_subscriptions lists all that are wrong, and "
        "invalid='quarantine' goes on without them"
    )
