"""How often each subscription matched, from what was routed."""

from typing import TYPE_CHECKING

from penstock.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def summary(
    routed: "DataFrame", subscriptions: "DataFrame | None" = None, *, column: str | None = None
) -> "DataFrame":
    """How often each subscription matched: a row for each id with its `hits`, the noisiest first.

    routed          what `route` gave, in either output.
    subscriptions   the DataFrame of subscriptions that it was routed by: those that never matched are there
                    too, with 0 hits. Without it, only ids with hits are.
    column          the column of ids, if `route` was given a name for it (default: ids, else id).
    """
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType

    name = column or ("ids" if "ids" in routed.columns else "id")
    if name not in routed.columns:
        known = ", ".join(routed.columns)[:200]
        raise InputError(f"there is no column {name!r:.80} of ids; there are: {known}")
    if subscriptions is not None and "id" not in subscriptions.columns:
        raise InputError("subscriptions have a column id")
    of_ids = f.col(f"`{name.replace('`', '``')}`")
    is_list = isinstance(routed.schema[name].dataType, ArrayType)
    found = routed.select((f.explode(of_ids) if is_list else of_ids).alias("id"))
    found = found.select(f.col("id").cast("string")).where("id is not null")
    counts = found.groupBy("id").agg(f.count("*").alias("hits"))
    if subscriptions is not None:
        known_ids = subscriptions.select(f.col("id").cast("string").alias("id")).where("id is not null")
        counts = known_ids.distinct().join(counts, "id", "full_outer")
        counts = counts.select("id", f.coalesce("hits", f.lit(0)).cast("long").alias("hits"))
    return counts.orderBy(f.desc("hits"), "id")
