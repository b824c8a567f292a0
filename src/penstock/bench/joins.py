"""DuckDB and Polars as matchers: the filters of each workload as tables, and a join that says what matches.

Events are a long table: a row for each attribute of each event. Tables are loaded beforehand; what is timed
is the join. Both use one thread.

forwarding  equality is joined on name and value; the rest on name, then compared. A filter matches where as
            many of its constraints do as it has.
rules       pairs of an event's attributes are joined with (equal code, listed code), lists unnested; then
            what is not to be is looked up.
ranges      the first interval is joined on its attribute, then compared; the other two are looked up in the
            event's list of values.
"""

import os
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from penstock.bench.loads import ForwardingLoad, Load, RangesLoad, RulesLoad
from penstock.workloads import forwarding, ranges, rules

if TYPE_CHECKING:
    import polars as pl

_FORWARDING: Final = """
with hits as (
  select event, filter from {events} e join equal_numbers using (name, number)
  union all select event, filter from {events} e join equal_words using (name, word)
  union all select event, filter from {events} e join less_number c on e.name = c.name and e.number < c.number
  union all select event, filter from {events} e join more_number c on e.name = c.name and e.number > c.number
  union all select event, filter from {events} e join less_word c on e.name = c.name and e.word < c.word
  union all select event, filter from {events} e join more_word c on e.name = c.name and e.word > c.word
  union all select event, filter from {events} e join prefix c
    on e.name = c.name and starts_with(e.word, c.word)
  union all select event, filter from {events} e join suffix c
    on e.name = c.name and ends_with(e.word, c.word)
  union all select event, filter from {events} e join substring c
    on e.name = c.name and contains(e.word, c.word)
), counted as (select event, filter, count(*) as hits from hits group by event, filter)
select distinct event, id from counted join filters using (filter) where hits = size
"""

_RULES: Final = """
with pairs as materialized (
  select a.event, a.name as name_1, a.code as code_1, b.name as name_2, b.code as code_2
  from {events} a join {events} b on a.event = b.event
), found as materialized (
  select event, filter, excluded_name, excluded_1, excluded_2 from pairs join rules
    on equal_name = name_1 and equal_code = code_1 and listed_name = name_2 and listed_code = code_2
)
select f.event, f.filter as id
from found f join {events} c on c.event = f.event and c.name = f.excluded_name
where c.code <> f.excluded_1 and c.code <> f.excluded_2
"""
"""Materialized, or the planner begins with the equality alone, and takes three times as long."""

_RANGES: Final = """
select e.event, r.filter as id
from {events} e
join ranges r on e.name = r.name_1 and e.value between r.low_1 and r.high_1
where e.row[r.name_2 + 1] between r.low_2 and r.high_2 and e.row[r.name_3 + 1] between r.low_3 and r.high_3
"""


def filter_tables(load: Load) -> dict[str, pa.Table]:
    """The filters of a load as the tables that the joins read."""
    if isinstance(load, ForwardingLoad):
        return _forwarding_tables(load)
    if isinstance(load, RulesLoad):
        made = load.filters
        text = np.array(rules.texts(made.values)).reshape(len(rules.ATTRIBUTES), -1)
        listed = rules.INCLUDED
        first, second, third = (np.repeat(made.attribute[:, i], listed) for i in range(3))
        columns = {
            "filter": np.repeat(np.arange(len(made.equal)), listed),
            "equal_name": first,
            "equal_code": text[first, np.repeat(made.equal, listed)],
            "listed_name": second,
            "listed_code": text[second, made.included.reshape(-1)],
            "excluded_name": third,
            "excluded_1": text[third, np.repeat(made.excluded[:, 0], listed)],
            "excluded_2": text[third, np.repeat(made.excluded[:, 1], listed)],
        }
        return {"rules": pa.table(columns)}
    if not isinstance(load, RangesLoad):
        raise TypeError(f"there is no join for {type(load).__name__}")
    columns = {"filter": np.arange(load.workload.filters)}
    for i in range(ranges.INTERVALS):
        columns[f"name_{i + 1}"] = load.filters.attribute[:, i].copy()
        columns[f"low_{i + 1}"] = load.filters.low[:, i].copy()
        columns[f"high_{i + 1}"] = load.filters.high[:, i].copy()
    return {"ranges": pa.table(columns)}


