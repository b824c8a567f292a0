"""The store: the filters of a matcher, how they change, and how they are compiled behind its back.

Filters are kept in parts. Most are compiled tables (`parts`): a large one, and smaller ones for what came
later. What comes now stands in a delta, which takes filters at once but is several times as large, and is
compiled in the background when it has grown or when nothing more comes. A removed filter is marked, and left
behind at the next merge of its part. A reader takes a snapshot: the parts, and what was marked at that time.
"""

import threading
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.errors import LimitError, PenstockError, UnknownSubscriptionError
from penstock.filters.filter import Filter
from penstock.matching.batch import Batch, without_lists
from penstock.matching.columns import Columns, ColumnsBuilder
from penstock.matching.compile import TABLE_ATTRIBUTES_MAX, compile_table
from penstock.matching.computed import Computed, with_attributes
from penstock.matching.delta import Delta, forecast_of
from penstock.matching.forking import look_after
from penstock.matching.homes import BUFFERED, NOWHERE, SEVERAL, Homes
from penstock.matching.ids import IdTable
from penstock.matching.kernels.delta_nodes import Forecast
from penstock.matching.merging import Merger, columns_of_parts, is_program_alive, removed_since
from penstock.matching.parts import Part
from penstock.matching.renumbering import renumbered_ids, renumbered_names
from penstock.matching.sampling import Sample
from penstock.matching.signatures import Wanted
from penstock.matching.table import Table
from penstock.matching.times import NOTHING, Asked, AskedTimes, Found, ReadAsTimes, TimeTexts
from penstock.matching.views import View
from penstock.model.events import Unsupported
from penstock.model.names import Id

_BUFFER: Final = 64
"""So many filters are worth the trouble of being put into the delta at once."""

_SEAL: Final = 4_096
"""So many filters that come at once are compiled at once; also the first ones, if no match asks for them."""

_DELTA: Final = 32_768
_DELTA_SHARE: Final = 4
"""A delta is closed when it has so many filters, and a share of the large table of one in so many."""

_TINY: Final = 2_048
"""Tables of so few filters are not worth a sample of events."""

_SMALL: Final = 32_768
_SMALL_PARTS: Final = 1
"""More tables than this that are small are merged into one."""

_SHARE: Final = 4
"""The large table is merged with the others when they, or its dead, are a share of one in this many."""

LEARN_AT: Final = 1_000
"""After so many events, tables that were compiled without having seen any are compiled again."""

_IDLE: Final = 2
"""A delta is compiled when so many events for each of its filters, and a few more, came since the last."""


_KINDS: Final = ("young", "all")
"""Merges: of what is small, and of everything that is not."""


def check_attributes(count: int) -> None:
    """Refuse more attributes than one table, which all filters may end up in, can have."""
    if count > TABLE_ATTRIBUTES_MAX:
        raise LimitError(f"filters name {count:,} attributes", "TABLE_ATTRIBUTES_MAX", TABLE_ATTRIBUTES_MAX)


class Snapshot(NamedTuple):
    """What a match works on."""

    parts: tuple[Part | View, ...]
    ids: IdTable
    shared: bool
    """Whether an id may have filters in more than one part."""
    names: dict[str, int]
    """The attributes that filters name, and the numbers that the parts, and batches, have them under. More
    may come at the end; when they are numbered anew, that is another dict."""
    sample: Sample
    """Where to show events that are encoded with these numbers."""
    integers: bool
    """Whether all ids that have filters are integers; where none has any, whether the last ones were."""
    computed: Computed
    """The attributes that batches have to be completed with."""
    times: ReadAsTimes = NOTHING
    """The attributes whose texts are read as times."""

    def completed(self, batch: Batch, *, counted: bool = False) -> Batch:
        """The batch as the parts match it; `counted`: its events show what events are like."""
        batch = self.times.read(batch)
        if not self.computed:
            return without_lists(batch)
        return self.computed.completed(batch, self.names, counted=counted)

    def counting(self, unsupported: Unsupported) -> Unsupported:
        """The same, with values that are left out counted."""
        return self.sample.observed.skipping if unsupported == "skip" else unsupported


