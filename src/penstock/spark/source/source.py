"""The data source: which reader and writer there is for what. Spark makes one of it wherever it needs one."""

from collections.abc import MutableMapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from penstock.errors import InputError
from penstock.spark.source.options import read_options

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from penstock.spark.source.reading import BatchReader, StreamReader
    from penstock.spark.source.writing import BatchWriter, StreamWriter

PLAIN_SCHEMA = "event string, publisher string, number bigint, received_at timestamp"
"""The columns where no schema is given: events as JSON text, with what came along."""


class PenstockSource(DataSource):
    """`format("penstock")`."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        if "url" not in options and "path" in options:
            # load("penstock://host") says the same.
            options["url"] = options["path"]
        # Here, because this is where `load()` can still be told of a mistake; readers are made much later.
        self.checked = read_options(options)

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "penstock"

    def schema(self) -> str:
        """The columns where the user gives none."""
        return PLAIN_SCHEMA

    def reader(self, schema: "StructType") -> "BatchReader":
        """What comes within some seconds."""
        from penstock.spark.source.reading import BatchReader, PushingReader

        if self.checked.seconds is None:
            raise InputError(
                "a batch of events needs option('seconds', …), for how long they are gathered; "
                "for all that come use spark.readStream"
            )
        return (PushingReader if self.checked.pushdown else BatchReader)(schema, self.checked)

    def streamReader(self, schema: "StructType") -> "StreamReader":  # noqa: N802 - Spark's name
        """All that comes."""
        from penstock.spark.source.reading import StreamReader

        if self.checked.log is None:
            raise InputError(
                "a stream of events needs option('log', …), a folder below the query's checkpoint that this "
                "query alone uses: what was read is kept there until it is dealt with"
            )
        return StreamReader(schema, self.checked)

    def writer(self, schema: "StructType", overwrite: bool) -> "BatchWriter":
        """Publishes a DataFrame."""
        from penstock.spark.source.writing import BatchWriter

        if overwrite:
            raise InputError("what is published cannot be overwritten: use mode('append')")
        return BatchWriter(schema, self.checked)

    def streamWriter(self, schema: "StructType", overwrite: bool) -> "StreamWriter":  # noqa: N802 - Spark's name
        """Publishes a stream."""
        from penstock.spark.source.writing import StreamWriter

        if overwrite:
            raise InputError("what is published cannot be taken back: use outputMode('append') or 'update'")
        return StreamWriter(schema, self.checked)
