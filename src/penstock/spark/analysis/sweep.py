"""Simulations as tasks: one row says what to simulate, and becomes one row of results.

    rows = grid(scenario=["plain"], seed=[1, 2, 3], **{"scheme.name": ["simple", "covering"]})
    sweep(spark.createDataFrame(rows)).select("seed", "scheme", "running_messages", "delays_median_ms")

The column `scenario` has the name of a scenario that comes with the program, or the text of one; every other
column is a setting of it by its dotted name (`seed`, `scheme.name`, `links.latency_ms`), and null leaves what
the scenario says. A row gives the same results as `penstock sim`, wherever and next to whatever it runs, but
for the columns of `CLOCK`.
"""

import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import product
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, get_args, get_origin

import msgspec

from penstock.errors import InputError, PenstockError
from penstock.sim.calibrate import calibrate
from penstock.sim.results import Phase, Result
from penstock.sim.scenario import Scenario, convert, shipped_texts
from penstock.sim.simulate import Simulation
from penstock.spark.python import ready

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, Row
    from pyspark.sql.types import StructType

ROWS_MAX: Final = 100_000
"""Rows of a sweep: they go through the driver, which checks them and makes a task of each."""

CLOCK: Final = frozenset(
    {
        "setting_up_wall_s",
        "setting_up_cpu_s",
        "running_wall_s",
        "running_cpu_s",
        "wall_s",
        "handled_per_s",
        "seconds",
    }
)
"""Columns of results that tell of the machine."""

_TASK: Final = "task"
_LEFT_OUT: Final = frozenset({"scenario", "by_broker", "checks"})
"""Of results: the first is a column already, the second has as many entries as there are brokers, and whether
all checks held is in `is_right`."""


class Column(NamedTuple):
    """A column of results: its name, and its type in Spark's words."""

    name: str
    type: str


def grid(**settings: Sequence[Any]) -> list[dict[str, Any]]:
    """A row for each combination of settings; the last one changes first.

    >>> grid(scenario=["plain"], seed=[1, 2])
    [{'scenario': 'plain', 'seed': 1}, {'scenario': 'plain', 'seed': 2}]
    """
    return [dict(zip(settings, values, strict=True)) for values in product(*settings.values())]


def sweep(
    scenarios: "DataFrame",
    *,
    parallelism: int | None = None,
    invalid: Literal["refuse", "row"] = "refuse",
    keep: Sequence[str] = (),
) -> "DataFrame":
    """Simulate each row: its columns, then the results, `error` and `seconds`.

    The rows are taken to the driver when this is called, so that mistakes are found before anything runs:
    they are refused, or, with `invalid="row"`, are told in the column `error`. Each row is a task of its own,
    unless `parallelism` says how many there are. The columns `keep` are no settings, and only go along.
    """
    if invalid not in ("refuse", "row"):
        raise InputError(f"invalid={invalid!r:.40}: say 'refuse' or 'row'")
    if parallelism is not None and parallelism < 1:
        raise InputError(f"parallelism={parallelism}: give at least 1")
    if scenarios.isStreaming:
        raise InputError("a sweep is over scenarios that are all there: give a DataFrame that is no stream")
    names = _settings(scenarios.schema, keep)
    rows = _rows(scenarios)
    if invalid == "refuse":
        _refuse(rows, names)
    columns = _result_columns(scenarios.columns)
    tasks = min(parallelism or len(rows), len(rows)) or 1
    numbered = [(*row, number % tasks) for number, row in enumerate(rows)]
    ready(scenarios.sparkSession)
    spread = scenarios.sparkSession.createDataFrame(numbered, _numbered(scenarios.schema))
    simulate = partial(_simulate_batches, given=tuple(scenarios.columns), settings=names, columns=columns)
    return spread.repartitionById(tasks, _TASK).mapInArrow(simulate, _schema(scenarios.schema, columns))


# What to simulate


@cache
def known_settings() -> tuple[str, ...]:
    """The settings of a scenario that are one value, by their dotted names."""
    return tuple(_leaves(Scenario, ""))


def _leaves(struct: type[msgspec.Struct], prefix: str) -> Iterator[str]:
    for field in msgspec.structs.fields(struct):
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from _leaves(field.type, f"{prefix}{field.name}.")
        elif get_origin(field.type) is not list:
            yield f"{prefix}{field.name}"


