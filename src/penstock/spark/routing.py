"""Routing a DataFrame: each event with the ids of the subscriptions that match it.

    routed = route(events, subscriptions)          # the events' columns, and ids: array<string>

Events stay where they are: each task maps the table and matches its own rows, batch by batch. Only where a
table does not fit, or events are too few to keep all cores busy, both are laid out on a grid: see `grid`.
"""

from dataclasses import dataclass, fields, replace
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Final, Literal

from penstock.errors import InputError, UnsupportedValueError
from penstock.filters.parsing import LANGUAGES, Language
from penstock.model.events import Unsupported
from penstock.spark import layout as layouts
from penstock.spark.choices import check_choice
from penstock.spark.disagreements import disagreements, report
from penstock.spark.events import attributes_of
from penstock.spark.expecting import expectations
from penstock.spark.layout import Choice, Facts, Layout
from penstock.spark.placing import Share, cores_of, is_local, memory_of, place, scratch_folder
from penstock.spark.python import ready
from penstock.spark.shipping import Where
from penstock.spark.subscriptions import Invalid, check_static, save_table
from penstock.spark.tables import Table
from penstock.spark.workers import Output, Task, run, under_plain_names

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from penstock.spark.left_out import Counts

Unmatched = Literal["drop", "keep"]

COLUMN: Final = {"ids": "ids", "rows": "id"}
"""What the column of ids is called in each output."""

SUBSCRIBER: Final = "subscriber"


@dataclass(frozen=True, kw_only=True)
class Wish:
    """How a DataFrame is to be routed; see `route`."""

    output: Output = "ids"
    unmatched: Unmatched = "drop"
    column: str | None = None
    unsupported: Unsupported = "refuse"
    strict: bool = False
    invalid: Invalid = "refuse"
    language: Language = "sql"
    layout: Layout | str | None = None
    folder: str | PathLike[str] | None = None
    share: Share = "auto"
    rows: int | None = None
    memory: int | None = None
    profile: "DataFrame | None" = None

    def __post_init__(self) -> None:
        check_choice("output", self.output, ("ids", "rows"))
        check_choice("unmatched", self.unmatched, ("drop", "keep"))
        check_choice("unsupported", self.unsupported, ("refuse", "skip"))
        check_choice("share", self.share, ("auto", "folder", "broadcast"))
        check_choice("invalid", self.invalid, ("refuse", "quarantine"))
        check_choice("language", self.language, LANGUAGES)
        if self.column == "":
            raise InputError("column is the name of a column, not ''")
        if not isinstance(self.layout, Layout | str | None):
            raise InputError(f"layout is text such as '3x2', not {self.layout!r:.80}")

    @property
    def ids_column(self) -> str:
        """What the column of ids is called."""
        return self.column or COLUMN[self.output]

    @property
    def fixed_layout(self) -> Layout | None:
        """The layout that was asked for, if any was."""
        if self.layout is None or self.layout == "auto":
            return None
        return Layout.parse(self.layout) if isinstance(self.layout, str) else self.layout


def route(
    events: "DataFrame",
    subscriptions: "DataFrame | Table | str | PathLike[str]",
    *,
    output: Output = "ids",
    unmatched: Unmatched = "drop",
    column: str | None = None,
    unsupported: Unsupported = "refuse",
    strict: bool = False,
    invalid: Invalid = "refuse",
    language: Language = "sql",
    layout: Layout | str | None = None,
    folder: str | PathLike[str] | None = None,
    share: Share = "auto",
    rows: int | None = None,
    memory: int | None = None,
    profile: "DataFrame | None" = None,
) -> "DataFrame":
    """Each event with the ids of the subscriptions that match it.

    events          any DataFrame, batch or streaming: structs are flattened with dots, nulls are absent
                    attributes, timestamps and dates are times.
    subscriptions   a DataFrame with id, filter and, if you like, subscriber; several rows with one id are
                    alternatives. It is compiled now. Or a saved table: what `save_table` gave, its folder
                    (the latest version as of now), or a folder of `penstock compile`.
    output          "ids": the events' columns and `ids`, a sorted array of text; "rows": a row for each event
                    and id, with the column `id`, and `subscriber` where subscriptions have it.
    unmatched       "keep": events that match nothing are there too, with no ids (in rows: null).
    column          another name for the column of ids.
    unsupported     "skip": columns and values that have no family are left out of events, not refused.
                    `skipped` tells how many values.
    strict          rules on attributes that no column has, or that have another family there, are an error;
                    else a warning in the log (of `penstock.spark`).
    invalid         "quarantine": rows that are no subscriptions are left out (see `check_subscriptions`).
    language        that of the filters: "sql", "padres" or "json".
    layout          "3x2": a grid of 3 parts of the table and 2 parts of the events; by default the cheapest,
                    as `explain` tells, and events stay where they are if they can.
    folder          compile into a new version of the table in this folder, which workers see.
    share           "folder": workers map the table's folder; "broadcast": it is sent to them. By default the
                    latter only on clusters, for tables compiled here without `folder`.
    rows, memory    how many events there are, if you know; bytes that a worker can hold of the table.
    profile         what events look like, as `profile` gives it: filters are indexed by what it says is rare,
                    and the layout is chosen by how many events there are and how much they match.
    """
    wish = Wish(
        output=output,
        unmatched=unmatched,
        column=column,
        unsupported=unsupported,
        strict=strict,
        invalid=invalid,
        language=language,
        layout=layout,
        folder=folder,
        share=share,
        rows=rows,
        memory=memory,
        profile=profile,
    )
    _check_events(events)
    _event_columns(events.schema, wish)
    table, own = _table(events, subscriptions, wish)
    _event_columns(events.schema, wish, table)
    _given_schema(events.schema, wish, table)
    report(table, events.schema, strict=wish.strict, unsupported=wish.unsupported)
    choice = chosen_layout(events, table, wish, own=own)
    where = place(events.sparkSession, table, wish.share, own=own)
    skipped = counted_by(events, wish)
    return routed_by(events, table, wish, choice, where, skipped)


