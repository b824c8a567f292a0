"""The matcher: filters under ids, and which of them match an event.

    m = Matcher()
    m.add("alice", "origin = 'JFK' and dep_delay > 60")
    m.match({"origin": "JFK", "dep_delay": 75})             # ["alice"]

A match sees every change that was complete when it began, and none that came later: see `store`. All methods
may be called from several threads at once.
"""

import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.errors import EventError, FilterError, InputError, PenstockError, UnknownSubscriptionError
from penstock.filters import html
from penstock.filters.disagreements import IDS_SHOWN, Disagreements, DisagreementWarning, refuse
from penstock.filters.filter import NEVER, Filter
from penstock.filters.parsing import PredicateLike, as_predicate
from penstock.filters.reasons import Reasons, asked_of, reasons, rule_shown, texts_like_times
from penstock.filters.schema_check import SchemaCheck
from penstock.matching.arrival import KERNELS, is_interpreting
from penstock.matching.batch import Batch
from penstock.matching.bulk_texts import BulkTexts
from penstock.matching.columns import ColumnsBuilder, offsets_of
from penstock.matching.computed import is_computed, plain_names
from penstock.matching.encode import BatchBuilder, batch_of_events
from penstock.matching.matches import Matches
from penstock.matching.plain import HandedOverError, PlainSnapshot, PlainStore, Work, as_found, without_first
from penstock.matching.sampling import joined
from penstock.matching.times import Asked, TimeTexts
from penstock.model.events import Event, Unsupported, as_event
from penstock.model.names import Id, check_id, id_order
from penstock.model.places import Place, in_order, outermost
from penstock.model.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import ArrayLike

    from penstock.filters.disagreements import Basis, Disagreement
    from penstock.matching.columns import Columns
    from penstock.matching.explain import Explanations
    from penstock.matching.json_events import WantedNames
    from penstock.matching.observed import Observed
    from penstock.matching.packed_events import Buffer
    from penstock.matching.parts import Found
    from penstock.matching.stats import Stats
    from penstock.matching.store import Snapshot, Store
    from penstock.matching.summary import Summary
    from penstock.matching.table import Table

_ROWS: Final = 65_536
"""Rows of an Arrow table matched at once."""

_FEW: Final = 64
"""The first texts are parsed one by one; further ones are compared with those before them."""

_TIDY_EVERY: Final = 16
"""Packed events after which it is looked whether something is to be tidied: they often come one by one."""


_WARNED_AFTER: Final = 1_000
"""Events before it is first looked for disagreements to warn of, and no fewer than there are ids."""

_WARNED_AGAIN: Final = 4
"""It is looked again when there were so many times as many: in all, a small part of matching."""


class _Ready(NamedTuple):
    """Names of attributes as kernels that read events want them, and how many names there were then."""

    names: dict[str, int]
    seen: int
    wanted: "WantedNames"