def _forwarding_tables(load: ForwardingLoad) -> dict[str, pa.Table]:
    made = load.filters
    size = np.diff(made.filter_offsets)
    number = np.arange(len(size))
    words = np.array(forwarding.words())
    filter_of = np.repeat(number, size)
    tables = {"filters": pa.table({"filter": number, "id": load.interfaces(), "size": size})}

    def add(name: str, operator: str, is_string: bool) -> None:
        at = (made.operator == forwarding.OPERATORS.index(operator)) & (made.is_string == is_string)
        columns = {"filter": filter_of[at], "name": made.attribute[at]}
        columns["word" if is_string else "number"] = words[made.value[at]] if is_string else made.value[at]
        tables[name] = pa.table(columns)

    for word, operator in (("equal", "="), ("less", "<"), ("more", ">")):
        plural = "s" if word == "equal" else ""
        add(f"{word}_number{plural}", operator, False)
        add(f"{word}_word{plural}", operator, True)
    for operator in ("prefix", "suffix", "substring"):
        add(operator, operator, True)
    return tables


def event_table(load: Load, begin: int, end: int) -> pa.Table:
    """Some events of a load, a row for each attribute. Events are numbered from 0."""
    if isinstance(load, ForwardingLoad):
        some = load.some_messages(begin, end)
        words = np.array(forwarding.words())[np.where(some.is_string, some.value, 0)]
        return pa.table(
            {
                "event": np.repeat(np.arange(end - begin), np.diff(some.offsets)),
                "name": some.attribute,
                "number": pa.array(some.value, mask=some.is_string),
                "word": pa.array(words, mask=~some.is_string),
            }
        )
    if isinstance(load, RulesLoad):
        width = len(rules.ATTRIBUTES)
        name = np.tile(np.arange(width), end - begin)
        text = np.array(rules.texts(load.events.values)).reshape(width, -1)
        code = text[name, load.events.code[begin:end].reshape(-1)]
        return pa.table({"event": np.repeat(np.arange(end - begin), width), "name": name, "code": code})
    if not isinstance(load, RangesLoad):
        raise TypeError(f"there is no join for {type(load).__name__}")
    width, values = len(ranges.ATTRIBUTES), load.events[begin:end]
    event = np.repeat(np.arange(end - begin), width)
    lists = pa.ListArray.from_arrays(np.arange(0, values.size + 1, width, dtype=np.int32), values.reshape(-1))
    return pa.table(
        {
            "event": event,
            "name": np.tile(np.arange(width), end - begin),
            "value": values.reshape(-1),
            "row": lists.take(pa.array(event)),
        }
    )


class DuckDB:
    """The join in SQL."""

    name = "DuckDB join"

    def __init__(self, load: Load) -> None:
        import duckdb

        self._load = load
        self._database = duckdb.connect(config={"threads": 1})
        for name, table in filter_tables(load).items():
            self._store(name, table)
        kinds = {ForwardingLoad: _FORWARDING, RulesLoad: _RULES, RangesLoad: _RANGES}
        self._query = kinds[type(load)]

    def prepare(self, begin: int, end: int) -> str:
        """Have some events in a table; its name."""
        name = f"events_{begin}_{end}"
        self._store(name, event_table(self._load, begin, end))
        return name

    def match(self, events: str) -> pa.Table:
        """Which ids match which event."""
        return self._database.sql(self._query.format(events=events)).to_arrow_table()

    def _store(self, name: str, table: pa.Table) -> None:
        self._database.register("given", table)
        self._database.execute(f"create or replace table {name} as select * from given")  # noqa: S608
        self._database.unregister("given")


