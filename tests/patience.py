"""How long tests wait for what should happen. Timings decide no test: only what never comes is late."""

HANGS = 280
"""Seconds after which something is taken to hang: many times what it takes where all cores are busy.

Twice as long is still less than pytest's own limit for a test, which tells less.
"""
