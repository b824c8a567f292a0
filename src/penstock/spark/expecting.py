"""What a profile of events lets expect of a job: how many events there are, how many filters match one."""

from typing import TYPE_CHECKING, Final

from penstock.spark.rules import load_block
from penstock.spark.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SAMPLE: Final = 2_000
"""Events drawn from a profile: enough to tell a match in a hundred events from one in ten."""


def expectations(profile: "DataFrame", table: Table) -> tuple[int, float]:
    """How many events were profiled, and how many ids of the table match one, by events drawn as it tells.

    Attributes are drawn each for itself, as the profile knows nothing of what goes with what.
    """
    from penstock.spark.analysis.distributions import read_profile, sample_events

    known = read_profile(profile)
    sample = sample_events(known, SAMPLE, 0)
    if not sample.num_rows:
        return 0, 1.0
    found = sum(
        len(load_block(folder).match_batch(sample, unsupported="skip").numbers) for folder in table.folders
    )
    return max(one.rows for one in known), found / sample.num_rows
