"""Workloads at work: filters and events of a scenario, in every form that an engine may want.

A load has the events of the warm-up first, then those that are measured. `first` gives the same load with
fewer filters, for engines that cannot cope with all.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.bench.scenario import (
    ForwardingWorkload,
    Input,
    RangesWorkload,
    RulesWorkload,
    Workload,
)
from penstock.errors import InputError
from penstock.filters.filter import Filter
from penstock.workloads import forwarding, ranges, rules, tables

if TYPE_CHECKING:
    import pyarrow as pa


class Load(Protocol):
    """What each load can do."""

    @property
    def workload(self) -> Workload:
        """What it was made from."""

    @property
    def constraints(self) -> int:
        """How many constraints the filters have."""

    def ids(self) -> "pa.Array":
        """The id of each filter."""

    def table(self) -> "pa.Table":
        """The filters as a table of constraints."""

    def filter(self, i: int) -> Filter:
        """A filter of the algebra."""

    def record_batch(self, begin: int, end: int, *, dictionary: bool = False) -> "pa.RecordBatch":
        """Events as Arrow rows, if they can be."""

    def json_lines(self, begin: int, end: int) -> bytes:
        """Events as JSON lines."""

    def dicts(self, begin: int, end: int) -> Sequence[dict[str, Any]]:
        """Events as dicts."""

    def first(self, filters: int) -> "Load":
        """The load with its first filters only."""


Made = TypeVar("Made", "ForwardingLoad", "RulesLoad", "RangesLoad")


class ForwardingLoad:
    """The forwarding paper's workload."""

    def __init__(self, workload: ForwardingWorkload, events: int, seed: int) -> None:
        self.workload = workload
        self.seed = seed
        self.filters = forwarding.filters(workload.filters, seed)
        self.messages = forwarding.messages(events, seed)

    @property
    def constraints(self) -> int:
        """How many constraints the filters have."""
        return len(self.filters.attribute)

    def interfaces(self) -> NDArray[np.int32]:
        """The number of each filter's id."""
        count = self.workload.filters
        if self.workload.ids is None:
            return np.arange(count, dtype=np.int32)
        return forwarding.interfaces(count, self.workload.ids, self.seed)

    def ids(self) -> "pa.Array":
        """The id of each filter."""
        return tables.ids(self.interfaces(), text=self.workload.text_ids)

    def table(self) -> "pa.Table":
        """The filters as a table of constraints."""
        return tables.forwarding_table(self.filters, self.ids())

    def filter(self, i: int) -> Filter:
        """A filter of the algebra."""
        return forwarding.as_filter(self.filters, i)

    def record_batch(self, begin: int, end: int, *, dictionary: bool = False) -> "pa.RecordBatch":
        """Refused: an attribute has integers and strings, a column cannot."""
        raise InputError("events of the forwarding workload are no Arrow rows: say input = 'json' or 'dicts'")

    def json_lines(self, begin: int, end: int) -> bytes:
        """Events as JSON lines."""
        return forwarding.as_json_lines(self.some_messages(begin, end))

    def dicts(self, begin: int, end: int) -> Sequence[dict[str, Any]]:
        """Events as dicts."""
        return [forwarding.as_event(self.messages, i) for i in range(begin, end)]

    def some_messages(self, begin: int, end: int) -> forwarding.Messages:
        """Some of the messages, as flat arrays."""
        known, offsets = self.messages, self.messages.offsets[begin : end + 1]
        here = slice(offsets[0], offsets[-1])
        return forwarding.Messages(
            offsets - offsets[0], known.attribute[here], known.is_string[here], known.value[here]
        )

    def first(self, filters: int) -> "ForwardingLoad":
        """The load with its first filters only."""
        made = _copy(self, filters)
        known, offsets = self.filters, self.filters.filter_offsets[: filters + 1]
        here = slice(offsets[-1])
        made.filters = forwarding.Constraints(
            offsets, known.attribute[here], known.operator[here], known.is_string[here], known.value[here]
        )
        return made


