"""Benchmarks: what is printed here is what the documentation claims.

filters   parsing, loading and comparing filters
"""