def build(scenario: str | None, settings: Mapping[str, Any]) -> Scenario:
    """The scenario of a row. A mistake is told with the place of the setting."""
    if scenario is None:
        raise InputError("scenario: is missing; give the name of one, or its text")
    text, source = scenario, "scenario"
    if "\n" not in scenario and "=" not in scenario:
        shipped = shipped_texts()
        if scenario not in shipped:
            known = ", ".join(shipped)
            raise InputError(f"scenario {scenario!r:.80}: neither a text nor a name; there are {known}")
        text, source = shipped[scenario], f"{scenario}.toml"
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{source}: not TOML: {error}") from None
    for name, value in settings.items():
        if value is not None:
            _put(given, name, value, source)
    return convert(given, source)


def _put(given: dict[str, Any], name: str, value: Any, source: str) -> None:
    *tables, last = name.split(".")
    for table in tables:
        given = given.setdefault(table, {})
        if not isinstance(given, dict):
            raise InputError(f"{source}: {table}: is no table, so that {name} cannot be set in it")
    given[last] = value


# What comes of it


def run(scenario: Scenario) -> dict[str, Any]:
    """Simulate a scenario here and now; the results as the columns of a sweep."""
    service = calibrate(scenario) if scenario.service.measured else None
    result, _series = Simulation(scenario, service=service).run()
    return {**_flat(result, ""), "is_right": result.is_right}


