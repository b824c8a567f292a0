"""The data pipeline on Spark: the same filters and the same answers over a lake or a stream.

    from penstock.spark import route
    routed = route(events, subscriptions)

Functions take DataFrames and give DataFrames; they never start or stop a session. Spark is imported when one
of them is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from penstock.spark import python

if TYPE_CHECKING:
    from penstock.spark.analysis.covering import covering
    from penstock.spark.analysis.merging import merge_candidates
    from penstock.spark.analysis.profile import profile
    from penstock.spark.analysis.similarity import TRACE, history_from_trace, similarity
    from penstock.spark.analysis.sweep import sweep
    from penstock.spark.hits import summary
    from penstock.spark.layout import Layout
    from penstock.spark.left_out import skipped
    from penstock.spark.python import use
    from penstock.spark.routing import explain, route
    from penstock.spark.session import builder
    from penstock.spark.sinks import ConsoleSink, ForeachSink, JsonLinesSink, ParquetSink, PenstockSink
    from penstock.spark.streaming import await_query, route_stream
    from penstock.spark.subscriptions import check_subscriptions, save_table
    from penstock.spark.tables import Table

__all__ = [
    "TRACE",
    "ConsoleSink",
    "ForeachSink",
    "JsonLinesSink",
    "Layout",
    "ParquetSink",
    "PenstockSink",
    "Table",
    "await_query",
    "builder",
    "check_subscriptions",
    "covering",
    "explain",
    "history_from_trace",
    "merge_candidates",
    "profile",
    "route",
    "route_stream",
    "save_table",
    "similarity",
    "skipped",
    "summary",
    "sweep",
    "use",
]

_HOMES = {
    "TRACE": "analysis.similarity",
    "ConsoleSink": "sinks",
    "ForeachSink": "sinks",
    "JsonLinesSink": "sinks",
    "Layout": "layout",
    "ParquetSink": "sinks",
    "PenstockSink": "sinks",
    "Table": "tables",
    "await_query": "streaming",
    "builder": "session",
    "check_subscriptions": "subscriptions",
    "covering": "analysis.covering",
    "explain": "routing",
    "history_from_trace": "analysis.similarity",
    "merge_candidates": "analysis.merging",
    "profile": "analysis.profile",
    "route": "routing",
    "route_stream": "streaming",
    "save_table": "subscriptions",
    "similarity": "analysis.similarity",
    "skipped": "left_out",
    "summary": "hits",
    "sweep": "analysis.sweep",
    "use": "python",
}


python.on_import()


def __getattr__(name: str) -> object:
    """Import what is asked for when it is: each job needs something else."""
    if name in _HOMES:
        return getattr(import_module(f"penstock.spark.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'penstock.spark' has no attribute {name!r}")


def __dir__() -> list[str]:
    """What there is, also what has not been asked for yet: shells complete by it."""
    return sorted({*(name for name in globals() if name[:2] == "__"), *__all__})