def counted_by(events: "DataFrame", wish: Wish) -> "Accumulator[Counts] | None":
    """What values that are left out are counted by, if any may be."""
    from penstock.spark.left_out import counter

    return counter(events.sparkSession) if wish.unsupported == "skip" else None


def routed_by(
    events: "DataFrame",
    table: Table,
    wish: Wish,
    choice: Choice,
    where: Where,
    skipped: "Accumulator[Counts] | None" = None,
) -> "DataFrame":
    """The events routed by a table that workers find at a place, in a layout that was chosen.

    `skipped`: what values that are left out are counted by, where events stay where they are.
    """
    ready(events.sparkSession)
    columns = _event_columns(events.schema, wish, table)
    given = _given_schema(events.schema, wish, table)
    task = Task(
        where,
        0,
        len(table.blocks),
        columns,
        wish.output,
        wish.unmatched == "keep",
        wish.unsupported,
        tuple(events.columns),
    )
    if choice.layout.is_replicating or choice.layout.event_parts != choice.facts.partitions:
        from penstock.spark.grid import on_grid

        return on_grid(events, task, choice.layout, given)
    from penstock.spark.left_out import hold

    task = task._replace(skipped=skipped)
    routed = under_plain_names(events).mapInArrow(partial(run, task), given)
    hold(routed, skipped)
    return routed


def explain(
    events: "DataFrame", subscriptions: "DataFrame | Table | str | PathLike[str]", **options: object
) -> str:
    """How `route`, given the same, would run: the table, the attributes, the layout and why this one."""
    unknown = sorted(set(options) - {field.name for field in fields(Wish)})
    if unknown:
        raise InputError(f"explain has no option {unknown[0]!r:.60}; it has those of route")
    _check_events(events)
    # Compiled to be looked at: not a version that others would take up.
    wish = replace(Wish(**options), folder=None)  # type: ignore[arg-type]
    _event_columns(events.schema, wish)
    table, own = _table(events, subscriptions, wish)
    _event_columns(events.schema, wish, table)
    attributes = attributes_of(events.schema, wish.unsupported, table.names)
    _given_schema(events.schema, wish, table)
    choice = chosen_layout(events, table, wish, own=own)
    named = [attribute for attribute in attributes if attribute.name in set(table.names)]
    version = "compiled, no versions" if table.version is None else f"version {table.version}"
    lines = [
        f"table {table.path} ({version}): {table.ids:,} ids, {table.filters:,} filters, "
        f"{len(table.blocks):,} block{'s' if len(table.blocks) != 1 else ''}, {table.nbytes:,} bytes",
        "attributes that filters name: "
        + (", ".join(f"{attribute.name} ({attribute.family.name.lower()})" for attribute in named) or "none"),
    ]
    if table.rejected:
        lines.append(f"left out because they are no subscriptions: {table.rejected:,}")
    lines += map(str, disagreements(table, events.schema))
    return "\n".join([*lines, layouts.explain(choice)])


def _check_events(events: object) -> None:
    if not hasattr(events, "mapInArrow"):
        raise InputError(f"events are a DataFrame of Spark, not {type(events).__name__}")


def _event_columns(schema: "StructType", wish: Wish, table: Table | None = None) -> tuple[str, ...]:
    """The columns that events are made of. Those that rules name have to be of types that rules can match."""
    attributes = attributes_of(schema, wish.unsupported, () if table is None else table.names)
    if not attributes and table is not None:
        raise InputError("the events have no column that could be an attribute")
    _check_passable(schema)
    return tuple(dict.fromkeys(attribute.path[0] for attribute in attributes))