class Matcher:
    """Predicates under ids; several predicates under one id form a disjunction. See the module."""

    warns = True
    """Whether `match_batch` and `match_json` warn of disagreements."""

    def __init__(
        self,
        subscriptions: Iterable[tuple[Id, PredicateLike]] | Mapping[Any, PredicateLike] = (),
        *,
        schema: Schema | None = None,
        texts: TimeTexts | None = None,
    ) -> None:
        """With a `schema` of events, what does not fit it is refused when it is added, and texts are read as
        times where it says so.

        `texts`: of which attributes else texts are read as times.
        """
        if schema is not None:
            _check_schema(schema)
        self._kept: Store | PlainStore = PlainStore() if is_interpreting() else _new_store()
        self._schema = schema
        if schema is not None and texts is None:
            texts = TimeTexts.of_schema(schema)
        if texts is not None:
            self._kept.texts = texts
        self._warns_at = _WARNED_AFTER
        self._warned: set[tuple[str, str]] = set()
        self._wanted: _Ready | None = None
        self._untidied = 0
        self.add_many(subscriptions)

    # Changes

    def add(self, key: Id, predicate: PredicateLike) -> None:
        """Add a predicate (SQL text, Predicate, Filter or Constraint) under an id (text or an integer)."""
        self.add_many([(check_id(key), as_predicate(predicate))])

    def add_many(
        self, subscriptions: Iterable[tuple[Id, PredicateLike]] | Mapping[Any, PredicateLike]
    ) -> None:
        """Add many (id, predicate) pairs, or a dict of them: all, or, when one is refused, none."""
        given = ColumnsBuilder(self._kept.names)
        filters: list[Filter] = []
        checking = None if self._schema is None else SchemaCheck(self._schema)
        # Without kernels, filters are matched as they are: texts have to be parsed.
        texts = given.texts = None if isinstance(self._kept, PlainStore) else BulkTexts()
        keys: list[Id] = []
        for at, pair in enumerate(_pairs(subscriptions)):
            try:
                if not isinstance(pair, tuple | list) or len(pair) != 2:
                    raise FilterError(f"subscriptions are pairs (id, filter), not {pair!r:.60}")
                key, predicate = pair
                keys.append(check_id(key))
                if checking is not None:
                    predicate = as_predicate(predicate)
                    checking.see(keys[-1], predicate.filters)
                elif at >= _FEW and isinstance(predicate, str) and texts is not None:
                    taken = texts.add(at, predicate)
                    if taken is True:
                        continue
                    predicate = taken or predicate
                # A filter alone need not be brought into the form of a predicate.
                if isinstance(predicate, Filter) and predicate.satisfiable and not predicate.clauses:
                    given.add(at, predicate)
                    filters.append(predicate)
                    continue
                for f in as_predicate(predicate).filters or (NEVER,):
                    given.add(at, f)
                    filters.append(f)
            except PenstockError as error:
                raise error.in_row(at) from None
        if checking is not None:
            refuse(checking.report())
        if keys:
            self._take(given, filters, keys)

    def _take(self, given: ColumnsBuilder, filters: list[Filter], keys: list[Id]) -> None:
        """Add filters, which are given as columns and, without kernels, as they are."""
        store = self._held()
        if isinstance(store, PlainStore):
            try:
                store.add(given, filters, keys)
                return
            except HandedOverError:
                pass
        self._store.add(given, keys)

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
        try:
            given = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else pa.table(table)
        except pa.ArrowInvalid as error:
            raise InputError(f"constraints come as an Arrow table: {error}") from None
        if self._schema is not None:
            apart = Matcher()
            apart.add_constraints(given)
            refuse(apart.check(self._schema))
        store = self._store
        with store.lock:
            columns, ids = columns_of_table(given, dict(store.names))
            store.add_columns(columns, store.ids.intern_array(ids))

    def add_columns(self, columns: "Columns", ids: "pa.Array") -> None:
        """Add filters as flat arrays, whose `ids` are places in an Arrow array of ids, each there once.

        For those who parse in many processes and put together what they get.
        """
        store = self._store
        with store.lock:
            if store.names:
                raise PenstockError("columns number attributes by themselves: they are for an empty matcher")
            numbers = store.ids.intern_array(ids)
            store.add_columns(columns, numbers[columns.ids])

    def remove(self, key: Id, predicate: PredicateLike | None = None) -> None:
        """Remove all that an id has, or one predicate that was added under it.

        Raises UnknownSubscriptionError if there is nothing to remove.
        """
        key = check_id(key)
        if predicate is None:
            self.remove_many([key])
            return
        filters = as_predicate(predicate).filters or (NEVER,)
        try:
            self._held().remove_filters(key, filters)
        except HandedOverError:
            self._store.remove_filters(key, filters)

    def remove_many(self, keys: Iterable[Id]) -> None:
        """Remove all that each of the ids has: all, or, when one is not known or is given twice, none."""
        if isinstance(keys, str | bytes) or not _is_iterable(keys):
            raise PenstockError(f"ids come as a list, not as {type(keys).__name__}")
        checked = []
        for at, key in enumerate(keys):
            try:
                checked.append(check_id(key))
            except PenstockError as error:
                raise error.in_row(at) from None
        try:
            self._held().remove(checked)
        except HandedOverError:
            self._store.remove(checked)

    def compact(self) -> None:
        """Merge everything into one table now, and let go of all that was removed."""
        self._store.compact()

    def learn(
        self,
        events: "pa.RecordBatch | pa.Table | Iterable[Event | Mapping[str, object] | None]",
        *,
        unsupported: Unsupported = "refuse",
    ) -> None:
        """Compile anew, knowing that events look like these: which attributes they have, and which values.

        Matching learns by itself from the events that it sees; this is for those who do not want to wait.
        """
        store = self._store
        with store.lock:
            snapshot = store.snapshot()
            for batch in self._batches(events, unsupported, snapshot):
                snapshot.sample.see(snapshot.completed(batch, counted=True))
            store.compact(anew=True)

    # Matching

    def match(self, event: Event | Mapping[str, object], *, unsupported: Unsupported = "refuse") -> list[Id]:
        """The ids, sorted, of the predicates that match the event."""
        snapshot = self._snapshot()
        given = as_event(event, snapshot.counting(unsupported)).attributes
        attributes = snapshot.times.read_event(given)
        builder = BatchBuilder(snapshot.names)
        builder.add(attributes)
        batch = builder.build()
        snapshot.times.note(batch, snapshot.sample.observed)
        snapshot.sample.see_one(attributes, batch)
        if isinstance(snapshot, PlainSnapshot):
            return snapshot.match(attributes)
        self._tidy()
        return self._match(snapshot, snapshot.completed(batch, counted=True))[0]

    def match_batch(
        self,
        events: "pa.RecordBatch | pa.Table | Iterable[Event | Mapping[str, object] | None]",
        *,
        unsupported: Unsupported = "refuse",
    ) -> Matches:
        """What each event matches: the rows of an Arrow table or record batch, or a list of dicts or events.

        Null is absence: None in a list, a null in an array of structs and a row of nulls are events without
        attributes. An array of structs is taken for the table of their fields.
        """
        snapshot = self._snapshot()
        batches = self._batches(events, unsupported, snapshot)
        found = [self._match_seen(snapshot, batch) for batch in batches]
        self._tidy()
        self._warn(snapshot.sample.observed)
        return found[0] if len(found) == 1 else _joined(found, snapshot)

    def match_json(
        self, lines: str | bytes | bytearray | memoryview, *, unsupported: Unsupported = "refuse"
    ) -> Matches:
        """What each event of JSON lines matches. Attributes that no filter names are not decoded."""
        from penstock.matching.json_events import read_json_lines

        if isinstance(lines, str):
            try:
                lines = lines.encode()
            except UnicodeEncodeError as error:
                raise EventError(f"JSON lines: {error.reason} at character {error.start}") from None
        if not isinstance(lines, bytes | bytearray | memoryview):
            raise EventError(f"JSON lines are text or bytes, not {type(lines).__name__}")
        if isinstance(lines, memoryview) and not lines.c_contiguous:
            lines = lines.tobytes()
        snapshot = self._snapshot()
        batch = read_json_lines(lines, self._wanted_names(snapshot), snapshot.counting(unsupported))
        snapshot.sample.observed.look_at_lines(lines)
        self._tidy()
        found = self._match_seen(snapshot, batch)
        self._warn(snapshot.sample.observed)
        return found

    def match_packed(self, data: "Buffer", offsets: "ArrayLike", *, counted: bool = True) -> Matches:
        """What each event matches of many that are laid end to end, in the form of `penstock.model.packed`.

        Event i is `data[offsets[i]:offsets[i + 1]]`. All of each is checked, also what no filter names. With
        `counted=False` what they have does not count for `disagreements`.
        """
        from penstock.matching.packed_events import read_packed

        snapshot = self._snapshot()
        batch = read_packed(data, offsets, self._wanted_names(snapshot))
        if counted:
            snapshot.sample.observed.look_at_packed(data, offsets)
        if isinstance(snapshot, PlainSnapshot):
            # Whoever asks is a broker, which must not stand still.
            return self._match_plainly(snapshot, batch, Work(), counted=counted)
        self._untidied += len(batch.start)
        if self._untidied >= _TIDY_EVERY:
            self._untidied = 0
            self._tidy()
        return self._match_seen(snapshot, batch, counted=counted)

    def _wanted_names(self, snapshot: "Snapshot | PlainSnapshot") -> "WantedNames":
        """The names of a snapshot, made ready for kernels that read events."""
        names, known = snapshot.names, self._wanted
        if known is not None and known.names is names and known.seen == len(names):
            return known.wanted
        from penstock.matching.json_events import WantedNames

        texts = list(names)
        if known is not None and known.names is names and all(map(is_computed, texts[known.seen :])):
            # Computed attributes are in no event: nothing more is wanted.
            wanted = known.wanted
        else:
            wanted = WantedNames(texts)
        self._wanted = _Ready(names, len(texts), wanted)
        return wanted

    @property
    def names(self) -> dict[str, int]:
        """The attributes that filters name, and the numbers under which batches have them."""
        store = self._kept
        with store.lock:
            return dict(store.names)

    @property
    def name_count(self) -> int:
        """How many attributes filters have named, also some that have been removed since."""
        return len(self._kept.names)

    def tables(self) -> "list[Table]":
        """The compiled tables."""
        from penstock.matching.parts import Part

        return [part.table for part in self._store.snapshot().parts if isinstance(part, Part)]

    def match_encoded(self, batch: Batch) -> Matches:
        """What each event of a batch matches, which is encoded with the numbers of `names` as of now.

        It may have one attribute that no filter names, under the number `len(names)`. `compact`, and what
        calls it (`learn`, `save`), may number attributes anew: no other thread may do so meanwhile.
        """
        snapshot = self._snapshot()
        self._tidy()
        return self._match_seen(snapshot, batch)

    def _batches(
        self,
        events: "pa.RecordBatch | pa.Table | Iterable[Event | Mapping[str, object] | None]",
        unsupported: Unsupported,
        snapshot: "Snapshot | PlainSnapshot",
    ) -> list[Batch]:
        names, observed = snapshot.names, snapshot.sample.observed
        unsupported = snapshot.counting(unsupported)
        is_arrow = hasattr(events, "__arrow_c_stream__") or hasattr(events, "__arrow_c_array__")
        if isinstance(events, Mapping | str | bytes) or not (is_arrow or _is_iterable(events)):
            raise EventError(f"a batch is a table or a list of events, not {type(events).__name__}")
        if not is_arrow:
            return [batch_of_events(observed.looking(cast("Iterable[Any]", events)), names, unsupported)]
        from penstock.matching.arrow_events import batch_of_arrow, record_batches

        tables = record_batches(events, _ROWS)
        made, row = [], 0
        for rows in tables:
            observed.look_at_columns(rows.schema)
            made.append(batch_of_arrow(rows, names, unsupported, row))
            row += rows.num_rows
        return made or [batch_of_events([], names)]

    def _match_seen(
        self, snapshot: "Snapshot | PlainSnapshot", given: Batch, *, counted: bool = True
    ) -> Matches:
        """What each event matches; of which the sample takes note."""
        if isinstance(snapshot, PlainSnapshot):
            return self._match_plainly(snapshot, given, snapshot.work, counted=counted)
        batch = snapshot.completed(given, counted=counted)
        if counted:
            # As it was given: one that is completed has no lists any more.
            snapshot.times.note(given, snapshot.sample.observed)
        snapshot.sample.see(batch, counted=counted)
        return self._match(snapshot, batch)

    def _match_plainly(
        self, snapshot: PlainSnapshot, batch: Batch, work: Work, *, counted: bool = True
    ) -> Matches:
        """The same without kernels, until they have come, or there is more to do than they are waited for."""
        batch = snapshot.completed(batch)
        if counted:
            snapshot.times.note(batch, snapshot.sample.observed)
        snapshot.sample.see(batch, counted=counted)
        rows: list[list[int]] = []
        is_whole = snapshot.find(batch, rows, work, lambda: KERNELS.are_here)
        offsets, numbers = as_found(rows)
        if not is_whole:
            compiled = self._compiled_from(snapshot)
            rest = compiled.completed(without_first(batch, len(rows)))
            more = self._match(compiled, rest)
            offsets = np.concatenate((offsets, offsets[-1] + more.offsets[1:]))
            numbers = np.concatenate((numbers, more.numbers))
        return Matches(offsets, numbers, snapshot.ids, integers=snapshot.integers)

    def _compiled_from(self, snapshot: PlainSnapshot) -> "Snapshot":
        """The same filters in a compiled store. Waits for kernels."""
        KERNELS.wait()
        store = snapshot.store
        with store.lock:
            if self._kept is store and store.snapshot() is snapshot:
                self._hand_over(store)
            return store.heir_of(snapshot)

    def _match(self, snapshot: "Snapshot", batch: Batch) -> Matches:
        return Matches(*self._find(snapshot, batch), snapshot.ids, integers=snapshot.integers)

    def _find(self, snapshot: "Snapshot", batch: Batch) -> "tuple[NDArray[np.int64], NDArray[np.int32]]":
        """Offsets and numbers of the ids that each event matches."""
        ids = snapshot.ids.count
        if not snapshot.parts:
            return np.zeros(len(batch.start) + 1, np.int64), np.zeros(0, np.int32)
        names = snapshot.names
        if not snapshot.shared:
            # The last is the smallest: what it finds is handed on from table to table.
            more = None
            for part in reversed(snapshot.parts):
                more = part.match(batch, names, ids, more=more)
            return cast("Found", more)
        from penstock.matching.kernels.results import join

        found = [part.match(batch, names, ids) for part in snapshot.parts]
        offsets, numbers = found[0]
        stamp = np.zeros(ids + 1, np.int64)
        epoch = 0
        for other in found[1:]:
            offsets, numbers, epoch = join(offsets, numbers, other.offsets, other.numbers, stamp, epoch)
        return offsets, numbers

    def _warn(self, observed: "Observed") -> None:
        """Warn once of each new disagreement, if it is time for a look: that takes longer than a match."""
        if not self.warns or observed.events < max(self._warns_at, len(self)):
            return
        self._warns_at = _WARNED_AGAIN * observed.events
        for one in self.disagreements(patience=_WARNED_AFTER):
            key = one.attribute, one.problem
            if key not in self._warned:
                self._warned.add(key)
                warnings.warn(str(one), DisagreementWarning, stacklevel=3)

    # Where filters are

    def _held(self) -> "Store | PlainStore":
        """The filters, wherever they are now."""
        store = self._kept
        return self._store if isinstance(store, PlainStore) and KERNELS.are_here else store

    @property
    def _store(self) -> "Store":
        """The filters in a compiled store. Waits for kernels where there are none."""
        store = self._kept
        if not isinstance(store, PlainStore):
            return store
        KERNELS.wait()
        with store.lock:
            found = self._kept
            return self._hand_over(found) if isinstance(found, PlainStore) else found

    def _hand_over(self, store: PlainStore) -> "Store":
        """Compile the filters of a store, whose lock is held."""
        made = self._kept = store.hand_over()
        return made

    def _snapshot(self) -> "Snapshot | PlainSnapshot":
        try:
            return self._held().snapshot()
        except HandedOverError:
            return self._store.snapshot()

    def _tidy(self) -> None:
        store = self._kept
        if not isinstance(store, PlainStore):
            store.tidy()

    # Looking

    def explain(
        self, event: Event | Mapping[str, object], *, unsupported: Unsupported = "refuse"
    ) -> "Explanations":
        """Which filters match the event, and by which constraint each was found: a list.

        Printed, it also says what filters and the events seen before disagree about.
        """
        from penstock.matching.explain import Explanations, explanations

        snapshot = self._store.snapshot()
        attributes = snapshot.times.read_event(as_event(event, unsupported).attributes)
        builder = BatchBuilder(snapshot.names)
        builder.add(attributes)
        found = explanations(snapshot, snapshot.names, snapshot.completed(builder.build()))
        return Explanations(found, self.disagreements)

    def summary(self, matches: "Matches | Iterable[Matches]") -> "Summary":
        """How often each id matched in some batches: the noisiest, and those that never matched.

        With what filters and the events seen so far disagree about.
        """
        from penstock.matching.summary import Tally

        tally = Tally()
        for batch in [matches] if isinstance(matches, Matches) else matches:
            tally.see(batch)
        return tally.summary(self.ids(), self.disagreements())

    def why(
        self, key: Id, event: Event | Mapping[str, object], *, unsupported: Unsupported = "refuse"
    ) -> Reasons:
        """Why an id matches the event, or does not: each condition, and what the event has there.

        Raises UnknownSubscriptionError if the id has no filters.
        """
        found = self.filters(key)
        if not found:
            raise UnknownSubscriptionError(f"nothing is subscribed under {key!r:.80}")
        attributes = self._snapshot().times.read_event(as_event(event, unsupported).attributes)
        rules = self.text_rules(texts_like_times(found, attributes))
        return reasons(found, Event.from_flat(dict(attributes)), text_rules=rules)

    def text_rules(self, places: Collection[Place]) -> dict[Place, str]:
        """Of those of some attributes whose text rules keep from being read as a time: one of these rules."""
        from penstock.matching.disagreements import text_rules

        open_to_rules = set(places) - self.texts.never if places and self.texts.by_rules else set()
        found = text_rules(self._snapshot(), open_to_rules)
        return {place: rule_shown(key, place, self.filters(key)) for place, key in found.items()}

    def stats(
        self,
        events: "pa.RecordBatch | pa.Table | Iterable[Event | Mapping[str, object] | None] | None" = None,
        *,
        top: int = 10,
        unsupported: Unsupported = "refuse",
    ) -> "Stats":
        """Numbers of filters and constraints, bytes, and which filters and constraints cost most.

        Costs are counted on the events given, or on a sample of those matched lately.
        """
        from penstock.matching.stats import stats_of

        store = self._store
        snapshot = store.snapshot()
        batch = (
            snapshot.sample.batch(snapshot.names)
            if events is None
            else joined(self._batches(events, unsupported, snapshot))
        )
        batch = None if batch is None else snapshot.completed(batch)
        return stats_of(snapshot, snapshot.names, batch, store.home.nbytes, store.live_ids, top)

    @property
    def texts(self) -> TimeTexts:
        """Of which attributes texts are read as times, whatever rules ask."""
        return self._held().texts

    @texts.setter
    def texts(self, texts: TimeTexts) -> None:
        try:
            self._held().texts = texts
        except HandedOverError:
            self._store.texts = texts

    @property
    def read_as_times(self) -> frozenset[Place]:
        """The attributes whose texts are read as times: by the schema, or because rules ask for times."""
        return self._snapshot().times.names

    @property
    def asked(self) -> Asked:
        """What the filters compare with times and with strings."""
        from penstock.matching.disagreements import families_of

        return Asked.of(families_of(self._snapshot()))

    @property
    def observed(self) -> "Observed":
        """What the events seen so far had, counted."""
        return self._snapshot().sample.observed

    def disagreements(
        self,
        *,
        patience: int = 1,
        concerning: "Callable[[Id], bool] | None" = None,
        ids_max: int = IDS_SHOWN,
    ) -> Disagreements:
        """What the filters and the events seen so far disagree about, in the order of attributes.

        An attribute is looked for from when a filter names it on; `patience` is in how many events before it
        is said that none has it, or none in the family that filters ask for. `concerning` says by id which
        filters to look into; each disagreement names `ids_max` of them.

        Attributes that filters name and no event had, or had in other families only; values that no filter
        asks for; values that were left out (`unsupported="skip"`). With a schema also what events had that it
        does not allow. `str()` of each is a sentence.
        """
        from penstock.matching.disagreements import disagreements, with_notes

        snapshot = self._snapshot()
        found = disagreements(
            snapshot,
            snapshot.sample.observed,
            self.texts,
            patience=patience,
            concerning=concerning,
            ids_max=ids_max,
        )
        if not isinstance(snapshot, PlainSnapshot) and snapshot.computed.lists:
            from penstock.matching.inside_lists import disagreements_inside

            events = snapshot.sample.observed.events
            inside = disagreements_inside(
                snapshot, events, patience=patience, ids_max=ids_max, concerning=concerning
            )
            found += with_notes(inside, self.texts)
        if self._schema is not None:
            found += self.misfits(self._schema)
        return Disagreements(sorted(map(self._with_rule, found), key=lambda one: one.attribute))

    def _with_rule(self, found: "Disagreement") -> "Disagreement":
        """With what its first rule asks for, where events have values that rules do not."""
        if found.problem not in ("mixed", "misfit", "value") or found.rule or not found.ids:
            return found
        try:
            filters = self.filters(found.ids[0])
        except PenstockError:
            # Somebody has removed it meanwhile.
            return found
        return msgspec.structs.replace(found, rule=asked_of(outermost(found.attribute), filters))

    def misfits(self, schema: Schema) -> "list[Disagreement]":
        """What the events seen so far had that a schema does not allow, in the order of attributes.

        Families of what filters name, of all events; values that it does not list, and names, of a sample.
        """
        from penstock.matching.disagreements import misfits

        _check_schema(schema)
        snapshot = self._snapshot()
        return misfits(snapshot, snapshot.sample.observed, schema)

    def check(self, schema: Schema, *, basis: "Basis" = "schema") -> Disagreements:
        """What the filters and a schema of events disagree about, in the order of attributes.

        `basis` says where the schema is from, for messages.
        """
        from penstock.matching.disagreements import disagreements_by

        _check_schema(schema)
        return Disagreements(disagreements_by(self._snapshot(), schema, basis))

    def filters(self, key: Id) -> list[Filter]:
        """The filters that an id has."""
        key = check_id(key)
        try:
            found = self._held().filters(key)
        except HandedOverError:
            found = self._store.filters(key)
        return sorted(found, key=Filter.sort_key)

    def ids(self) -> list[Id]:
        """All ids that have filters, in order."""
        try:
            found = self._held().keys()
        except HandedOverError:
            found = self._store.keys()
        return sorted(found, key=id_order)

    def __len__(self) -> int:
        """How many ids there are."""
        return self._kept.live_ids

    def __contains__(self, key: object) -> bool:
        try:
            key = check_id(key)
        except PenstockError:
            # What cannot be an id is none.
            return False
        try:
            return self._held().has(key)
        except HandedOverError:
            return self._store.has(key)

    def __repr__(self) -> str:
        return f"<Matcher of {len(self):,} ids>"

    def _repr_html_(self) -> str:
        names = sorted(plain_names(self.names))
        told = f"A matcher of {len(self):,} ids, whose filters name these attributes:"
        return html.paragraph(told) + html.table(("attribute",), ((name,) for name in names), len(names))

    # Saving

    def __reduce__(self) -> NoReturn:
        # Also what copy.copy and copy.deepcopy call: a copy that shares filters would change with the first.
        raise TypeError(
            "a Matcher cannot be pickled or copied: call save(folder), and Matcher.load(folder) "
            "for each copy or in each process"
        )

    def save(self, path: "str | PathLike[str]") -> None:
        """Write everything into a folder that `load` can map into memory. See `penstock.matching.storage`."""
        from penstock.matching.disagreements import families_of
        from penstock.matching.storage import SavedTimes, save

        store = self._store
        with store.lock:
            table, ids, learnt = store.compact(), store.ids.arrays(), store.learnt
            snapshot = store.snapshot()
        always, never, _ = store.texts
        times = SavedTimes(in_order(always), in_order(never), Asked.of(families_of(snapshot)))
        save(path, table, ids, learnt=learnt, times=times)

    @classmethod
    def load(
        cls, path: "str | PathLike[str]", *, learn: bool = True, schema: Schema | None = None
    ) -> "Matcher":
        """The matcher that was saved in a folder; its arrays are mapped, and read when they are needed.

        With a `schema` of events, filters that do not fit it are refused. Without one, texts are read as
        times where the schema of the saved matcher says so.

        With `learn=False` it stays as it was saved: where many processes map one table, none of them should
        compile a copy of its own because of the events that it saw. It does not warn either.
        """
        from penstock.matching.storage import load
        from penstock.matching.store import Store

        KERNELS.wait()
        saved = load(path)
        made = cls(schema=schema)
        made.warns = learn
        made._kept = Store.of_table(
            saved.table,
            saved.ids,
            learnt=saved.learnt or not learn,
            texts=saved.times.texts() if schema is None else TimeTexts.of_schema(schema),
            asked=saved.times.asked,
        )
        if schema is not None:
            refuse(made.check(schema))
        return made


