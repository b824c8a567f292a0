"""A driver that is killed: `stream_driver.py FOLDER before|after BATCH`.

Routes the files of FOLDER/events, and kills itself with its JVM before or after a batch has been written, and
in any case before Spark notes that the batch is done.
"""

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.spark import ForeachSink, ParquetSink, await_query, builder, route_stream
from stream_cases import stream_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.spark.sinks import Sink


def main() -> None:
    """Run until killed."""
    folder, when, last = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])

    def kill(_: "DataFrame", batch: int) -> None:
        if batch == last:
            # All of this process's group, which has the JVM.
            os.kill(0, signal.SIGKILL)

    sinks: list[Sink] = [ParquetSink(folder / "routed"), ForeachSink(kill)]
    settings = {
        "spark.local.dir": str(folder / "local"),
        # It does not live long enough to be worth compiling well.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    }
    spark = builder("killed", "local[1]", settings).getOrCreate()
    query = route_stream(
        stream_of(spark, folder / "events"),
        folder / "rules",
        sinks=sinks if when == "after" else sinks[::-1],
        checkpoint=folder / "checkpoint",
        unmatched="keep",
        trigger="available-now",
    )
    await_query(query)


if __name__ == "__main__":
    main()