class Polars:
    """The join in Polars."""

    name = "Polars join"

    def __init__(self, load: Load) -> None:
        os.environ.setdefault("POLARS_MAX_THREADS", "1")  # read when it is first imported
        import polars as pl

        self._load = load
        self._tables = {name: _frame(table).lazy() for name, table in filter_tables(load).items()}
        kinds = {ForwardingLoad: _forwarding_join, RulesLoad: _rules_join, RangesLoad: _ranges_join}
        self._join: Any = kinds[type(load)]
        self.threads = pl.thread_pool_size()

    def prepare(self, begin: int, end: int) -> "pl.LazyFrame":
        """Some events."""
        return _frame(event_table(self._load, begin, end)).lazy()

    def match(self, events: "pl.LazyFrame") -> pa.Table:
        """Which ids match which event."""
        return self._join(events, self._tables).collect().to_arrow()


def _frame(table: pa.Table) -> "pl.DataFrame":
    import polars as pl

    made = pl.from_arrow(table)
    if not isinstance(made, pl.DataFrame):
        raise TypeError("a table has become no frame")
    return made


def _forwarding_join(events: "pl.LazyFrame", tables: "dict[str, pl.LazyFrame]") -> "pl.LazyFrame":
    import polars as pl

    number, word = pl.col("number"), pl.col("word")
    asked, asked_word = pl.col("number_right"), pl.col("word_right")
    compared = {
        "less_number": number < asked,
        "more_number": number > asked,
        "less_word": word < asked_word,
        "more_word": word > asked_word,
        "prefix": word.str.starts_with(asked_word),
        "suffix": word.str.ends_with(asked_word),
        "substring": word.str.contains(asked_word, literal=True),
    }
    numbers, words = events.filter(number.is_not_null()), events.filter(word.is_not_null())
    hits = [
        numbers.join(tables["equal_numbers"], on=["name", "number"]),
        words.join(tables["equal_words"], on=["name", "word"]),
        *(
            (numbers if name.endswith("number") else words).join(tables[name], on="name").filter(condition)
            for name, condition in compared.items()
        ),
    ]
    counted = pl.concat([hit.select("event", "filter") for hit in hits]).group_by("event", "filter").len()
    full = counted.join(tables["filters"], on="filter").filter(pl.col("len") == pl.col("size"))
    return full.select("event", "id").unique()


def _rules_join(events: "pl.LazyFrame", tables: "dict[str, pl.LazyFrame]") -> "pl.LazyFrame":
    import polars as pl

    pairs = events.join(events, on="event", suffix="_listed")
    found = pairs.join(
        tables["rules"],
        left_on=["name", "code", "name_listed", "code_listed"],
        right_on=["equal_name", "equal_code", "listed_name", "listed_code"],
    ).select("event", "filter", "excluded_name", "excluded_1", "excluded_2")
    code = pl.col("code")
    return (
        found.join(events, left_on=["event", "excluded_name"], right_on=["event", "name"])
        .filter((code != pl.col("excluded_1")) & (code != pl.col("excluded_2")))
        .select("event", pl.col("filter").alias("id"))
    )


def _ranges_join(events: "pl.LazyFrame", tables: "dict[str, pl.LazyFrame]") -> "pl.LazyFrame":
    import polars as pl

    found = events.join(tables["ranges"], left_on="name", right_on="name_1").filter(
        pl.col("value").is_between(pl.col("low_1"), pl.col("high_1"))
    )
    for i in (2, 3):
        value = pl.col("row").list.get(pl.col(f"name_{i}"))
        found = found.filter(value.is_between(pl.col(f"low_{i}"), pl.col(f"high_{i}")))
    return found.select("event", pl.col("filter").alias("id"))