def _check_passable(schema: "StructType") -> None:
    """Raise InputError where a column cannot be handed to Python and back, be it an attribute or not."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_type

    for field in schema.fields:
        try:
            to_arrow_type(field.dataType, timezone="UTC")
        except (PySparkException, TypeError):
            raise UnsupportedValueError(
                f"the column {field.name!r:.80} of type {field.dataType.simpleString()} cannot be handed to "
                "Python by Spark: cast it or drop it"
            ) from None


def _given_schema(schema: "StructType", wish: Wish, table: Table) -> "StructType":
    """What comes out."""
    from pyspark.sql.types import ArrayType, StringType, StructField, StructType

    more: list[StructField]
    if wish.output == "ids":
        more = [StructField(wish.ids_column, ArrayType(StringType(), False), False)]
    else:
        more = [StructField(wish.ids_column, StringType(), True)]
        if table.subscribers:
            more.append(StructField(SUBSCRIBER, StringType(), True))
    # Spark does not tell names apart by case.
    taken = {field.name.lower() for field in schema.fields}
    for field in more:
        if field.name.lower() in taken:
            hint = "rename it" if field.name == SUBSCRIBER else "give column= another name"
            raise InputError(f"the events have a column {field.name!r} already: {hint}")
        taken.add(field.name.lower())
    return StructType([*schema.fields, *more])


def _table(
    events: "DataFrame", subscriptions: "DataFrame | Table | str | PathLike[str]", wish: Wish
) -> tuple[Table, bool]:
    """The table, and whether it was compiled here, into a folder of this machine."""
    if isinstance(subscriptions, Table):
        return subscriptions, False
    if isinstance(subscriptions, str | PathLike):
        return Table.open(subscriptions), False
    check_static(subscriptions)
    fixed = wish.fixed_layout
    folder = scratch_folder() if wish.folder is None else wish.folder
    compile_table = partial(
        save_table,
        subscriptions,
        folder,
        language=wish.language,
        compile_on="driver" if wish.folder is None and not is_local(events.sparkSession) else "auto",
        invalid=wish.invalid,
        profile=wish.profile,
    )
    made = compile_table(blocks=fixed.subscription_parts if fixed else None)
    blocks = _blocks_that_fit(events, made, wish)
    if fixed is None and blocks > len(made.blocks):
        # How large it is, nobody knew before.
        made = compile_table(blocks=blocks)
    return made, wish.folder is None


def _blocks_that_fit(events: "DataFrame", table: Table, wish: Wish) -> int:
    """So many blocks has a table to have, for each of a worker's tasks to hold one of them."""
    memory = memory_of(events.sparkSession) if wish.memory is None else wish.memory
    if memory is None or table.nbytes <= memory:
        return 1
    return min(max(1, table.filters), -(-table.nbytes * cores_of(events.sparkSession) // max(1, memory)))


def chosen_layout(events: "DataFrame", table: Table, wish: Wish, *, own: bool = False) -> Choice:
    """The layout that was asked for, or the best."""
    session = events.sparkSession
    fixed = wish.fixed_layout
    # Asking for the partitions plans the query; a stream has none before it runs.
    partitions = cores_of(session) if events.isStreaming else _partitions(events)
    rows, matches = wish.rows, 1.0
    if wish.profile is not None:
        counted, matches = expectations(wish.profile, table)
        rows = counted if rows is None else rows
    facts = Facts(
        filters=table.filters,
        table_bytes=table.nbytes,
        rows=None if events.isStreaming else rows,
        matches=matches,
        partitions=partitions,
        cores=cores_of(session),
        memory=memory_of(session) if wish.memory is None else wish.memory,
        mapped=wish.share == "folder" or (wish.share == "auto" and (not own or is_local(session))),
        blocks=len(table.blocks),
        is_grouped=wish.output == "ids" or wish.unmatched == "keep",
    )
    if fixed is None:
        choice = layouts.choose(facts)
    else:
        cost = layouts.costs(fixed, facts)
        choice = Choice(fixed, cost, [(fixed, cost)], "it was asked for", facts)
    if events.isStreaming and choice.layout.is_replicating and facts.is_grouped:
        raise InputError(
            f"layout {choice.layout}: in a stream, the ids of an event cannot be brought together from "
            "several parts of the table; use output='rows', or route_stream"
        )
    return choice


def _partitions(events: "DataFrame") -> int:
    """How many partitions events come in, as far as that can be told without running anything."""
    try:
        plan = events._jdf.queryExecution().executedPlan()
        if "Exchange" in plan.toString():
            # Asking for the partitions behind a shuffle, or a broadcast, would run all that is before it.
            told = int(plan.outputPartitioning().numPartitions())
            return told or int(str(events.sparkSession.conf.get("spark.sql.shuffle.partitions")))
        return max(1, events.rdd.getNumPartitions())
    except Exception:
        return 1
