"""The matcher: filters under ids, and which of them match an event.

    m = Matcher()
    m.add("alice", "origin = 'JFK' and dep_delay > 60")
    m.match({"origin": "JFK", "dep_delay": 75})             # ["alice"]

Filters are kept in compiled parts: a large one, and smaller ones for what came later. A change touches
none of them: added filters wait in a buffer until the next match compiles them, removed ones are marked.
In the background small parts are merged into larger ones, and what is marked is left behind. A match works
on the parts that there were when it began, so it sees every change that was complete by then and none that
came later. All methods may be called from several threads at once.
"""

import threading
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from penstock.errors import EventError, FilterError, InputError, PenstockError, UnknownSubscriptionError
from penstock.filters.filter import NEVER, Filter
from penstock.filters.parsing import PredicateLike, as_predicate
from penstock.matching.batch import Batch
from penstock.matching.columns import Columns, ColumnsBuilder
from penstock.matching.encode import BatchBuilder, batch_of_events
from penstock.matching.ids import IdTable
from penstock.matching.matches import Matches
from penstock.matching.sampling import Sample, joined
from penstock.model.events import Event, Unsupported, as_event
from penstock.model.names import Id, check_id, id_order

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.matching.explain import Explanation
    from penstock.matching.json_events import WantedNames
    from penstock.matching.parts import Part
    from penstock.matching.stats import Stats

_NOWHERE: Final = -1
_SEVERAL: Final = -2
_BUFFERED: Final = -3
"""Homes of an id that has no filter, more than one, or (this and below) one in the buffer."""

_SEAL: Final = 4_096
"""So many filters are compiled even if no match asks for it, so that the next match need not wait."""

_TINY: Final = 2_048
"""A part so small is compiled anew together with the buffer."""

_SMALL: Final = 32_768
_SMALL_PARTS: Final = 1
"""More parts than this that are small are merged into one."""

_SHARE: Final = 4
"""The large part is merged with the others when they, or its dead, are a share of one in this many."""

_LEARN_AT: Final = 1_000
"""After so many events, tables that were compiled without having seen any are compiled again."""

_ROWS: Final = 65_536
"""Rows of an Arrow table matched at once."""


class Snapshot(NamedTuple):
    """What a match works on."""

    parts: "tuple[Part, ...]"
    version: int
    ids: IdTable
    shared: bool
    """Whether an id may have filters in more than one part."""


