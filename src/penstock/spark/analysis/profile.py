"""What the attributes of events are like: `profile(events)`, a row for each attribute.

    name            with dots, where structs were flattened
    family, type    bool, number, string or time; and Spark's type
    rows            of all events
    present         rows that have the attribute, as a number and (`presence`) as a share
    distinct        distinct values; exact where `distinct_exact` (up to 2,048), else estimated within about
                    2.2 % (the standard error)
    nan             NaNs, which are present, but neither distinct values nor in what follows
    unusable        values that no event can carry, counted as absent: times outside of 1677 to 2262, strings
                    that are no UTF-8 or longer than the limit
    min, max        as text; of strings the first 256 characters
    edges, counts   of numbers and times: bins of about equally many values, as numpy.histogram has them (the
                    last one with both ends); infinities are in the outermost bins; the counts are exact
    top             the most frequent values with their exact counts. Where `distinct_exact`, of all values;
                    else of those with a share above 1 / 513, none of which is missed
    rest            how many values are not among the top
    others          of strings and bools: some of the other values, an even sample of the distinct ones

Lists are left out.

One job over the data where no attribute has more than 2,048 distinct values; else a second one, over the
attributes that do. Each task keeps some 100 KB for an attribute of short values, whatever the number of rows,
and sends as much; tasks merge what tasks have sent, and the driver gets it once an attribute. The result is
the same however the events are partitioned. If reading them is dear, or not the same twice, cache them.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.errors import InputError
from penstock.model.events import Unsupported
from penstock.model.values import Family, Time
from penstock.spark.analysis import binning
from penstock.spark.analysis.binning import Question
from penstock.spark.analysis.distributions import AttributeProfile, Frequency, distributions, sample_events
from penstock.spark.analysis.sketches import distinct_values
from penstock.spark.analysis.summaries import (
    COMMON,
    NOTHING,
    SAMPLE,
    Summary,
    decode,
    encode,
    merged,
    summary_of,
)
from penstock.spark.events import Attribute, attributes_of
from penstock.spark.python import ready

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

__all__ = ["PROFILE", "distributions", "profile", "sample_events"]

PROFILE: Final = (
    "name string, family string, type string, rows long, present long, presence double, distinct long, "
    "distinct_exact boolean, nan long, unusable long, min string, max string, edges array<string>, "
    "counts array<long>, top array<struct<value: string, count: long>>, rest long, others array<string>"
)
"""The columns of a profile."""

_BINS_MAX: Final = 1_024
"""Bins cannot be finer than the sample that their edges are drawn from."""

_OTHERS: Final = 64
"""Values that stand for those that are not among the top."""

_SUMMARIES: Final = "attribute int, summary binary"
_ANSWERS: Final = "attribute int, slot int, count long"


def profile(
    events: "DataFrame", *, bins: int = 32, top: int = 20, unsupported: Unsupported = "refuse"
) -> "DataFrame":
    """What the attributes of events are like; see the module for the columns.

    The data is read at once, once or twice; what comes back is small. Columns that cannot be attributes are
    refused, or left out with unsupported="skip".
    """
    _check("bins", bins, 1, _BINS_MAX)
    _check("top", top, 0, COMMON)
    if events.isStreaming:
        raise InputError("a stream has no end to be profiled at: give profile() what it has written so far")
    attributes = [
        each for each in attributes_of(events.schema, unsupported) if each.family is not Family.LIST
    ]
    _check_names(attributes)
    made = _profiles(events, attributes, bins, top) if attributes else []
    return events.sparkSession.createDataFrame(_table(made), PROFILE)


def _check_names(attributes: list[Attribute]) -> None:
    """Refuse names that Spark would not tell apart where it looks columns up."""
    seen: dict[str, str] = {}
    for attribute in attributes:
        other = seen.setdefault(attribute.name.lower(), attribute.name)
        if other != attribute.name:
            both = f"{other!r:.80} and {attribute.name!r:.80}"
            raise InputError(f"the columns {both} differ in case only: rename one")


def _table(made: list[AttributeProfile]) -> "pa.Table":
    import pyarrow as pa

    texts, longs = pa.list_(pa.string()), pa.list_(pa.int64())
    kinds = {
        "presence": pa.float64(),
        "distinct_exact": pa.bool_(),
        "edges": texts,
        "counts": longs,
        "top": pa.list_(pa.struct([("value", pa.string()), ("count", pa.int64())])),
        "others": texts,
        **dict.fromkeys(("name", "family", "type", "min", "max"), pa.string()),
    }
    fields = [(name, kinds.get(name, pa.int64())) for name in AttributeProfile.__struct_fields__]
    return pa.Table.from_pylist(msgspec.to_builtins(made), pa.schema(fields))


def _check(what: str, given: int, least: int, most: int) -> None:
    if type(given) is not int or not least <= given <= most:
        raise InputError(f"{what} is a whole number from {least} to {most:,}, not {given!r:.40}")


def _profiles(
    events: "DataFrame", attributes: list[Attribute], bins: int, top: int
) -> list[AttributeProfile]:
    summaries = _first_look(events, attributes)
    questions = {at: binning.question(summary, bins) for at, summary in summaries.items()}
    open_ones = {at: asked for at, asked in questions.items() if not summaries[at].is_complete}
    answers = _second_look(events, attributes, open_ones) if open_ones else {}
    return [
        profile_of(attribute, summaries[at], questions[at], answers.get(at), top)
        for at, attribute in enumerate(attributes)
    ]


def _first_look(events: "DataFrame", attributes: list[Attribute]) -> dict[int, Summary]:
    """A summary of each attribute, by its place."""
    ready(events.sparkSession)
    flat = events.select(*(_column(attribute, at) for at, attribute in enumerate(attributes)))
    parts = flat.mapInArrow(partial(summarise, len(attributes)), _SUMMARIES)
    rows = parts.repartition("attribute").mapInArrow(merge_summaries, _SUMMARIES).collect()
    found = {row.attribute: decode(bytes(row.summary)) for row in rows}
    return {at: found.get(at, NOTHING) for at in range(len(attributes))}


def _second_look(
    events: "DataFrame", attributes: list[Attribute], questions: Mapping[int, Question]
) -> dict[int, NDArray[np.int64]]:
    """The counts that were asked for, by the place of the attribute."""
    from pyspark.sql import functions

    flat = events.select(*(_column(attributes[at], at) for at in questions))
    parts = flat.mapInArrow(partial(answer_questions, dict(questions)), _ANSWERS)
    counts = {
        at: np.zeros(binning.bin_count(asked) + len(asked.values), np.int64)
        for at, asked in questions.items()
    }
    for row in parts.groupBy("attribute", "slot").agg(functions.sum("count").alias("total")).collect():
        counts[row.attribute][row.slot] = row.total
    return counts


def _column(attribute: Attribute, at: int) -> "Column":
    from pyspark.sql import functions

    path = ".".join("`" + name.replace("`", "``") + "`" for name in attribute.path)
    return functions.col(path).alias(f"c{at}")


def summarise(attributes: int, batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """A summary of each of so many columns, over all batches of a task."""
    found = [NOTHING] * attributes
    for batch in batches:
        found = [
            merged(known, summary_of(column)) for known, column in zip(found, batch.columns, strict=True)
        ]
    yield from _sent(dict(enumerate(found)))


def merge_summaries(batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """What several tasks have found, as one summary for each attribute."""
    found: dict[int, Summary] = {}
    for batch in batches:
        for at, summary in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            found[at] = merged(found.get(at, NOTHING), decode(summary))
    yield from _sent(found)


def _sent(summaries: Mapping[int, Summary]) -> "Iterator[pa.RecordBatch]":
    import pyarrow as pa

    for at, summary in summaries.items():
        # One at a time: all of them encoded might fill the memory a second time.
        arrays = [pa.array([at], pa.int32()), pa.array([encode(summary)], pa.binary())]
        yield pa.record_batch(arrays, names=["attribute", "summary"])


def answer_questions(
    questions: Mapping[int, Question], batches: "Iterable[pa.RecordBatch]"
) -> "Iterator[pa.RecordBatch]":
    """The counts that are asked for, over all batches of a task; those that are not zero."""
    import pyarrow as pa

    counts: dict[int, Any] = dict.fromkeys(questions, 0)
    for batch in batches:
        for (at, asked), column in zip(questions.items(), batch.columns, strict=True):
            counts[at] = counts[at] + binning.answer(column, asked)
    for at, found in counts.items():
        slots = np.flatnonzero(found)
        if np.ndim(found) and len(slots):
            yield pa.record_batch(
                [
                    pa.array(np.full(len(slots), at), pa.int32()),
                    pa.array(slots, pa.int32()),
                    pa.array(found[slots], pa.int64()),
                ],
                names=["attribute", "slot", "count"],
            )


def profile_of(
    attribute: Attribute,
    summary: Summary,
    asked: Question,
    answered: NDArray[np.int64] | None,
    top: int,
) -> AttributeProfile:
    """The row of an attribute; `answered` is None where the sample has every value."""
    family = attribute.family
    distinct, exact = distinct_values(summary.sample, SAMPLE)
    counts = binning.answer_from_sample(summary.sample, asked) if answered is None else answered
    # Bools come as numbers, but have no bins.
    has_bins = family in (Family.NUMBER, Family.TIME)
    listed = binning.frequencies(summary, asked, answered)[:top]
    rest = summary.present - summary.nan - sum(count for _value, count in listed)
    return AttributeProfile(
        name=attribute.name,
        family=family.label,
        type=attribute.type.simpleString(),
        rows=summary.rows,
        present=summary.present,
        presence=summary.present / summary.rows if summary.rows else 0.0,
        distinct=distinct,
        distinct_exact=exact,
        nan=summary.nan,
        unusable=summary.unusable,
        min=_text(summary.low, family),
        max=_text(summary.high, family),
        edges=[str(_text(edge, family)) for edge in asked.edges.tolist()] if has_bins else [],
        counts=counts[: binning.bin_count(asked)].tolist() if has_bins else [],
        top=[Frequency(str(_text(value, family)), count) for value, count in listed],
        rest=rest,
        others=_others(summary, {value for value, _count in listed}, family) if rest and not has_bins else [],
    )


def _others(summary: Summary, listed: set[Any], family: Family) -> list[str]:
    """Some of the values that are not listed. Those of the smallest hashes are as good as drawn."""
    values = [v for v in summary.sample.values.tolist() if v is not None and v not in listed]
    return [str(_text(value, family)) for value in sorted(values[:_OTHERS])]


def _text(value: Any, family: Family) -> str | None:
    """A value as it is counted, as a profile writes it."""
    if value is None:
        return None
    if family is Family.BOOL:
        return "true" if value else "false"
    return str(Time(value) if family is Family.TIME else value)
