"""Loading rules that are given as text, and matching one event with them.

The ratio compares with parsing each rule by itself (`penstock.parse`) and loading the predicates. Both ways
are measured in one process, one after the other, on a part of the rules. Times are processor time, so other
programs on the machine hardly count.
"""

import gc
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from penstock.bench.scenario import TextsScenario
from penstock.filters.parsing import parse
from penstock.matching.matcher import Matcher
from penstock.workloads import adversarial

_COMPARED: Final = 20
"""The part of the rules that is loaded both ways: one in so many."""

_FIRST: Final = 200
_EVENT: Final = {"x": 1, "name": "customer-000000001", "word": "v1"}
_MATCHES: Final = 9


class Texts(msgspec.Struct, frozen=True):
    """What loading rules took."""

    seconds: float
    ratio: float
    """How many times as long as that it takes to parse each by itself."""
    match_ms: float
    """One event, by itself."""
    matches: int
    peak_gb: float
    """Of the process, with the texts."""


def measure_texts(scenario: TextsScenario, seed: int, progress: Callable[[str], None]) -> Texts:
    """Load the rules of a scenario."""
    workload = scenario.workload
    rules = list(enumerate(adversarial.texts(workload.rules, workload.filters, seed)))
    # What has to be compiled is compiled, and what has to be imported is imported.
    _load(rules[:_FIRST]).match(_EVENT)
    progress(f"loading {len(rules):,} rules")
    seconds, matcher = _timed(rules)
    times = []
    for _ in range(_MATCHES):
        started = time.process_time()
        found = matcher.match(_EVENT)
        times.append(time.process_time() - started)
    peak = _peak_gb()
    del matcher
    some = rules[: max(_FIRST, len(rules) // _COMPARED)]
    progress(f"loading {len(some):,} rules both ways")
    together, _ = _timed(some)
    started = time.process_time()
    apart, _ = _timed([(number, parse(rule)) for number, rule in some], started)
    return Texts(seconds, apart / together, 1_000 * statistics.median(times), len(found), peak)


def _timed(rules: Iterable[Any], started: float | None = None) -> tuple[float, Matcher]:
    gc.collect()
    started = started or time.process_time()
    matcher = _load(rules)
    return time.process_time() - started, matcher


def _load(rules: Iterable[Any]) -> Matcher:
    matcher = Matcher()
    matcher.warns = False
    matcher.add_many(rules)
    return matcher


def _peak_gb() -> float:
    try:
        import resource
    except ImportError:  # only where there is POSIX
        return float("nan")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e9 if sys.platform == "darwin" else 1e6)
