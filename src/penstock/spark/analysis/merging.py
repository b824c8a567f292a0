"""Which filters could be merged into one: candidates for a table of subscriptions, as a job.

Merging-based routing (Salo 2010, section 4.4) merges at each broker what comes to it. Here all subscriptions
are looked at, so that users may be told what to ask for, or a table be made smaller before it is used. How
filters are found that can be merged: `mergers`; what their merger is: `filters/merging.py`.

For perfect mergers, filters meet where they have a likeness in common: one shuffle, a row for each attribute
of each filter, and one task holds all of a likeness. For imperfect ones they are sorted into blocks as for
`covering`, and meet their neighbours there; near ones in two blocks do not meet. So both take time in
proportion to the filters, but for sorting, and the imperfect ones some milliseconds each.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import FilterError
from penstock.filters.estimate import Distribution, as_distributions
from penstock.spark.analysis.covering import blocks_for
from penstock.spark.analysis.mergers import Candidate, imperfect, likenesses, perfect
from penstock.spark.analysis.predicates import PLACE, parsed

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from penstock.filters.parsing import Language

SCHEMA: Final = "ids array<string>, merger string, perfect boolean, excess double"
"""Columns of the answer."""

Profile = Mapping[str, Distribution | Mapping[Any, float]]
"""What is known of attributes' values, as `penstock.merge` takes it."""

_ROWS: Final = 2**12
"""Rows of a batch that is handed on."""


def merge_candidates(
    subscriptions: "DataFrame",
    profile: "DataFrame | Profile | None" = None,
    *,
    budget: float = 0.0,
    language: "Language" = "sql",
) -> "DataFrame":
    """Sets of subscriptions (id, filter) that one filter could replace.

    The answer has a row for each set:

    - `ids array<string>`: the subscriptions, sorted; all ids of a filter that several have;
    - `merger string`: the filter that takes their place, in SQL, in canonical form;
    - `perfect boolean`: whether it matches exactly what they match together, or more;
    - `excess double`: the estimated share, 0 to 1, of what it matches that none of them asked for.

    With the budget 0 all are perfect. With a larger one there are others too, whose excess stays within it,
    given `profile`: what `penstock.spark.profile` said of the events, or distributions as `penstock.merge`
    takes them; where it knows nothing of an attribute, values are guessed from the filters' own constants. An
    id may be in several sets, from which to choose. Where one member covers all others there is no candidate,
    though some of the others might be merged without it: `penstock.spark.covering` finds such sets. Ids
    with a disjunction are left out. Mergers are not merged again: make them the subscriptions of a second run
    for that.

    The filters are parsed when this is called, so that a bad one raises here.
    """
    if not 0 <= budget <= 1:
        raise FilterError(f"a budget is a share between 0 and 1, not {budget!r:.40}")
    known = _distributions(profile)
    rows, size = parsed(subscriptions, language)
    found = (
        rows.select("id", "data")
        .mapInArrow(_spread, "likeness binary, id string, data binary")
        .repartition("likeness")
        .sortWithinPartitions("likeness", "id")
        .mapInArrow(_perfect_partition, SCHEMA)
    )
    if not budget:
        return found
    near = (
        rows.repartitionByRange(blocks_for(size), *PLACE)
        .select("id", "data")
        .mapInArrow(partial(_imperfect_partition, budget=budget, distributions=known), SCHEMA)
    )
    return found.unionAll(near)


def _distributions(profile: "DataFrame | Profile | None") -> dict[str, Distribution]:
    """What is known of the attributes."""
    if profile is None or isinstance(profile, Mapping):
        return as_distributions(profile)
    from penstock.spark.analysis.profile import distributions

    return distributions(profile)


def _rows(batches: "Iterable[pa.RecordBatch]", *names: str) -> Iterator[tuple[Any, ...]]:
    for batch in batches:
        yield from zip(*(batch[name].to_pylist() for name in names), strict=True)


def _spread(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """A row for each likeness of a filter."""
    import pyarrow as pa

    types = {"likeness": pa.binary(), "id": pa.string(), "data": pa.binary()}
    for batch in batches:
        rows = [
            (likeness, name, data)
            for name, data in _rows([batch], "id", "data")
            for likeness in likenesses(data)
        ]
        yield _batch(rows, types)


def _perfect_partition(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """The perfect mergers of a partition that is sorted by likeness."""
    rows = _rows(batches, "likeness", "id", "data")
    together = groupby(rows, key=itemgetter(0))
    yield from _candidates(c for _likeness, group in together for c in perfect(row[1:] for row in group))


def _imperfect_partition(
    batches: "Iterator[pa.RecordBatch]", budget: float, distributions: dict[str, Distribution]
) -> "Iterator[pa.RecordBatch]":
    """The mergers within a budget of a partition."""
    yield from _candidates(imperfect(_rows(batches, "id", "data"), budget, distributions))


def _candidates(found: Iterable[Candidate]) -> "Iterator[pa.RecordBatch]":
    import pyarrow as pa

    types = {
        "ids": pa.list_(pa.string()),
        "merger": pa.string(),
        "perfect": pa.bool_(),
        "excess": pa.float64(),
    }
    left = iter(found)
    while rows := list(islice(left, _ROWS)):
        yield _batch(rows, types)


def _batch(rows: Sequence[tuple[Any, ...]], types: "dict[str, pa.DataType]") -> "pa.RecordBatch":
    import pyarrow as pa

    columns = zip(*rows, strict=True) if rows else ([] for _ in types)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types.values(), strict=True)]
    return pa.record_batch(arrays, names=list(types))
