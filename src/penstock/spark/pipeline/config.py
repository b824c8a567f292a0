"""The file of a pipeline: a source, subscriptions, how to route, and sinks.

Keys are those of the classes here; `pipeline.toml` beside this file shows them, and `penstock pipeline
example` prints it. Mistakes are told all at once, each with its table and key. Paths are relative to the
file.
"""

import re
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta, field

from penstock.errors import InputError
from penstock.mistakes import said
from penstock.spark.pipeline.checks import REMOTE, mistakes

Count: TypeAlias = Annotated[int, Meta(ge=1, le=1_000_000_000)]
Port: TypeAlias = Annotated[int, Meta(ge=1, le=65_535)]
Text: TypeAlias = Annotated[str, Meta(min_length=1)]
Paths: TypeAlias = Text | Annotated[list[Text], Meta(min_length=1)]
FileFormat: TypeAlias = Literal["json", "csv", "parquet"]

_TRIES_MAX: Final = 50
"""Mistakes of types that are looked for in one table."""

_PATHS: Final = {
    "": ("checkpoint",),
    "source": ("path", "token_file", "ca", "cert", "key"),
    "subscriptions": ("path",),
    "sinks": ("path", "token_file", "ca", "cert", "key"),
}
"""The settings that are paths, by table."""


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Refuses keys that it does not know."""


class _Source(_Strict, frozen=True, kw_only=True, tag_field="kind"):
    """What all sources have: `columns` are SQL expressions, which add to the columns or replace them."""

    columns: dict[str, Text] = {}


class Files(_Source, frozen=True, kw_only=True, tag="files"):
    """Files that are there: a batch. Without a schema Spark infers one; `options` are its reader's."""

    path: Paths
    format: FileFormat | None = None
    schema: Text | None = None
    options: dict[str, str | int | float | bool] = {}


class Folder(_Source, frozen=True, kw_only=True, tag="folder"):
    """A folder that is being filled with whole files: a stream, each file once."""

    path: Text
    format: FileFormat
    schema: Text | None = None
    max_files_per_batch: Count | None = None
    options: dict[str, str | int | float | bool] = {}


class Rate(_Source, frozen=True, kw_only=True, tag="rate"):
    """So many rows a second, with `value` (0, 1, 2 …) and `timestamp`; `columns` make events of them."""

    rows_per_second: Count = 10


class Socket(_Source, frozen=True, kw_only=True, tag="socket"):
    """Lines that a server sends: JSON objects where there is a schema, else text in `value`."""

    host: Text
    port: Port
    schema: Text | None = None


class Network(_Source, frozen=True, kw_only=True, tag="penstock"):
    """Events of a live network, those that match `filter`: see `penstock.spark.source`."""

    url: Paths
    schema: Text
    filter: Text | None = None
    token_file: Text | None = None
    ca: Text | None = None
    cert: Text | None = None
    key: Text | None = None
    max_events_per_batch: Count | None = None
    options: dict[str, str | int | float | bool] = {}


Source: TypeAlias = Files | Folder | Rate | Socket | Network


class Subscriptions(_Strict, frozen=True, kw_only=True):
    """A file with id, filter and, if you like, subscriber; or the folder of a saved table.

    A stream takes up new versions of a saved table while it runs, and a changed file when it starts.
    """

    path: Text
    format: Literal["jsonl", "csv", "parquet"] | None = None
    language: Literal["sql", "padres", "json"] = "sql"
    invalid: Literal["refuse", "quarantine"] = "refuse"


class Route(_Strict, frozen=True, kw_only=True):
    """As the arguments of `penstock.spark.route`."""

    output: Literal["ids", "rows"] = "ids"
    unmatched: Literal["drop", "keep"] = "drop"
    column: Text | None = None
    unsupported: Literal["refuse", "skip"] = "refuse"
    strict: bool = False
    layout: Text | None = None


class Parquet(_Strict, frozen=True, kw_only=True, tag_field="kind", tag="parquet"):
    """A folder with one for each batch; `partition_by` are columns to make folders of below that."""

    path: Text
    partition_by: list[Text] = []
    options: dict[str, str | int | float | bool] = {}


class JsonLines(_Strict, frozen=True, kw_only=True, tag_field="kind", tag="jsonl"):
    """As Parquet, with a line of JSON for each row."""

    path: Text
    partition_by: list[Text] = []
    options: dict[str, str | int | float | bool] = {}


class Console(_Strict, frozen=True, kw_only=True, tag_field="kind", tag="console"):
    """Standard output: the first rows of each batch."""

    rows: Count = 20
    truncate: bool = True


class Publish(_Strict, frozen=True, kw_only=True, tag_field="kind", tag="penstock"):
    """A live network: each row is published as an event, with the list of its ids."""

    url: Paths
    advertise: Text | None = None
    token_file: Text | None = None
    ca: Text | None = None
    cert: Text | None = None
    key: Text | None = None
    options: dict[str, str | int | float | bool] = {}


Sink: TypeAlias = Parquet | JsonLines | Console | Publish