class RulesLoad:
    """Rules on codes."""

    def __init__(self, workload: RulesWorkload, events: int, seed: int) -> None:
        self.workload = workload
        self.filters = rules.filters(workload.filters, seed, workload.values)
        self.events = rules.events(events, seed, workload.values)

    @property
    def constraints(self) -> int:
        """How many constraints the filters have."""
        return 3 * self.workload.filters

    def ids(self) -> "pa.Array":
        """The id of each filter."""
        return tables.ids(np.arange(self.workload.filters), text=self.workload.text_ids)

    def table(self) -> "pa.Table":
        """The filters as a table of constraints."""
        return rules.constraints_table(self.filters, self.ids())

    def filter(self, i: int) -> Filter:
        """A filter of the algebra."""
        return rules.as_filter(self.filters, i)

    def record_batch(self, begin: int, end: int, *, dictionary: bool = False) -> "pa.RecordBatch":
        """Events as Arrow rows."""
        return rules.as_record_batch(self._some(begin, end), dictionary=dictionary)

    def json_lines(self, begin: int, end: int) -> bytes:
        """Events as JSON lines."""
        return rules.as_json_lines(self._some(begin, end))

    def dicts(self, begin: int, end: int) -> Sequence[dict[str, Any]]:
        """Events as dicts."""
        return [rules.as_event(self.events, i) for i in range(begin, end)]

    def first(self, filters: int) -> "RulesLoad":
        """The load with its first filters only."""
        made = _copy(self, filters)
        known = self.filters
        made.filters = rules.Rules(
            attribute=known.attribute[:filters],
            equal=known.equal[:filters],
            included=known.included[:filters],
            excluded=known.excluded[:filters],
            values=known.values,
        )
        return made

    def _some(self, begin: int, end: int) -> rules.Events:
        known = self.events
        return rules.Events(
            code=known.code[begin:end],
            id=known.id[begin:end],
            latency_ms=known.latency_ms[begin:end],
            sequence=known.sequence[begin:end],
            values=known.values,
        )


class RangesLoad:
    """Intervals on integers."""

    def __init__(self, workload: RangesWorkload, events: int, seed: int) -> None:
        self.workload = workload
        self.filters = ranges.filters(workload.filters, seed, workload.width)
        self.events = ranges.events(events, seed)

    @property
    def constraints(self) -> int:
        """How many constraints the filters have."""
        return ranges.INTERVALS * self.workload.filters

    def ids(self) -> "pa.Array":
        """The id of each filter."""
        return tables.ids(np.arange(self.workload.filters), text=self.workload.text_ids)

    def table(self) -> "pa.Table":
        """The filters as a table of constraints."""
        return ranges.constraints_table(self.filters, self.ids())

    def filter(self, i: int) -> Filter:
        """A filter of the algebra."""
        return ranges.as_filter(self.filters, i)

    def record_batch(self, begin: int, end: int, *, dictionary: bool = False) -> "pa.RecordBatch":
        """Events as Arrow rows; integers have no dictionaries."""
        return ranges.as_record_batch(self.events[begin:end])

    def json_lines(self, begin: int, end: int) -> bytes:
        """Events as JSON lines."""
        return ranges.as_json_lines(self.events[begin:end])

    def dicts(self, begin: int, end: int) -> Sequence[dict[str, Any]]:
        """Events as dicts."""
        return [ranges.as_event(self.events, i) for i in range(begin, end)]

    def first(self, filters: int) -> "RangesLoad":
        """The load with its first filters only."""
        made = _copy(self, filters)
        made.filters = ranges.Ranges(*(column[:filters] for column in self.filters))
        return made


def make(workload: Workload, events: int, seed: int) -> Load:
    """The load of a workload, with so many events."""
    if isinstance(workload, ForwardingWorkload):
        return ForwardingLoad(workload, events, seed)
    if isinstance(workload, RulesWorkload):
        return RulesLoad(workload, events, seed)
    return RangesLoad(workload, events, seed)


def events_as(load: Load, kind: Input, begin: int, end: int) -> Any:
    """Some events in the form that a scenario hands over."""
    if kind == "json":
        return load.json_lines(begin, end)
    if kind == "dicts":
        return load.dicts(begin, end)
    return load.record_batch(begin, end, dictionary=kind == "dictionary")


def _copy(load: Made, filters: int) -> Made:
    """The same load, which believes to have so many filters."""
    made = object.__new__(type(load))
    made.__dict__.update(load.__dict__)
    made.workload = msgspec.structs.replace(load.workload, filters=filters)
    return made