def _pairs(subscriptions: object) -> Iterable[Any]:
    """What should be pairs of an id and a filter."""
    if isinstance(subscriptions, Mapping):
        return subscriptions.items()
    if hasattr(subscriptions, "__arrow_c_stream__"):
        raise FilterError("subscriptions come as pairs (id, filter); add_constraints takes Arrow tables")
    if isinstance(subscriptions, str | bytes):
        raise FilterError(
            "subscriptions are a dict or pairs (id, filter), not one text: "
            "Matcher({'late': \"dep_delay > 60\"}); penstock.parse(…).matches(event) does without an id"
        )
    if not _is_iterable(subscriptions):
        kind = type(subscriptions).__name__
        raise FilterError(f"subscriptions come as a list of pairs (id, filter) or as a dict, not as {kind}")
    return cast("Iterable[Any]", subscriptions)


def _check_schema(schema: object) -> None:
    if not isinstance(schema, Schema):
        raise InputError(
            f"a schema is a penstock.Schema, not {type(schema).__name__}: "
            "Schema.from_json(…) reads a JSON Schema, Schema.from_arrow(table.schema) takes columns"
        )


def _is_iterable(given: object) -> bool:
    # Asking beforehand: a TypeError while it goes on is the caller's own.
    return hasattr(given, "__iter__") or hasattr(given, "__getitem__")


def _new_store() -> "Store":
    # Not before: it brings the compiler with it, which takes a while to import.
    from penstock.matching.store import Store

    KERNELS.wait()
    return Store()


def _joined(found: list[Matches], snapshot: "Snapshot | PlainSnapshot") -> Matches:
    offsets = offsets_of(np.concatenate([np.diff(matches.offsets) for matches in found]))
    numbers = np.concatenate([matches.numbers for matches in found])
    return Matches(offsets, numbers, snapshot.ids, integers=snapshot.integers)
