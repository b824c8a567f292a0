"""What events matched, as a Parquet file: a row for each event, with the columns `event` and `ids`.

Columns have the types of what is in them: integers where all are, else text. That all events are named by
integers is known only at the end. When the first other name comes, what has been written is written again.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as papq
from numpy.typing import NDArray

from penstock.cli.files import whole_file
from penstock.matching.batch import Batch
from penstock.matching.lines import Lines
from penstock.matching.matches import Matches

_EVENT: Final = "event"
_IDS: Final = "ids"

_ROWS: Final = 131_072
_BYTES: Final = 2**26
"""Rows, or bytes, that are written at once."""


class _Name(msgspec.Struct):
    """What is read of a line: the event's name."""

    event: Any


class ParquetRows:
    """Makes rows of matches, as `lines` is going to name their events."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._decoder = msgspec.json.Decoder(_Name)

    def make(self, batch: Batch, matches: Matches, events: NDArray[np.int64], first_row: int) -> pa.Table:
        """A row for each of the events, which have matched something."""
        # One id is enough for a line, from which the name is taken.
        one = Matches(
            np.arange(len(matches) + 1),
            np.zeros(len(matches), np.int32),
            matches.table,
            integers=matches.integers,
        )
        text = self._lines.write(batch, one, events, first_row).tobytes() if len(events) else b""
        names = [self._decoder.decode(line).event for line in text.splitlines()]
        return pa.table({_EVENT: _column(names), _IDS: matches.take(events).to_arrow(ordered=True)})


def _column(names: list[Any]) -> pa.Array:
    if all(type(name) is int for name in names):
        return pa.array(names, pa.int64())
    return pa.array([name if isinstance(name, str) else msgspec.json.encode(name).decode() for name in names])


@contextmanager
def parquet_output(path: str, nothing: Matches) -> Iterator["ParquetFile"]:
    """Give a Parquet file to write, which appears only if no error comes.

    `nothing`: the matches of no event, which tell of what type ids are.
    """
    with whole_file(path) as file:
        made = ParquetFile(file, pa.table({_EVENT: _column([]), _IDS: nothing.to_arrow()}).schema)
        yield made
        made.close()


class ParquetFile:
    """See the module."""

    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:
        """`schema` is that of a file without rows."""
        self._file = file
        self._empty = schema
        self._schema: pa.Schema | None = None
        self._writer: papq.ParquetWriter | None = None
        self._held: list[pa.Table] = []

    def write(self, table: pa.Table) -> None:
        """Write rows; soon, if they are few."""
        schema = self._schema
        if schema is None:
            self._schema = table.schema
        elif table.schema != schema:
            if pa.types.is_string(table.schema.field(_EVENT).type):
                self._begin_again(table.schema)
            else:
                table = table.cast(schema)
        self._held.append(table)
        rows, size = sum(map(len, self._held)), sum(held.nbytes for held in self._held)
        if rows >= _ROWS or size >= _BYTES:
            self._flush()

    def close(self) -> None:
        """Write what is left, and the end of the file."""
        self._schema = self._schema or self._empty
        self._flush().close()

    def _flush(self) -> papq.ParquetWriter:
        if self._writer is None:
            self._writer = papq.ParquetWriter(self._file, self._schema, compression="zstd")
        if self._held:
            self._writer.write_table(pa.concat_tables(self._held))
            self._held = []
        return self._writer

    def _begin_again(self, schema: pa.Schema) -> None:
        """Write all that has been written with columns of other types."""
        self._flush().close()
        with tempfile.TemporaryFile() as before:
            self._file.seek(0)
            shutil.copyfileobj(self._file, before, 2**20)
            self._file.seek(0)
            self._file.truncate()
            self._schema = schema
            self._writer = papq.ParquetWriter(self._file, schema, compression="zstd")
            known = papq.ParquetFile(before)
            for group in range(known.num_row_groups):
                self._writer.write_table(known.read_row_group(group).cast(schema))
