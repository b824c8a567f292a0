"""Settings of the sessions that tests start."""

from pathlib import Path
from typing import Final

QUICK_START: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For Java that runs for seconds: the compiler that optimizes would take longer than it saves."""


def session_settings(home: Path) -> dict[str, str]:
    """Two cores, two partitions, and nothing outside of a folder."""
    return {
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.local.dir": str(home / "local"),
        "spark.driver.memory": "1g",
        "spark.sql.streaming.stopTimeout": "30s",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={home}",
    }
