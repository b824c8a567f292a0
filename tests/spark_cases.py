"""What tests of the pipeline share."""

from typing import Final

QUICK_START: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For Java that runs for seconds: the compiler that optimizes would take longer than it saves."""