class Pipeline(_Strict, frozen=True, kw_only=True):
    """All of it. In the checkpoint a stream notes what it has done, to go on from there after a restart."""

    source: Source
    subscriptions: Subscriptions
    sinks: Annotated[list[Sink], Meta(min_length=1)]
    route: Route = field(default_factory=Route)
    name: Text | None = None
    master: Text | None = None
    checkpoint: Text | None = None
    trigger: Text | None = None
    spark: dict[str, Any] = {}

    @property
    def is_stream(self) -> bool:
        """Whether it goes on until it is stopped, or until all is done that was there when it started."""
        return not isinstance(self.source, Files)

    @property
    def settings(self) -> dict[str, str]:
        """The settings of Spark, with their full names."""
        return dict(_flat(self.spark))


def load(path: str | Path, overrides: Mapping[str, Any] | None = None) -> Pipeline:
    """The pipeline of a file; `overrides` go before its keys, with paths relative to where we are."""
    try:
        text = Path(path).read_bytes().decode("utf-8")
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8: {error}") from None
    return parse(text, str(path), Path(path).parent, overrides)


def parse(
    text: str, source: str, folder: str | Path = ".", overrides: Mapping[str, Any] | None = None
) -> Pipeline:
    """A pipeline from TOML; `source` names the file in errors, and paths are relative to `folder`."""
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{source}: not TOML: {error}") from None
    except RecursionError:
        raise InputError(f"{source}: not TOML that has an end: too deeply nested") from None
    over = _resolved(dict(overrides or {}), Path())
    given = _resolved(given, Path(folder)) | over
    found = list(_type_mistakes(given))
    if not found:
        made = msgspec.convert(given, Pipeline)
        found = [(f"--{key}" if key in over else key, what) for key, what in mistakes(made)]
        if not found:
            return made
    told = "; ".join(f"{where}: {what}" if where else what for where, what in found)
    count = f"{len(found)} mistakes: " if len(found) > 1 else ""
    raise InputError(f"{source}: {count}{told}")


def example() -> str:
    """A file with all settings, explained."""
    return files("penstock.spark.pipeline").joinpath("pipeline.toml").read_text("utf-8")


def is_remote(path: str) -> bool:
    """Whether a path is an address: of an object store, or of a file system that is not mounted."""
    return bool(REMOTE.match(path))


def _resolved(given: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The same with paths that are absolute."""
    found = _with_paths(given, _PATHS[""], folder)
    for name in ("source", "subscriptions"):
        if isinstance(given.get(name), dict):
            found[name] = _with_paths(given[name], _PATHS[name], folder)
    if isinstance(given.get("sinks"), list):
        found["sinks"] = [
            _with_paths(sink, _PATHS["sinks"], folder) if isinstance(sink, dict) else sink
            for sink in given["sinks"]
        ]
    return found


def _with_paths(table: dict[str, Any], names: tuple[str, ...], folder: Path) -> dict[str, Any]:
    found = dict(table)
    for name in names:
        value = found.get(name)
        if isinstance(value, str) and value:
            found[name] = _absolute(value, folder)
        elif isinstance(value, list):
            found[name] = [_absolute(one, folder) if isinstance(one, str) and one else one for one in value]
    return found


def _absolute(path: str, folder: Path) -> str:
    if is_remote(path):
        return path
    return str((folder / Path(path.removeprefix("file://")).expanduser()).absolute())


_STAND_INS: Final[dict[str, Any]] = {
    "source": {"kind": "rate"},
    "subscriptions": {"path": "-"},
    "sinks": [{"kind": "console"}],
}
"""What is needed, so that a table can be looked at without the others."""


def _type_mistakes(given: dict[str, Any]) -> "list[tuple[str, str]]":
    """What is of no type that it could be. msgspec tells one mistake: so each table is looked at for itself,
    and again without what was wrong in it."""
    found: dict[str, str] = {}
    for key in [*given, *(name for name in _STAND_INS if name not in given)]:
        table = {name: value for name, value in _STAND_INS.items() if name != key}
        if key in given:
            table[key] = given[key]
        gone: set[str] = set()
        for _ in range(_TRIES_MAX):
            try:
                msgspec.convert(table, Pipeline)
                break
            except msgspec.ValidationError as error:
                where, _colon, what = said(str(error), table, Pipeline).partition(": ")
                what = what.replace(" | null", "")
            if where in gone:
                # It is missing only because it was wrong.
                break
            found.setdefault(where, what)
            gone.add(where)
            if not _without(table, where):
                break
    return list(found.items())


def _without(table: dict[str, Any], where: str) -> bool:
    """Take out what is at a place; say whether it was there."""
    holder: Any = table
    steps = re.findall(r"[^.\[\]]+", where)
    # Other tables are not to lose it.
    for at, step in enumerate(steps):
        is_last = at == len(steps) - 1
        key: Any = int(step) if isinstance(holder, list) and step.isdecimal() else step
        if isinstance(holder, list):
            if not isinstance(key, int) or key >= len(holder):
                return False
        elif not isinstance(holder, dict) or key not in holder:
            return False
        if is_last:
            del holder[key]
            return True
        below = holder[key]
        holder[key] = below.copy() if isinstance(below, dict | list) else below
        holder = holder[key]
    return False


def _flat(given: Mapping[str, Any], prefix: str = "") -> "list[tuple[str, str]]":
    found: list[tuple[str, str]] = []
    for key, value in given.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            found += _flat(value, f"{name}.")
        else:
            full = name if name.startswith("spark.") else f"spark.{name}"
            found.append((full, str(value).lower() if isinstance(value, bool) else str(value)))
    return found
