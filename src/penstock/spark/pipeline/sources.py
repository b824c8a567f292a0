"""Where events come from, as a DataFrame."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import InputError
from penstock.spark.pipeline.checks import format_of
from penstock.spark.pipeline.config import Files, Folder, Network, Pipeline, Rate, Socket, is_remote
from penstock.spark.pipeline.sessions import placed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_CSV: Final = {"header": "true", "enforceSchema": "false"}
"""Files have the names of their columns in the first line, unless options say otherwise. They have to be the
schema's, in its order: Spark would else take columns by their places, whatever they are called."""

MALFORMED: Final = "_penstock_malformed"
"""The column in which Spark puts a line that is no JSON or CSV of its schema; null in all other rows."""

_CORRUPT: Final = "columnNameOfCorruptRecord"
_SPARKS_OWN: Final = "_corrupt_record"
"""Who names this column wants malformed lines in it, as Spark has it."""

SOURCE_LOG: Final = "source-log"
"""The folder below the checkpoint in which a stream from a network keeps what it has read."""


def events_of(session: "SparkSession", pipeline: Pipeline) -> "DataFrame":
    """The events of a pipeline; or InputError that names the setting because of which there are none.

    Where lines can be malformed, there is a column `MALFORMED`, which `watched` counts and takes away.
    """
    source = pipeline.source
    check_there(source)
    if isinstance(source, Files):
        events = _files(session, source)
    elif isinstance(source, Folder):
        events = _folder(session, source)
    elif isinstance(source, Rate):
        events = session.readStream.format("rate").option("rowsPerSecond", source.rows_per_second).load()
    elif isinstance(source, Socket):
        events = _socket(session, source)
    else:
        events = _network(session, source, pipeline.checkpoint or "")
    return _with_columns(events, source.columns)


def check_there(source: object) -> None:
    """Raise InputError if files or folders of this machine are not there; it takes no Spark to see that."""
    if isinstance(source, Files):
        for path in _paths(source):
            if not is_remote(path) and not any(sign in path for sign in "*?[{") and not Path(path).exists():
                raise InputError(f"source.path: {path}: no such file or folder")
    elif isinstance(source, Folder) and not is_remote(source.path) and not Path(source.path).is_dir():
        raise InputError(f"source.path: {source.path}: no such folder; a stream waits for files, not for it")


def _paths(source: Files) -> list[str]:
    return [source.path] if isinstance(source.path, str) else list(source.path)


def watched(events: "DataFrame", told: Any) -> "DataFrame":
    """The events alone, counted as they are read: `told` is an observation, or the name of one."""
    from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

    counts = [F.count(F.lit(1)).alias("n")]
    if MALFORMED in events.columns:
        counts.append(F.count(MALFORMED).alias("malformed"))
    return events.observe(told, *counts).drop(MALFORMED)


def described(pipeline: Pipeline) -> str:
    """The source, in words."""
    source = pipeline.source
    if isinstance(source, Files):
        paths = _paths(source)
        return f"files {', '.join(paths)} ({source.format or format_of(paths[0])}), read once"
    if isinstance(source, Folder):
        limit = source.max_files_per_batch
        many = "" if limit is None else f", at most {limit:,} files a batch"
        return f"folder {source.path} ({source.format}), each file once{many}"
    if isinstance(source, Rate):
        return f"rate, {source.rows_per_second:,} rows a second"
    if isinstance(source, Socket):
        return f"socket {source.host}:{source.port}; what it sent before a restart does not come again"
    urls = source.url if isinstance(source.url, str) else ", ".join(source.url)
    return (
        f"penstock {urls}, filter {source.filter or 'true'}; what was read is kept in "
        f"{pipeline.checkpoint}/{SOURCE_LOG} until it is done"
    )


def _files(session: "SparkSession", source: Files) -> "DataFrame":
    paths = _paths(source)
    kind = source.format or str(format_of(paths[0]))
    reader = session.read.format(kind).options(**_reading(kind, source.options))
    schema = None if source.schema is None else _schema_of(source.schema)
    if _counts_malformed(kind, source.options, schema):
        reader = reader.option(_CORRUPT, MALFORMED)
        if schema is None:
            schema = _loaded(reader, None, "source.path", paths).schema
            _check_any(schema, "source.path", kind)
        schema = _with_malformed(schema)
    return _loaded(reader, schema, "source.path", paths)


