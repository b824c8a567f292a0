"""Workloads as Arrow tables of constraints: ids for all of them, and the forwarding paper's filters."""

from typing import TYPE_CHECKING

import numpy as np

from penstock.workloads import forwarding
from penstock.workloads.forwarding import OPERATORS, Constraints

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


def ids(numbers: "NDArray[np.signedinteger]", *, text: bool = False) -> "pa.Array":
    """Ids: the numbers themselves or, as text, s0, s1 and so on."""
    import pyarrow as pa
    import pyarrow.compute as pc

    known = pa.array(np.asarray(numbers, np.int64))
    return pc.binary_join_element_wise("s", known.cast(pa.string()), "") if text else known


def forwarding_table(constraints: Constraints, ids: "pa.Array") -> "pa.Table":
    """Filters of the forwarding paper's workload as `Matcher.add_constraints` takes them.

    `ids` has an id for each filter; an id may have several filters.
    """
    import pyarrow as pa

    sizes = np.diff(constraints.filter_offsets)
    number = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)
    texts, values = constraints.is_string, constraints.value.astype(np.int64)
    words = pa.array(np.where(texts, values, 0).astype(np.int32), mask=~texts)
    return pa.table(
        {
            "id": ids.take(pa.array(number)),
            "filter": pa.array(number),
            "attribute": _named(constraints.attribute, forwarding.names()),
            "op": _named(constraints.operator, OPERATORS),
            "number": pa.array(values, mask=texts),
            "string": pa.DictionaryArray.from_arrays(words, forwarding.words()),
        }
    )


def _named(index: "NDArray[np.signedinteger]", names: "list[str] | tuple[str, ...]") -> "pa.Array":
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(index.astype(np.int32), names)
