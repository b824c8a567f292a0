"""Where events come from, as a DataFrame."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import InputError
from penstock.spark.pipeline.checks import format_of
from penstock.spark.pipeline.config import Files, Folder, Network, Pipeline, Rate, Socket, is_remote
from penstock.spark.pipeline.sessions import placed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CSV: Final = {"header": "true"}
"""Files with columns have their names in the first line, unless options say otherwise."""

SOURCE_LOG: Final = "source-log"
"""The folder below the checkpoint in which a stream from a network keeps what it has read."""


def events_of(session: "SparkSession", pipeline: Pipeline) -> "DataFrame":
    """The events of a pipeline; or InputError that names the setting because of which there are none."""
    source = pipeline.source
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


def described(pipeline: Pipeline) -> str:
    """The source, in words."""
    source = pipeline.source
    if isinstance(source, Files):
        paths = [source.path] if isinstance(source.path, str) else source.path
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
    paths = [source.path] if isinstance(source.path, str) else source.path
    for path in paths:
        if not is_remote(path) and not any(sign in path for sign in "*?[{") and not Path(path).exists():
            raise InputError(f"source.path: {path}: no such file or folder")
    kind = source.format or str(format_of(paths[0]))
    reader = session.read.format(kind).options(**_reading(kind, source.options))
    return _loaded(reader, source.schema, "source.path", paths)


def _folder(session: "SparkSession", source: Folder) -> "DataFrame":
    options = _reading(source.format, source.options)
    if not is_remote(source.path) and not Path(source.path).is_dir():
        raise InputError(f"source.path: {source.path}: no such folder; a stream waits for files, not for it")
    schema: Any = source.schema
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
    reader = session.readStream.format(source.format).options(**options)
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
        return events.select(F.from_json("value", source.schema).alias("event")).select("event.*")


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