def _folder(session: "SparkSession", source: Folder) -> "DataFrame":
    options = _reading(source.format, source.options)
    schema = None if source.schema is None else _schema_of(source.schema)
    counts = _counts_malformed(source.format, source.options, schema)
    if counts:
        options[_CORRUPT] = MALFORMED
    if schema is None:
        # A stream cannot look at what is not there yet. What is there tells, once.
        try:
            with placed("source.schema"):
                schema = session.read.format(source.format).options(**options).load(source.path).schema
        except InputError:
            schema = None
        if not schema or not schema.fields:
            raise InputError(
                'source.schema: is missing, and the folder has no file to infer it from; give one as "a int, '
                'b string"'
            )
        _check_any(schema, "source.schema", source.format)
    reader = session.readStream.format(source.format).options(**options)
    if counts:
        schema = _with_malformed(schema)
    if source.max_files_per_batch is not None:
        reader = reader.option("maxFilesPerTrigger", source.max_files_per_batch)
    return _loaded(reader, schema, "source.path", source.path)


def _socket(session: "SparkSession", source: Socket) -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

    with placed("source.host"):
        lines = session.readStream.format("socket").option("host", source.host).option("port", source.port)
        events = lines.load()
    if source.schema is None:
        return events
    with placed("source.schema"):
        # Lines that are no such object have no attribute, and so match nothing.
        schema, options = _schema_of(source.schema), {}
        if _counts_malformed("json", {}, schema):
            schema, options = _with_malformed(schema), {_CORRUPT: MALFORMED}
        parsed = F.from_json("value", schema, options)
        return events.select(parsed.alias("event")).select("event.*")


def _network(session: "SparkSession", source: Network, checkpoint: str) -> "DataFrame":
    options = {"log": f"{checkpoint.rstrip('/')}/{SOURCE_LOG}", **network_options(source)}
    if source.filter is not None:
        options["filter"] = source.filter
    if source.max_events_per_batch is not None:
        options["maxEventsPerBatch"] = str(source.max_events_per_batch)
    return _loaded(session.readStream.format("penstock").options(**options), source.schema, "source")


def network_options(given: Any) -> dict[str, str]:
    """What a source and a sink of a network have in common, as Spark writes options."""
    urls = given.url if isinstance(given.url, str) else ",".join(given.url)
    named = {"tokenFile": given.token_file, "ca": given.ca, "cert": given.cert, "key": given.key}
    return {"url": urls, **{name: text for name, text in named.items() if text}, **texts(given.options)}


def _schema_of(given: str) -> "StructType":
    from pyspark.sql.types import StructField, StructType

    with placed("source.schema"):
        found = StructType.fromDDL(given)
    # A type alone is a schema of one column, as Spark reads it.
    return found if isinstance(found, StructType) else StructType([StructField("value", found)])


def _counts_malformed(kind: str, options: dict[str, Any], schema: "StructType | None") -> bool:
    """Whether Spark is asked for malformed lines: there can be some, and no setting is about them."""
    if kind not in ("json", "csv") or (schema is not None and _SPARKS_OWN in schema.names):
        return False
    given = {key.lower(): str(value).lower() for key, value in options.items()}
    return given.get("mode", "permissive") == "permissive" and _CORRUPT.lower() not in given


def _with_malformed(schema: "StructType") -> "StructType":
    from pyspark.sql.types import StringType, StructField, StructType

    # Where Spark infers a schema from JSON of which a line is malformed, it adds the column itself.
    own = [field for field in schema.fields if field.name != MALFORMED]
    return StructType([*own, StructField(MALFORMED, StringType())])


def _check_any(schema: "StructType", key: str, kind: str) -> None:
    """Raise InputError if a schema that was inferred has nothing that events could be made of."""
    if not set(schema.names) - {MALFORMED}:
        raise InputError(f"{key}: nothing there could be read as {kind.upper()}: no line has a field")


def _loaded(reader: Any, schema: Any, key: str, *where: object) -> "DataFrame":
    """What a reader reads; `key` is the setting to blame."""
    if schema is not None:
        with placed("source.schema"):
            reader = reader.schema(schema)
    with placed(key):
        found: DataFrame = reader.load(*where)
    return found


def _with_columns(events: "DataFrame", columns: dict[str, str]) -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

    for name, expression in columns.items():
        with placed(f"source.columns.{name}"):
            events = events.withColumn(name, F.expr(expression))
    return events


def _reading(kind: str, given: dict[str, Any]) -> dict[str, str]:
    return {**(_CSV if kind == "csv" else {}), **texts(given)}


def texts(given: dict[str, Any]) -> dict[str, str]:
    """Options as Spark takes them."""
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in given.items()
    }