def _flat(struct: msgspec.Struct, prefix: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in msgspec.structs.asdict(struct).items():
        if name in _LEFT_OUT or value is None:
            continue
        if isinstance(value, msgspec.Struct):
            found |= _flat(value, f"{prefix}{name}_")
        else:
            found[f"{prefix}{name}"] = value
    if isinstance(struct, Phase):
        found[f"{prefix}messages"] = sum(struct.traffic.values())
    return found


@cache
def result_columns() -> tuple[Column, ...]:
    """The columns of results, in order; with `error` and `seconds`, which are not the simulator's."""
    more = Column("is_right", "boolean"), Column("error", "string"), Column("seconds", "double")
    return *_columns(Result, ""), *more


_TYPES: Final[Mapping[Any, str]] = {int: "long", float: "double", str: "string", bool: "boolean"}


def _columns(struct: type[msgspec.Struct], prefix: str) -> Iterator[Column]:
    for field in msgspec.structs.fields(struct):
        if field.name in _LEFT_OUT:
            continue
        kind = field.type
        if isinstance(kind, UnionType):
            (kind,) = (one for one in get_args(kind) if one is not NoneType)
        if get_origin(kind) is dict:
            yield Column(f"{prefix}{field.name}", f"map of {_TYPES[get_args(kind)[1]]}")
        elif issubclass(kind, msgspec.Struct):
            yield from _columns(kind, f"{prefix}{field.name}_")
        else:
            yield Column(f"{prefix}{field.name}", _TYPES[kind])
    if struct is Phase:
        yield Column(f"{prefix}messages", "long")


def results_of(scenario: str | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """A row's results: what a run gives, or the error that kept it from any; and how long that took."""
    started = time.perf_counter()
    found: dict[str, Any] = {}
    try:
        found = run(build(scenario, settings))
    except PenstockError as error:
        found = {"error": str(error)}
    except Exception as error:  # One run that fails must not take a thousand others with it.
        found = {"error": f"the simulation failed: {type(error).__name__}: {error}"}
    return {**found, "seconds": time.perf_counter() - started}


# Spark


def _settings(schema: "StructType", keep: Sequence[str]) -> tuple[str, ...]:
    """The columns that are settings. Every other one, and one of a type that no setting has, is refused."""
    from pyspark.sql.types import BooleanType, DoubleType, FloatType, IntegralType, NullType, StringType

    names = [field.name for field in schema.fields]
    twice = [name for name, count in Counter(name.lower() for name in names).items() if count > 1]
    if twice:
        raise InputError(f"scenarios: there are two columns {twice[0]!r}; give each setting once")
    for name in ("scenario", *keep):
        if name not in names:
            raise InputError(f"scenarios: there is no column {name!r}; there are {', '.join(names)}")
    settings = [field for field in schema.fields if field.name not in keep]
    for field in settings:
        if field.name != "scenario" and field.name not in known_settings():
            raise InputError(
                f"scenarios: column {field.name!r}: no such setting, nor named in keep; "
                f"there are {', '.join(known_settings())}"
            )
        kinds = (StringType, BooleanType, IntegralType, FloatType, DoubleType, NullType)
        if not isinstance(field.dataType, kinds):
            what = field.dataType.simpleString()
            raise InputError(
                f"scenarios: column {field.name!r}: {what:.80}; settings are text, numbers, booleans"
            )
    for name in keep:
        if name.lower() in {column.name for column in result_columns()}:
            raise InputError(f"scenarios: column {name!r}: results have one of this name; rename it")
    return tuple(field.name for field in settings if field.name != "scenario")


def _rows(scenarios: "DataFrame") -> "list[Row]":
    rows = scenarios.limit(ROWS_MAX + 1).collect()
    if len(rows) > ROWS_MAX:
        raise InputError(f"scenarios: more than {ROWS_MAX:,} rows (ROWS_MAX); sweep over some at a time")
    return rows


def _refuse(rows: "Sequence[Row]", settings: Sequence[str]) -> None:
    wrong: list[PenstockError] = []
    for number, row in enumerate(rows):
        try:
            build(row["scenario"], {name: row[name] for name in settings})
        except PenstockError as error:
            wrong.append(error.in_row(number))
    if wrong:
        others = f"; {len(wrong) - 1:,} more rows are wrong" if wrong[1:] else ""
        raise InputError(f"scenarios: {wrong[0]}{others}")


def _result_columns(given: Sequence[str]) -> tuple[Column, ...]:
    """The results' columns but for those that the scenarios have: what was set needs not be told again."""
    taken = {name.lower() for name in given}
    return tuple(column for column in result_columns() if column.name not in taken)


def _numbered(schema: "StructType") -> "StructType":
    """The scenarios' columns and the number of the task; by place, as mapInArrow takes no names with dots."""
    from pyspark.sql.types import IntegerType, StructField, StructType

    fields = [StructField(f"c{place}", field.dataType) for place, field in enumerate(schema.fields)]
    return StructType([*fields, StructField(_TASK, IntegerType())])


def _schema(given: "StructType", columns: Sequence[Column]) -> "StructType":
    from pyspark.sql.types import (
        BooleanType,
        DataType,
        DoubleType,
        LongType,
        MapType,
        StringType,
        StructField,
        StructType,
    )

    types: dict[str, DataType] = {
        "long": LongType(),
        "double": DoubleType(),
        "string": StringType(),
        "boolean": BooleanType(),
        "map of long": MapType(StringType(), LongType()),
        "map of double": MapType(StringType(), DoubleType()),
    }
    return StructType([*given.fields, *(StructField(column.name, types[column.type]) for column in columns)])


def _simulate_batches(
    batches: "Iterator[pa.RecordBatch]",
    *,
    given: Sequence[str],
    settings: Sequence[str],
    columns: Sequence[Column],
) -> "Iterator[pa.RecordBatch]":
    """Simulate row by row; the columns `given` come in their order, and then the number of the task."""
    for batch in batches:
        named = batch.drop_columns([_TASK]).rename_columns(list(given))
        for number in range(batch.num_rows):
            yield _simulate_row(named.slice(number, 1), settings, columns)


def _simulate_row(
    row: "pa.RecordBatch", settings: Sequence[str], columns: Sequence[Column]
) -> "pa.RecordBatch":
    import pyarrow as pa

    types = {"long": pa.int64(), "double": pa.float64(), "string": pa.string(), "boolean": pa.bool_()}
    types |= {f"map of {name}": pa.map_(pa.string(), types[name]) for name in ("long", "double")}
    found = results_of(
        row.column("scenario")[0].as_py(), {name: row.column(name)[0].as_py() for name in settings}
    )
    arrays = [
        pa.array([list(value.items()) if isinstance(value, dict) else value], types[column.type])
        for column in columns
        for value in (found.get(column.name),)
    ]
    names = [*row.schema.names, *(column.name for column in columns)]
    return pa.RecordBatch.from_arrays([*row.columns, *arrays], names)
