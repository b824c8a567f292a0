"""Routing schemes: what a broker asks of each neighbour, given all that it has been asked for itself.

scheme     the interface, and what schemes share
flooding   nothing: events go everywhere (event flooding)
simple     every subscription (seed paper 000, section 4.1)
identity   every different filter (4.2)
covering   the filters that no other covers: active, lazy, packed (4.3; seed paper 002, sections II and V)
merging    mergers of those (4.4)
catalog    the schemes by name
"""
