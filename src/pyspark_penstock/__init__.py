"""Spark looks into modules called pyspark_… for data sources: so `format("penstock")` registers itself."""

from penstock.spark.source.source import PenstockSource as DefaultSource

__all__ = ["DefaultSource"]
