"""Engines that say which subscriptions an event matches.

reference   brute force over the algebra: the oracle that every other engine is held against
"""
