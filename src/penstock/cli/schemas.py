"""`penstock schema infer`: the schema of the events of files."""

import argparse

from penstock.cli.chunks import JsonChunk, Pace, RowsChunk, read_chunks
from penstock.cli.compile import check_output
from penstock.cli.events import EventOptions, arrow_events
from penstock.cli.files import Advance, display, placed, whole_output
from penstock.cli.progress import progress
from penstock.cli.schema_files import parquet_schema
from penstock.cli.sources import Source, one_kind, size_of_all, sources
from penstock.errors import InputError
from penstock.model.events import decode_object
from penstock.model.inference import Inference
from penstock.model.schema import Schema


def run(options: argparse.Namespace) -> int:
    """Write the JSON Schema of the events of files."""
    files = sources(options.events, options.events_format, "--events-format")
    one_kind(files)
    check_output(options.output, files)
    with progress("events", size_of_all(files)) as advance:
        schema = infer(files, EventOptions(nulls=tuple(options.null)), advance)
    if not schema.attributes:
        raise InputError(f"{', '.join(options.events)}: there is no event to infer a schema from")
    with whole_output(options.output) as write:
        write(schema.to_json().encode())
    return 0


def infer(files: list[Source], options: EventOptions, advance: Advance) -> Schema:
    """The schema of the events of files. Of Parquet files only the schema is read."""
    made = Inference()
    for chunk in read_chunks([f for f in files if f.kind != "parquet"], options, advance, Pace()):
        if isinstance(chunk, JsonChunk):
            _see_lines(made, chunk)
        elif isinstance(chunk, RowsChunk):
            # A column may be empty throughout.
            made.name(chunk.rows.schema.names)
            for event in arrow_events(chunk.rows, chunk.options, chunk.place, chunk.row):
                if event is not None:
                    made.see(event.attributes)
    schema = made.schema()
    for path in (f.path for f in files if f.kind == "parquet"):
        schema = schema.united(parquet_schema(path))
    return schema


def _see_lines(made: Inference, chunk: JsonChunk) -> None:
    for index, line in enumerate(chunk.data.split(b"\n")):
        if line.strip():
            with placed(f"{display(chunk.path)}:{chunk.line + index}"):
                made.see(decode_object(line.strip()))
