"""Schemas of events in files: JSON Schema, and what Parquet and Arrow files say of themselves."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from penstock.cli.files import display, opened, placed, why
from penstock.errors import InputError
from penstock.model.schema import Schema

_PARQUET: Final = (".parquet", ".pq")
_ARROW: Final = (".arrow", ".feather", ".ipc")


def read_schema(path: str) -> Schema:
    """The schema in a file: JSON Schema, or that of a Parquet or an Arrow file."""
    ending = Path(path).suffix.lower()
    if ending in _PARQUET:
        return parquet_schema(path)
    if ending in _ARROW:
        return _arrow_schema(path)
    with opened(path) as file:
        try:
            content = file.read()
        except OSError as error:
            raise InputError(f"{display(path)}: {why(error)}") from None
    with placed(display(path)):
        return Schema.from_json(content)


def parquet_schema(path: str) -> Schema:
    """The schema of a Parquet file, of which nothing else is read."""
    import pyarrow as pa
    import pyarrow.parquet as papq

    with opened(path) as file, placed(display(path)):
        try:
            source = pa.BufferReader(sys.stdin.buffer.read()) if path == "-" else file
            return Schema.from_arrow(papq.read_schema(source))
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"not Parquet: {error}") from None


class Unmatchable:
    """Columns of Parquet files whose type no rule can match: refused where a rule names them."""

    def __init__(self, paths: Iterable[str]) -> None:
        """Of the files nothing but the schema is read; what is read from standard input is not known."""
        self._found: dict[str, str] = {}
        for path in paths:
            if path != "-":
                for name, kind in _unmatchable(path):
                    self._found.setdefault(
                        name,
                        f"{display(path)}: the column {name!r:.80} of type {kind} has no family "
                        "(bool, number, string, time or list); --unsupported skip leaves it out",
                    )

    def __bool__(self) -> bool:
        return bool(self._found)

    def refuse(self, names: Iterable[str]) -> None:
        """Raise InputError if one of the names is that of such a column."""
        for name in names:
            if name in self._found:
                raise InputError(self._found[name])


def _unmatchable(path: str) -> Iterator[tuple[str, str]]:
    """The columns of a file that no rule can match, and their types.

    A column of nothing but nulls is left to the reader of rows, which has no quarrel with it.
    """
    import pyarrow as pa
    import pyarrow.parquet as papq

    attributes = parquet_schema(path).attributes
    left_out = {name: one.type for name, one in attributes.items() if not one.is_matchable}
    if not left_out:
        return
    with opened(path) as file:
        try:
            metadata = papq.read_metadata(file)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{display(path)}: not Parquet: {error}") from None
        yield from ((name, kind) for name, kind in left_out.items() if not _is_empty(metadata, name))


def _is_empty(metadata: Any, name: str) -> bool:
    """Whether a column is known to have nothing but nulls."""
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            path = column.path_in_schema
            if path != name and not path.startswith(name + "."):
                continue
            found = column.statistics
            if found is None or not found.has_null_count or found.null_count < column.num_values:
                return False
    return True


def _arrow_schema(path: str) -> Schema:
    """The schema of an Arrow file, or of a stream of Arrow batches."""
    import pyarrow as pa

    with opened(path) as file, placed(display(path)):
        data = pa.BufferReader(file.read())
        for kind in (pa.ipc.open_file, pa.ipc.open_stream):
            data.seek(0)
            try:
                found: pa.Schema = kind(data).schema
            except (pa.ArrowException, OSError):
                continue
            return Schema.from_arrow(found)
        raise InputError("not an Arrow file")
