"""How long tests wait for what should happen. Timings decide no test: only what never comes is late."""

HANGS = 480
"""Seconds after which something is taken to hang: many times what it takes where all cores are busy."""