class Matcher:
    """Predicates under ids; several predicates under one id form a disjunction. See the module."""

    def __init__(
        self, subscriptions: Iterable[tuple[Id, PredicateLike]] | Mapping[Any, PredicateLike] = ()
    ) -> None:
        self._lock = threading.RLock()
        self._names: dict[str, int] = {}
        self._ids = IdTable()
        self._home: NDArray[np.int32] = np.full(64, _NOWHERE, np.int32)
        self._live_ids = 0
        self._buffer = ColumnsBuilder(self._names)
        self._parts: tuple[Part, ...] = ()
        self._version = 0
        self._shared = False
        self._sample = Sample()
        self._learnt = False
        self._wanted: WantedNames | None = None
        self._mergers: dict[str, threading.Thread] = {}
        self._failure: BaseException | None = None
        if subscriptions:
            self.add_many(subscriptions)

    # Changes

    def add(self, key: Id, predicate: PredicateLike) -> None:
        """Add a predicate (SQL text, Predicate, Filter or Constraint) under an id (text or an integer)."""
        self.add_many([(check_id(key), as_predicate(predicate))])

    def add_many(
        self, subscriptions: Iterable[tuple[Id, PredicateLike]] | Mapping[Any, PredicateLike]
    ) -> None:
        """Add many (id, predicate) pairs, or a dict of them: all, or, when one is refused, none."""
        given = ColumnsBuilder({})
        keys: list[Id] = []
        pairs = subscriptions.items() if isinstance(subscriptions, Mapping) else subscriptions
        for at, pair in enumerate(cast("Iterable[Any]", pairs)):
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise FilterError(f"subscriptions are pairs (id, filter), not {pair!r:.60}")
            key, predicate = pair
            try:
                keys.append(check_id(key))
                # A filter alone need not be brought into the form of a predicate.
                if isinstance(predicate, Filter) and predicate.satisfiable:
                    given.add(at, predicate)
                    continue
                for f in as_predicate(predicate).filters or (NEVER,):
                    given.add(at, f)
            except PenstockError as error:
                raise error.in_row(at) from None
        with self._lock:
            numbers = self._ids.intern(keys)
            if len(given) < _SEAL:
                self._buffer_all(given, numbers)
            else:
                self._seal()
                columns = given.build()
                owners = numbers[columns.ids]
                renamed = np.array([self._number_of(name) for name in given.names] or [0], np.int32)
                self._append(
                    columns._replace(
                        ids=owners, names=list(self._names), attribute=renamed[columns.attribute]
                    ),
                    new=True,
                )
        self._tidy()

    def add_constraints(self, table: "pa.Table | pa.RecordBatch") -> None:
        """Add filters from an Arrow table with a row for each constraint: the quickest way to load millions.

        Columns: `id` (text or integers); `attribute`; `op`, any operator of the algebra; the value in one of
        `number`, `string`, `bool` or `time`, a list of values for `in`, `not in` and `between`; and, where an
        id has several filters, `filter`, which tells them apart; without it, rows of one id stand together.
        """
        import pyarrow as pa

        from penstock.matching.bulk import columns_of_table

        if not hasattr(table, "__arrow_c_stream__") and not isinstance(table, pa.RecordBatch):
            raise InputError(f"constraints come as an Arrow table, not as {type(table).__name__}")
        given = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else pa.table(table)
        with self._lock:
            columns, ids = columns_of_table(given, self._names)
            different = ids.dictionary if pa.types.is_dictionary(ids.type) else ids.unique()
            for key in different.to_pylist():
                check_id(key)
            numbers = self._ids.intern_array(ids)
            self._seal()
            if columns.filters:
                self._append(columns._replace(ids=numbers), new=True)
        self._tidy()

    def remove(self, key: Id, predicate: PredicateLike | None = None) -> None:
        """Remove all that an id has, or one predicate that was added under it.

        Raises UnknownSubscriptionError if there is nothing to remove.
        """
        key = check_id(key)
        if predicate is None:
            self.remove_many([key])
            return
        filters = as_predicate(predicate).filters or (NEVER,)
        with self._lock:
            number = int(self._ids.find([key])[0])
            self._seal()
            self._remove_filters(key, number, filters)
        self._tidy()

    def remove_many(self, keys: Iterable[Id]) -> None:
        """Remove all that each of the ids has: all of them, or, when one is not known, none."""
        given = [check_id(key) for key in keys]
        with self._lock:
            self._have_homes()
            numbers = self._ids.find(given)
            homes = self._home[numbers]
            homes[numbers < 0] = _NOWHERE
            unknown = np.flatnonzero(homes == _NOWHERE)
            if len(unknown):
                raise UnknownSubscriptionError(f"nothing is subscribed under {given[int(unknown[0])]!r:.80}")
            if len(np.unique(numbers)) < len(numbers):
                raise PenstockError("an id is to be removed twice")
            version = self._version + 1
            self._remove_numbers(numbers, homes, version)
            self._version = version
            self._parts = tuple(part for part in self._parts if part.live)
        self._tidy()

    def _number_of(self, name: str) -> int:
        return self._names.setdefault(name, len(self._names))

    def _buffer_all(self, given: ColumnsBuilder, numbers: NDArray[np.int32]) -> None:
        """Put filters into the buffer, `given.ids` being places in `numbers`."""
        self._have_homes()
        home = self._home
        owners = numbers[given.ids].tolist()
        for at, number in enumerate(owners, len(self._buffer.ids)):
            if home[number] == _NOWHERE:
                self._live_ids += 1
                home[number] = _BUFFERED - at
            else:
                home[number] = _SEVERAL
                self._shared = True
        self._buffer.extend(given, owners)
        if len(self._buffer.ids) >= _SEAL:
            self._seal()

    def _have_homes(self) -> None:
        if self._ids.count > len(self._home):
            grown = np.full(self._ids.count + self._ids.count // 4 + 64, _NOWHERE, np.int32)
            grown[: len(self._home)] = self._home
            self._home = grown

    def _remove_numbers(self, numbers: NDArray[np.int32], homes: NDArray[np.int32], version: int) -> None:
        """Remove all that ids have; all of them have something."""
        several = numbers[homes == _SEVERAL]
        if len(several):
            # Their filters may be anywhere, also in the buffer.
            self._seal()
            homes = self._home[numbers]
        self._buffer.removed.update((_BUFFERED - homes[homes <= _BUFFERED]).tolist())
        single = homes >= 0
        for part in self._parts:
            at, owners = homes[single], numbers[single]
            here = at < part.table.size
            here[here] = part.table.filters.ids[at[here]] == owners[here]
            here[here] = part.are_alive(at[here])
            found = [at[here].astype(np.int64), *(part.positions_of(number) for number in several.tolist())]
            positions = np.concatenate(found)
            if len(positions):
                part.kill(positions, version)
        self._home[numbers] = _NOWHERE
        self._live_ids -= len(numbers)

    def _remove_filters(self, key: Id, number: int, filters: Sequence[Filter]) -> None:
        """Remove one of each of the filters, which all must be there."""
        from penstock.matching.reading import filters_at

        held: list[tuple[Part, int, Filter]] = []
        for part in self._parts if number >= 0 else ():
            positions = part.positions_of(number)
            if len(positions):
                found = filters_at(part.table, positions)
                held += [(part, p, f) for p, f in zip(positions.tolist(), found, strict=True)]
        chosen: list[tuple[Part, int]] = []
        for f in filters:
            at = next((i for i, (_, _, known) in enumerate(held) if known == f), None)
            if at is None:
                raise UnknownSubscriptionError(f"that filter is not subscribed under {key!r:.80}")
            part, position, _ = held.pop(at)
            chosen.append((part, position))
        self._version += 1
        for part, position in chosen:
            part.kill(np.array([position]), self._version)
        if not held:
            self._home[number] = _NOWHERE
            self._live_ids -= 1

    # Parts

    def _seal(self) -> None:
        """Compile what is in the buffer."""
        if not self._buffer.ids:
            return
        if len(self._buffer):
            columns = self._buffer.build()
            parts = self._parts
            last = parts[-1] if parts else None
            if last is not None and last.live <= _TINY and "young" not in self._mergers:
                from penstock.matching.columns import concatenate
                from penstock.matching.reading import columns_of

                known = columns_of(last.table, last.alive(self._version), self._names)
                columns = concatenate([known, columns], list(self._names))
                parts = parts[:-1]
            self._append(columns, after=parts)
        # Only now: what cannot be compiled stays where it is.
        self._buffer = ColumnsBuilder(self._names)

    def _append(
        self, columns: Columns, *, new: bool = False, after: "tuple[Part, ...] | None" = None
    ) -> None:
        """Compile columns into a part, and put it after the others (or after those given).

        `new`: its filters did not pass through the buffer.
        """
        from penstock.matching.compile import compile_table
        from penstock.matching.parts import Part

        parts = self._parts if after is None else after
        sample = self._sample.batch(self._names) if columns.filters > _TINY else None
        table, _ = compile_table(columns, sample)
        if new:
            self._register(table.filters.ids)
        if not parts:
            self._learnt = sample is not None
        part = Part(table)
        self._settle(part, np.ones(table.size, np.bool_))
        self._parts = (*parts, part)

    def _register(self, ids: NDArray[np.int32]) -> None:
        """Note that filters come under ids, which did not pass through the buffer."""
        self._have_homes()
        counts = np.bincount(ids)
        known = np.flatnonzero(counts)
        fresh = self._home[known] == _NOWHERE
        self._live_ids += int(fresh.sum())
        self._shared |= not fresh.all()
        # Until the part is settled, "in the buffer" stands for the new home of an only filter.
        self._home[known] = np.where(fresh & (counts[known] == 1), _BUFFERED, _SEVERAL)

    def _settle(self, part: "Part", alive: NDArray[np.bool_]) -> None:
        """Give ids whose only filter is in the part their home there."""
        positions = np.flatnonzero(alive)
        owners = part.table.filters.ids[positions]
        single = self._home[owners] != _SEVERAL
        self._home[owners[single]] = positions[single]

    def _snapshot(self) -> Snapshot:
        with self._lock:
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise PenstockError("merging in the background failed") from failure
            self._seal()
            return Snapshot(self._parts, self._version, self._ids, self._shared and len(self._parts) > 1)

    # Merging

    def _tidy(self) -> None:
        """Start what has to be merged in the background."""
        with self._lock:
            for kind in ("young", "all"):
                if kind not in self._mergers and self._to_merge(kind):
                    # Not a daemon: one that is stopped in a kernel takes the interpreter down with it.
                    thread = threading.Thread(
                        target=self._merge_on, args=(kind,), name=f"penstock-merge-{kind}"
                    )
                    try:
                        thread.start()
                    except RuntimeError:
                        return  # no thread can be had now; the next change tries again
                    self._mergers[kind] = thread

    def _to_merge(self, kind: str) -> "tuple[Part, ...]":
        """The parts that should be merged now: neighbours, at the end."""
        parts = self._parts
        if not parts:
            return ()
        if kind == "young":
            small = len(parts)
            while small > 0 and parts[small - 1].live <= _SMALL:
                small -= 1
            young = parts[small:]
            return young if len(young) > _SMALL_PARTS + ("all" in self._mergers) else ()
        large = parts[0]
        rest = sum(part.table.size for part in parts[1:] if part.live > _SMALL)
        due = rest * _SHARE > large.live or large.dead * _SHARE > large.table.size
        relearn = not self._learnt and self._sample.events >= _LEARN_AT and large.table.size > _TINY
        if not (due or relearn):
            return ()
        end = len(parts)
        while end > 1 and parts[end - 1].live <= _SMALL:
            end -= 1
        return parts[:end]

    def _merge_on(self, kind: str) -> None:
        """Merge until nothing is left to do; a thread's whole life."""
        try:
            while True:
                with self._lock:
                    parts = self._to_merge(kind)
                    if not parts or not threading.main_thread().is_alive():
                        del self._mergers[kind]
                        return
                    version, names = self._version, dict(self._names)
                    sample = self._sample.batch(self._names)
                self._merge(parts, version, names, sample)
        except BaseException as error:
            with self._lock:
                self._failure = error
                self._mergers.pop(kind, None)

    def _merge(
        self, parts: "tuple[Part, ...]", version: int, names: dict[str, int], sample: Batch | None
    ) -> None:
        """Compile several parts into one, and put it into their place."""
        from penstock.matching.columns import concatenate
        from penstock.matching.compile import compile_table
        from penstock.matching.parts import ALIVE, Part
        from penstock.matching.reading import columns_of

        alive = [part.alive(version) for part in parts]
        columns = concatenate(
            [columns_of(part.table, kept, names) for part, kept in zip(parts, alive, strict=True)],
            list(names),
        )
        if columns.filters:
            table, order = compile_table(columns, sample)
            merged: tuple[Part, ...] = (Part(table),)
        else:
            merged = ()
        with self._lock:
            at = next((i for i, part in enumerate(self._parts) if part is parts[0]), None)
            if at is None or self._parts[at : at + len(parts)] != parts:
                return  # the buffer was compiled together with one of them: try again
            for part in merged:
                died = np.concatenate(
                    [
                        (p.died if len(p.died) else np.full(p.table.size, ALIVE, np.int64))[kept]
                        for p, kept in zip(parts, alive, strict=True)
                    ]
                )[order]
                dead = np.flatnonzero(died != ALIVE)
                if len(dead):
                    part.died, part.dead = died, len(dead)
                self._settle(part, died == ALIVE)
            self._parts = (*self._parts[:at], *merged, *self._parts[at + len(parts) :])
            if at == 0:
                self._learnt = sample is not None
            if len(self._parts) <= 1 and not self._buffer.ids:
                self._shared = False
                self._forget_ids()

    def _forget_ids(self) -> None:
        """Number the ids anew when most of them have gone, while there is one part and no buffer."""
        from penstock.matching.parts import Part

        if self._ids.count < 1_024 or self._live_ids * 2 > self._ids.count or self._buffer.ids:
            return
        live = np.flatnonzero(self._home != _NOWHERE)
        ids = IdTable()
        ids.intern([self._ids.get(number) for number in live.tolist()])
        new_number = np.full(len(self._home), -1, np.int32)
        new_number[live] = np.arange(len(live), dtype=np.int32)
        parts = []
        for part in self._parts:
            renumbered = new_number[part.table.filters.ids]
            # The dead may belong to ids that are gone; no match asks for theirs.
            renumbered[renumbered < 0] = 0
            made = Part(part.table.with_ids(renumbered))
            made.died, made.dead = part.died, part.dead
            parts.append(made)
        home = np.full(len(live) + 64, _NOWHERE, np.int32)
        home[: len(live)] = self._home[live]
        self._ids, self._parts, self._home = ids, tuple(parts), home

    def compact(self) -> None:
        """Merge everything into one table now, and let go of all that was removed."""
        with self._lock:
            self._seal()
            # What is being merged in the background finds its parts gone, and lets it be.
            if len(self._parts) > 1 or any(part.dead for part in self._parts):
                self._merge(self._parts, self._version, self._names, self._sample.batch(self._names))
            self._forget_ids()

    def learn(
        self, events: "pa.RecordBatch | pa.Table | Iterable[Event | Mapping[str, object] | None]"
    ) -> None:
        """Compile anew, knowing that events look like these: which attributes they have, and which values.

        Matching learns by itself from the events that it sees; this is for those who do not want to wait.
        """
        with self._lock:
            self._seal()
            for batch in self._batches(events, "refuse"):
                self._sample.see(batch)
            if self._parts:
                self._merge(self._parts, self._version, self._names, self._sample.batch(self._names))

    # Matching

    def match(self, event: Event | Mapping[str, object], *, unsupported: Unsupported = "refuse") -> list[Id]:
        """The ids, sorted, of the predicates that match the event."""
        attributes = as_event(event, unsupported).attributes
        snapshot = self._snapshot()
        builder = BatchBuilder(self._names)
        builder.add(attributes)
        self._sample.see_one(attributes)
        if self._sample.events % _LEARN_AT == 0:
            self._tidy()
        return self._match(snapshot, builder.build())[0]

    def match_batch(
        self,
        events: "pa.RecordBatch | pa.Table | Iterable[Event | Mapping[str, object] | None]",
        *,
        unsupported: Unsupported = "refuse",
    ) -> Matches:
        """What each event matches: the rows of an Arrow table or record batch, or a list of dicts or events.

        None in a list, and with unsupported="skip" a row of nulls, is no event and matches nothing.
        """
        snapshot = self._snapshot()
        found = []
        for batch in self._batches(events, unsupported):
            self._sample.see(batch)
            found.append(self._match(snapshot, batch))
        self._tidy()
        return found[0] if len(found) == 1 else _joined(found, snapshot.ids)

    def match_json(
        self, lines: bytes | bytearray | memoryview, *, unsupported: Unsupported = "refuse"
    ) -> Matches:
        """What each event of JSON lines matches. Attributes that no filter names are not decoded."""
        from penstock.matching.json_events import WantedNames, read_json_lines

        if not isinstance(lines, bytes | bytearray | memoryview):
            raise EventError(f"JSON lines are matched from bytes, not from {type(lines).__name__}")
        snapshot = self._snapshot()
        wanted = self._wanted
        if wanted is None or len(wanted.numbers) != len(self._names):
            wanted = self._wanted = WantedNames(list(self._names))
        batch = read_json_lines(lines, wanted, unsupported)
        self._sample.see(batch)
        self._tidy()
        return self._match(snapshot, batch)

    @property
    def names(self) -> dict[str, int]:
        """The attributes that filters name, and the numbers under which batches have them."""
        with self._lock:
            return dict(self._names)

    def match_encoded(self, batch: Batch) -> Matches:
        """What each event of a batch matches, which is encoded with the numbers of `names` as of now.

        It may have one attribute that no filter names, under the number `len(names)`.
        """
        snapshot = self._snapshot()
        self._sample.see(batch)
        self._tidy()
        return self._match(snapshot, batch)

    def _batches(
        self,
        events: "pa.RecordBatch | pa.Table | Iterable[Event | Mapping[str, object] | None]",
        unsupported: Unsupported,
    ) -> list[Batch]:
        if isinstance(events, Mapping | str | bytes):
            raise EventError(f"a batch is a table or a list of events, not {type(events).__name__}")
        if not hasattr(events, "__arrow_c_stream__") and not hasattr(events, "__arrow_c_array__"):
            return [batch_of_events(events, self._names, unsupported)]
        from penstock.matching.arrow_events import batch_of_arrow, record_batches

        tables = record_batches(events, _ROWS)
        made, row = [], 0
        for rows in tables:
            made.append(batch_of_arrow(rows, self._names, unsupported, row))
            row += rows.num_rows
        return made or [batch_of_events([], self._names)]

    def _match(self, snapshot: Snapshot, batch: Batch) -> Matches:
        from penstock.matching.kernels.results import join

        ids = snapshot.ids.count
        if not snapshot.parts:
            return Matches(np.zeros(len(batch.start) + 1, np.int64), np.zeros(0, np.int32), snapshot.ids)
        found = [part.match(batch, self._names, snapshot.version, ids) for part in snapshot.parts]
        offsets, numbers = found[0]
        stamp = np.zeros(ids + 1 if snapshot.shared and len(found) > 1 else 0, np.int64)
        epoch = 0
        for more in found[1:]:
            offsets, numbers, epoch = join(
                offsets, numbers, more.offsets, more.numbers, snapshot.shared, stamp, epoch
            )
        return Matches(offsets, numbers, snapshot.ids)

    # Looking

    def explain(
        self, event: Event | Mapping[str, object], *, unsupported: Unsupported = "refuse"
    ) -> "list[Explanation]":
        """Which filters match the event, and by which constraint each was found."""
        from penstock.matching.explain import explanations

        attributes = as_event(event, unsupported).attributes
        snapshot = self._snapshot()
        builder = BatchBuilder(self._names)
        builder.add(attributes)
        return explanations(snapshot, self._names, builder.build())

    def stats(
        self,
        events: "pa.RecordBatch | pa.Table | Iterable[Event | Mapping[str, object] | None] | None" = None,
        *,
        top: int = 10,
    ) -> "Stats":
        """Numbers of filters and constraints, bytes, and which filters and constraints cost most.

        Costs are counted on the events given, or on a sample of those matched lately.
        """
        from penstock.matching.stats import stats_of

        snapshot = self._snapshot()
        batch = self._sample.batch(self._names) if events is None else joined(self._batches(events, "refuse"))
        return stats_of(snapshot, self._names, batch, self._home.nbytes, self._live_ids, top)

    def filters(self, key: Id) -> list[Filter]:
        """The filters that an id has."""
        from penstock.matching.reading import filters_at

        check_id(key)
        with self._lock:
            number = int(self._ids.find([key])[0])
            self._seal()
            found: list[Filter] = []
            for part in self._parts if number >= 0 else ():
                positions = part.positions_of(number)
                if len(positions):
                    found += filters_at(part.table, positions)
            return sorted(found, key=Filter.sort_key)

    def ids(self) -> list[Id]:
        """All ids that have filters, in order."""
        with self._lock:
            numbers = np.flatnonzero(self._home[: self._ids.count] != _NOWHERE)
            return sorted((self._ids.get(number) for number in numbers.tolist()), key=id_order)

    def __len__(self) -> int:
        """How many ids there are."""
        return self._live_ids

    def __contains__(self, key: object) -> bool:
        with self._lock:
            self._have_homes()
            number = int(self._ids.find([check_id(key)])[0])
            return number >= 0 and bool(self._home[number] != _NOWHERE)

    def __repr__(self) -> str:
        return f"<Matcher of {len(self):,} ids>"

    # Saving

    def save(self, path: "str | PathLike[str]") -> None:
        """Write everything into a folder that `load` can map into memory. See `penstock.matching.storage`."""
        from penstock.matching.storage import save

        with self._lock:
            self.compact()
            table = self._parts[0].table if self._parts else None
            ids = self._ids.arrays()
            learnt = self._learnt
        save(path, table, ids, learnt=learnt)

    @classmethod
    def load(cls, path: "str | PathLike[str]") -> "Matcher":
        """The matcher that was saved in a folder; its arrays are mapped, and read when they are needed."""
        from penstock.matching.parts import Part
        from penstock.matching.storage import load

        table, ids, learnt = load(path)
        made = cls()
        made._ids = ids
        made._have_homes()
        if table is not None:
            made._names.update({name: number for number, name in enumerate(table.names)})
            part = Part(table)
            made._register(table.filters.ids)
            made._settle(part, np.ones(table.size, np.bool_))
            made._parts = (part,)
            made._learnt = learnt
        return made


def _joined(found: list[Matches], ids: IdTable) -> Matches:
    counts = [np.diff(matches.offsets) for matches in found]
    offsets = np.zeros(sum(map(len, counts)) + 1, np.int64)
    np.cumsum(np.concatenate(counts), out=offsets[1:])
    return Matches(offsets, np.concatenate([matches.numbers for matches in found]), ids)