class Store:
    """See the module. Methods may be called by several threads at once; `lock` is theirs."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.names: dict[str, int] = {}
        """The attributes that filters name, and their numbers."""
        self.ids = IdTable()
        self.sample = Sample()
        self._live_texts = 0
        """How many of the ids that have filters are text."""
        self._integers = False
        self.learnt = False
        """Whether the large table was compiled with a sample of events."""
        self._homes = Homes()
        self._buffer = ColumnsBuilder(self.names)
        self._computed = Computed()
        self._asked = AskedTimes()
        self._texts = TimeTexts()
        self._times: tuple[Found, int, ReadAsTimes] = (frozenset(), frozenset()), 0, NOTHING
        """What `ReadAsTimes` was made of last, and itself."""
        self._parts: tuple[Part | Delta, ...] = ()
        self._delta: Delta | None = None
        """The delta that filters are added to: the last part, if there is one."""
        self._forecast: tuple[int, Forecast] | None = None
        self._shared = False
        self._current: Snapshot | None = None
        """What readers see, if they need not wait for anything."""
        self._mergers: dict[str, Merger] = {}
        self._failure: BaseException | None = None
        look_after(self)

    @property
    def home(self) -> NDArray[np.int32]:
        """Where the only filter of each id stands."""
        return self._homes.places

    @property
    def live_ids(self) -> int:
        """How many ids have filters."""
        return self._homes.live

    def expect_integers(self, are_expected: bool) -> None:
        """Say what ids are, as long as none has filters."""
        self._integers = are_expected

    @property
    def texts(self) -> TimeTexts:
        """Of which attributes texts are read as times."""
        return self._texts

    @texts.setter
    def texts(self, texts: TimeTexts) -> None:
        with self.lock:
            if texts.by_rules != self._texts.by_rules:
                self._asked.begin_again(counting=texts.by_rules)
            self._texts = texts
            self._times = ((frozenset(), frozenset()), 0, NOTHING)
            self._publish()

    # Adding

    def add(self, given: ColumnsBuilder, keys: Sequence[Id]) -> None:
        """Add filters, whose ids are places in `keys`."""
        if len(given) < _BUFFER and not given.texts:
            with self.lock:
                self._have_names_of(given)
                self._buffer_all(given, self.ids.intern(keys))
        else:
            self._add_many(given, keys)
        self.tidy()

    def _add_many(self, given: ColumnsBuilder, keys: Sequence[Id]) -> None:
        with self.lock:
            self._have_names_of(given)
        # Without the lock: readers should not have to wait for this.
        columns = given.build()
        with self.lock:
            if given.names is not self.names:
                # Attributes have been numbered anew meanwhile.
                self._have_names_of(given)
                columns = given.build()
            self._flush()
            self._take_in(columns._replace(ids=self.ids.intern(keys)[columns.ids]), new=True)
            self._publish()

    def add_columns(self, columns: Columns, numbers: NDArray[np.int32]) -> None:
        """Add filters whose ids have these numbers, and whose attributes are numbered as the store's, new
        ones at the end."""
        with self.lock:
            self._have_names(columns.names[len(self.names) :])
            self._flush()
            if columns.filters:
                self._take_in(columns._replace(ids=numbers), new=True)
            self._publish()
        self.tidy()

    def _have_names_of(self, given: ColumnsBuilder) -> None:
        given.names = self.names
        self._have_names(given.new_names())

    def _have_names(self, new: Sequence[str]) -> None:
        """Number new attributes."""
        check_attributes(len(self.names) + len(new))
        for name in new:
            self.sample.observed.begin(len(self.names))
            self.names[name] = len(self.names)

    def _buffer_all(self, given: ColumnsBuilder, numbers: NDArray[np.int32]) -> None:
        self._homes.have_room(self.ids.count)
        owners = numbers[given.ids].tolist()
        others, fresh = self._homes.buffer(owners, len(self._buffer.ids))
        self._shared |= others
        self._count_texts(fresh, 1)
        self._buffer.extend(given, owners)
        # The first filters are compiled at once; later ones go into the delta.
        if len(self._buffer.ids) >= (_BUFFER if self._parts else _SEAL):
            self._flush()
        self._publish()

    def _flush(self) -> None:
        """Make parts of what is in the buffer."""
        if not self._buffer.ids:
            return
        if len(self._buffer):
            self._take_in(self._buffer.build())
        # Only now: what cannot be compiled stays where it is.
        self._buffer = ColumnsBuilder(self.names)

    def _take_in(self, columns: Columns, *, new: bool = False) -> None:
        """Put filters into a table of their own or into the delta; `new`: they did not pass the buffer."""
        if self._texts.by_rules:
            self._asked.add(columns.attribute, columns.kind, self.names)
        if not self._parts or columns.filters >= _SEAL:
            sample = self.sample.batch(self.names) if columns.filters > _TINY else None
            table, _ = compile_table(columns, sample)
            if new:
                self._register(columns.ids)
            if not self._parts:
                self.learnt = sample is not None
            self._put_table(Part(table))
            return
        if self._delta is None:
            self._delta = Delta(self._expected())
            self._parts = (*self._parts, self._delta)
        delta = self._delta
        first = delta.insert(columns)
        if new:
            self._register(columns.ids)
        positions = np.arange(first, first + columns.filters, dtype=np.int32)
        if not self._homes.settle(columns.ids, positions):
            delta.distinct = False
        if delta.size >= max(_DELTA, self._parts[0].live // _DELTA_SHARE):
            self._delta = None

    def _put_table(self, part: Part) -> None:
        """Put a new table after the others, but before the delta."""
        self._settle(part, np.ones(part.size, np.bool_))
        end = len(self._parts) - (self._delta is not None)
        self._parts = (*self._parts[:end], part, *self._parts[end:])

    def _expected(self) -> Forecast:
        """What events may look like; looked at again when there are twice as many."""
        if self._forecast is None or self.sample.events >= 2 * self._forecast[0]:
            self._forecast = max(1, self.sample.events), forecast_of(self.sample.batch(self.names))
        return self._forecast[1]

    def _register(self, numbers: NDArray[np.int32]) -> None:
        """Note that filters of ids come, which did not pass through the buffer."""
        others, fresh = self._homes.register(numbers, self.ids.count)
        self._shared |= others
        self._count_texts(fresh, 1)

    def _forget(self, numbers: NDArray[np.signedinteger]) -> None:
        """Note that ids have no filters any more."""
        self._homes.forget(numbers)
        self._count_texts(numbers, -1)

    def _count_texts(self, numbers: NDArray[np.signedinteger], sign: int) -> None:
        """Note that ids have filters now (1), or have none any more (-1): how many of them are text."""
        self._live_texts += sign * int(np.count_nonzero(~self.ids.are_integers(numbers)))

    def _settle(self, part: Part, alive: NDArray[np.bool_]) -> None:
        """Give ids whose only filter is in the part their home there."""
        positions = np.flatnonzero(alive)
        self._homes.settle(part.ids[positions], positions)

    # Removing

    def remove(self, keys: Sequence[Id]) -> None:
        """Remove all that each of the ids has: all of them, or, when one is not known, none."""
        with self.lock:
            self._homes.have_room(self.ids.count)
            numbers = self.ids.find(keys)
            homes = self.home[numbers]
            homes[numbers < 0] = NOWHERE
            unknown = np.flatnonzero(homes == NOWHERE)
            if len(unknown):
                raise UnknownSubscriptionError(f"nothing is subscribed under {keys[int(unknown[0])]!r:.80}")
            different, first = np.unique(numbers, return_index=True)
            if len(different) < len(numbers):
                again = int(np.delete(np.arange(len(numbers)), first)[0])
                raise PenstockError(f"{keys[again]!r:.80} is to be removed twice: give each id once")
            self._remove_numbers(numbers, homes)
            self._drop_dead()
            self._publish()
        self.tidy()

    def _remove_numbers(self, numbers: NDArray[np.int32], homes: NDArray[np.int32]) -> None:
        """Remove all that ids have; all of them have something."""
        several = numbers[homes == SEVERAL]
        if len(several):
            # Their filters may be anywhere, also in the buffer.
            self._flush()
            homes = self.home[numbers]
        self._buffer.removed.update((BUFFERED - homes[homes <= BUFFERED]).tolist())
        single = homes >= 0
        at, owners = homes[single], numbers[single]
        for part in self._parts:
            here = at < part.size
            here[here] = part.ids[at[here]] == owners[here]
            here[here] = part.are_alive(at[here])
            found = [at[here].astype(np.int64), *(part.positions_of(number) for number in several.tolist())]
            positions = np.concatenate(found)
            if len(positions):
                self._kill(part, positions)
        self._forget(numbers)

    def _kill(self, part: Part | Delta, positions: NDArray[np.int64]) -> None:
        """Remove filters of a part."""
        if self._asked.is_counting:
            for _, _, attribute, kind in part.conditions_at(positions, self.names):
                self._asked.remove(attribute, kind, self.names)
        else:
            self._asked.lose()
        part.kill(positions)

    def remove_filters(self, key: Id, filters: Sequence[Filter]) -> None:
        """Remove one of each of the filters of an id, which all must be there."""
        wanted = Wanted(filters)
        with self.lock:
            held = self._held(key)
            chosen = wanted.find(held, self.names)
            if chosen is None:
                raise UnknownSubscriptionError(f"that filter is not subscribed under {key!r:.80}")
            for number, (part, _) in enumerate(held):
                positions = [place.position for place in chosen if place.holder == number]
                if positions:
                    self._kill(part, np.array(positions, np.int64))
            if len(chosen) == sum(len(positions) for _, positions in held):
                self._forget(self.ids.find([key]))
            self._drop_dead()
            self._publish()
        self.tidy()

    def _held(self, key: Id) -> list[tuple[Part | Delta, NDArray[np.int64]]]:
        """Where the filters of an id stand; none is in the buffer then."""
        number = int(self.ids.find([key])[0])
        self._flush()
        if number < 0:
            return []
        held = [(part, part.positions_of(number)) for part in self._parts]
        return [(part, positions) for part, positions in held if len(positions)]

    def _drop_dead(self) -> None:
        """Forget parts of which nothing is alive; the delta only when it is worth a new one."""
        if self._delta is not None and not self._delta.live and self._delta.size >= _TINY:
            self._delta = None
        self._parts = tuple(part for part in self._parts if part.live or part is self._delta)

    # Looking

    def filters(self, key: Id) -> list[Filter]:
        """The filters that an id has."""
        with self.lock:
            held, names = [(part.view(), positions) for part, positions in self._held(key)], self.names
        # Without the lock: there may be thousands.
        return [f for part, positions in held for f in part.filters_at(positions, names)]

    def keys(self) -> list[Id]:
        """All ids that have filters."""
        with self.lock:
            numbers = np.flatnonzero(self.home[: self.ids.count] != NOWHERE)
            return [self.ids.get(number) for number in numbers.tolist()]

    def has(self, key: Id) -> bool:
        """Whether an id has filters."""
        with self.lock:
            self._homes.have_room(self.ids.count)
            number = int(self.ids.find([key])[0])
            return number >= 0 and bool(self.home[number] != NOWHERE)

    def snapshot(self) -> Snapshot:
        """All filters as they are now."""
        # Without the lock where nothing has to be done: what is published is whole.
        current = self._current
        if current is not None and self._failure is None:
            return current
        with self.lock:
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise PenstockError("merging in the background failed") from failure
            self._flush()
            return self._publish()

    def _publish(self) -> Snapshot:
        """Let readers see what there is now; a change ends with this."""
        parts = tuple(part.view() for part in self._parts)
        shared = self._shared and len(parts) > 1
        if self.live_ids:
            self._integers = not self._live_texts
        self._computed = self._computed.extended(self.names)
        made = Snapshot(
            parts,
            self.ids,
            shared,
            self.names,
            self.sample,
            self._integers,
            self._computed,
            self._read_as_times(parts),
        )
        # What is in the buffer has to be made a part first.
        self._current = None if self._buffer.ids else made
        return made

    def _read_as_times(self, parts: tuple[Part | View, ...]) -> ReadAsTimes:
        """The attributes whose texts are read as times."""
        names = self.names
        asked = self._asked.settle(lambda: (some for part in parts for some in part.conditions(names)), names)
        before, count, made = self._times
        if asked != before or count != len(names):
            numbered = list(names) if asked[0] else []
            times, strings = (
                [numbered[place] if isinstance(place, int) else place for place in some] for some in asked
            )
            made = ReadAsTimes.of(self._texts, times, strings, names)
            self._times = asked, len(names), made
        return made

    # Merging

    def tidy(self) -> None:
        """Start what has to be merged in the background."""
        delta = self._delta
        idle = delta is not None and delta.is_idle(_IDLE, _TINY)
        # Looked at without the lock, which others may hold; what is wrong for once comes right the next time.
        if not idle and not any(kind not in self._mergers and self._to_merge(kind) for kind in _KINDS):
            return
        with self.lock:
            if self._delta is not None and self._delta.is_idle(_IDLE, _TINY):
                self._delta = None
            for kind in _KINDS:
                if kind not in self._mergers and self._to_merge(kind) and is_program_alive():
                    thread = Merger(target=self._merge_on, args=(kind,), name=f"penstock-merge-{kind}")
                    try:
                        thread.start()
                    except RuntimeError:
                        return  # no thread can be had now; the next change tries again
                    self._mergers[kind] = thread

    def forget_mergers(self) -> None:
        """This is a new process, in which no thread merges yet."""
        self._mergers.clear()

    def _to_merge(self, kind: str) -> tuple[Part | Delta, ...]:
        """The parts that should be merged now: neighbours."""
        parts, delta = self._parts, self._delta
        closed = parts[:-1] if parts and parts[-1] is delta else parts
        if not closed:
            return ()
        young = len(closed)
        while young > 0 and (closed[young - 1].live <= _SMALL or isinstance(closed[young - 1], Delta)):
            young -= 1
        if kind == "young":
            small = closed[young:]
            # Filters that come and go are mostly gone by the time that a second delta is full.
            deltas = [part for part in small if isinstance(part, Delta)]
            due = len(deltas) > 1 or any(delta.is_idle(_IDLE, _TINY) for delta in deltas)
            tables = len(small) - len(deltas)
            return small if due or tables > _SMALL_PARTS + ("all" in self._mergers) else ()
        large = closed[0]
        rest = sum(part.size for part in closed[1:young])
        due = rest * _SHARE > large.live or large.dead * _SHARE > large.size
        relearn = not self.learnt and self.sample.events >= LEARN_AT and large.size > _TINY
        if isinstance(large, Delta) or not (due or relearn):
            return ()
        return closed[: max(1, young)]

    def _merge_on(self, kind: str) -> None:
        """Merge until nothing is left to do, or the program ends; a thread's whole life."""
        try:
            while True:
                with self.lock:
                    parts = self._to_merge(kind)
                    if not parts or not is_program_alive():
                        del self._mergers[kind]
                        return
                    alive, names = [part.alive() for part in parts], dict(self.names)
                    sample = self.sample.batch(self.names)
                columns = columns_of_parts(parts, alive, names)
                # Compiling takes longest: not for a program that has ended.
                if is_program_alive():
                    self._merge(parts, alive, columns, sample)
        except BaseException as error:
            with self.lock:
                self._failure = error
                self._mergers.pop(kind, None)

    def _merge(
        self,
        parts: tuple[Part | Delta, ...],
        alive: list[NDArray[np.bool_]],
        columns: Columns,
        sample: Batch | None,
    ) -> None:
        """Compile what was alive of several parts into one table, and put it into their place."""
        merged: tuple[Part, ...] = ()
        if columns.filters:
            table, order = compile_table(columns, sample if columns.filters > _TINY else None)
            merged = (Part(table),)
        with self.lock:
            at = next((i for i, part in enumerate(self._parts) if part is parts[0]), None)
            if at is None or self._parts[at : at + len(parts)] != parts:
                return  # another merge, or a removal, was quicker: try again
            for made in merged:
                removed = removed_since(parts, alive)[order]
                if removed.any():
                    made.kill(np.flatnonzero(removed))
                self._settle(made, ~removed)
            self._parts = (*self._parts[:at], *merged, *self._parts[at + len(parts) :])
            if at == 0:
                self.learnt = sample is not None
            if len(self._parts) <= 1 and not self._buffer.ids:
                self._shared = False
                self._forget_ids()
            self._publish()

    def _tables(self) -> tuple[Part, ...] | None:
        """The parts, if all are tables and nothing is in the buffer: then numbers can change."""
        tables = tuple(part for part in self._parts if isinstance(part, Part))
        return None if self._buffer.ids or len(tables) < len(self._parts) else tables

    def _forget_ids(self) -> None:
        """Number the ids anew when most of them have gone."""
        tables = self._tables()
        if tables is None or self.ids.count < 1_024 or self.live_ids * 2 > self.ids.count:
            return
        self.ids, self._homes, self._parts = renumbered_ids(self.ids, self._homes, tables)

    def _forget_names(self) -> None:
        """Number the attributes anew when some are named by no filter."""
        tables = self._tables()
        if tables is None or len(tables) > 1 or len(self.names) == sum(len(t.table.names) for t in tables):
            return
        self.names, self.sample, self._parts = renumbered_names(self.names, self.sample, tables)
        self._buffer = ColumnsBuilder(self.names)
        self._computed = Computed()
        self._asked.renumber()
        self._times = ((frozenset(), frozenset()), 0, NOTHING)
        self._forecast = None

    def compact(self, *, anew: bool = False) -> Table | None:
        """Make one table of everything, now, without what was removed; `anew`: even if it is one already."""
        with self.lock:
            self._flush()
            self._delta = None
            parts = self._parts
            # What is being merged in the background finds its parts gone, and lets it be.
            if parts and (anew or len(parts) > 1 or parts[0].dead or not isinstance(parts[0], Part)):
                alive = [part.alive() for part in parts]
                columns = columns_of_parts(parts, alive, self.names)
                self._merge(parts, alive, columns, self.sample.batch(self.names))
            self._forget_ids()
            self._forget_names()
            self._publish()
            only = self._parts[0] if self._parts else None
            return only.table if isinstance(only, Part) else None

    @classmethod
    def of_table(
        cls, table: Table | None, ids: IdTable, *, learnt: bool, texts: TimeTexts, asked: Asked
    ) -> "Store":
        """The store of filters that were compiled before; `asked`: what they compare attributes with."""
        made = cls()
        made.ids = ids
        made._texts = texts
        if table is not None:
            made.names.update({name: number for number, name in enumerate(with_attributes(table.names))})
            made._register(table.filters.ids)
            made._put_table(Part(table))
            made._asked.load(asked, made.names)
            made.learnt = learnt
        return made
