"""The table that a pipeline routes by: a saved one, or one that is compiled from a file."""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.errors import InputError, PenstockError
from penstock.spark.layout import Layout
from penstock.spark.pipeline.checks import format_of
from penstock.spark.pipeline.config import Pipeline, Subscriptions, is_remote
from penstock.spark.pipeline.sessions import placed
from penstock.spark.subscriptions import save_table
from penstock.spark.tables import MANIFEST, MATCHER, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

TABLE: Final = "table"
"""The folder below a stream's checkpoint for what is compiled from a file."""

_STAMP: Final = "compiled-from.json"
_CORRUPT: Final = "_corrupt_record"


class _Stamp(msgspec.Struct):
    """What a table was compiled from."""

    sha256: str
    language: str
    invalid: str
    blocks: int | None = None


def is_table(path: str) -> bool:
    """Whether a path is a folder that has, or had, a table."""
    folder = Path(path)
    if is_remote(path) or not folder.is_dir():
        return False
    known = (folder / MANIFEST).exists() or (folder / MATCHER).exists()
    return known or any(entry.name.startswith(("v0", ".v0")) for entry in folder.iterdir())


def rows_of(session: "SparkSession", given: Subscriptions) -> "DataFrame":
    """The subscriptions of a file as a DataFrame: id, filter and, where any has one, subscriber."""
    from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

    kind = _format_of(given)
    with placed("subscriptions.path"):
        if kind == "parquet":
            return session.read.parquet(given.path)
        if kind == "csv":
            # Quotes are doubled, as everybody but Spark does it; filters have commas and line ends.
            reader = session.read.options(header="true", quote='"', escape='"', multiLine="true")
            return _whole_lines(reader, given.path)
        # As text: what is inferred of filters that are objects would be a struct of all their keys.
        schema = f"id string, filter string, subscriber string, {_CORRUPT} string"
        rows = session.read.schema(schema).option("columnNameOfCorruptRecord", _CORRUPT).json(given.path)
        # A line that is no object has to be refused as a filter; it must not get lost.
        rows = rows.withColumn("filter", F.coalesce("filter", _CORRUPT)).drop(_CORRUPT)
        if rows.where("subscriber is not null").isEmpty():
            rows = rows.drop("subscriber")
        return rows


def _whole_lines(reader: "DataFrameReader", path: str) -> "DataFrame":
    """The rows of a CSV file, where a line of more fields than there are columns, or fewer, is no filter.

    Spark would take what fits: of `rich,a > 1,000` the filter a > 1.
    """
    from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
    from pyspark.sql.types import StringType

    names = reader.csv(path).schema
    counting = reader.option("columnNameOfCorruptRecord", _CORRUPT).schema(names.add(_CORRUPT, StringType()))
    rows = counting.csv(path)
    if "filter" not in rows.columns:
        return rows.drop(_CORRUPT)
    wrong = F.concat(F.lit("this line has not as many fields as the first: "), F.col(_CORRUPT))
    return rows.withColumn("filter", F.coalesce(wrong, "filter")).drop(_CORRUPT)


def table_for_stream(session: "SparkSession", pipeline: Pipeline) -> str:
    """The folder of the table of a stream: the saved one, or what is compiled into the checkpoint.

    A file that has not changed since the last start is not compiled again.
    """
    given = pipeline.subscriptions
    if is_table(given.path):
        check_language(given)
        return given.path
    folder = Path(pipeline.checkpoint or "") / TABLE
    blocks = _blocks(pipeline)
    stamp = _stamp(given, blocks)
    if stamp is not None and stamp == _read_stamp(folder) and Table.versions(folder):
        return str(folder)
    rows = rows_of(session, given)
    save_table(rows, folder, language=given.language, invalid=given.invalid, blocks=blocks)
    if stamp is not None:
        (folder / _STAMP).write_bytes(msgspec.json.encode(stamp))
    return str(folder)


def _blocks(pipeline: Pipeline) -> int | None:
    """The parts that a layout by hand cuts the table into."""
    layout = pipeline.route.layout
    return None if layout in (None, "auto") else Layout.parse(layout).subscription_parts


def subscriptions_of(session: "SparkSession", given: Subscriptions) -> "DataFrame | str":
    """What `penstock.spark.route` takes: the folder of a saved table, or rows."""
    if is_table(given.path):
        check_language(given)
        return given.path
    return rows_of(session, given)


def check_language(given: Subscriptions) -> None:
    """Refuse a table that is not there, and a language for filters that are compiled already."""
    try:
        Table.open(given.path)
    except PenstockError as error:
        raise InputError(f"subscriptions.path: {error}") from None
    if given.language != "sql":
        raise InputError("subscriptions.language: is for files; a saved table is compiled already")


def check_path(given: Subscriptions) -> None:
    """Raise InputError if subscriptions are not there; it takes no Spark to see that."""
    if not is_remote(given.path) and not Path(given.path).exists():
        raise InputError(f"subscriptions.path: {given.path}: no such file or folder")


def _format_of(given: Subscriptions) -> str:
    check_path(given)
    if given.format is not None:
        return "json" if given.format == "jsonl" else given.format
    found = format_of(given.path)
    if found is None:
        raise InputError(
            f"subscriptions.path: {given.path}: no saved table, and the name does not tell the format: end "
            "it in .jsonl, .csv or .parquet, or give subscriptions.format"
        )
    return found


def _stamp(given: Subscriptions, blocks: int | None) -> _Stamp | None:
    """What tells whether a file has changed; None where it cannot be read from here."""
    file = Path(given.path)
    if is_remote(given.path) or not file.is_file():
        return None
    with file.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    return _Stamp(digest, given.language, given.invalid, blocks)


def _read_stamp(folder: Path) -> _Stamp | None:
    try:
        return msgspec.json.decode((folder / _STAMP).read_bytes(), type=_Stamp)
    except (OSError, msgspec.MsgspecError):
        return None
