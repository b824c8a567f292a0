"""Routing: which filters cover which, and what a broker asks of its neighbours.

shape              what a predicate surely demands of an event: a quick test before the covering test
bag                many members, asked at once which may cover a shape, and which it may cover
frontier           of many boxes those nearest to another
table              what every covering table does, and what it counts
poset              the Siena filters poset: all immediate covering relations
siena              what a router forwards when it is subscribed to: Siena's semantics
forest             the poset-derived forest: one parent each
interface_forest   the forest whose filters come from interfaces: balanced, non-redundant
offers             a filter on some trees: what schemes and their tables are about
schemes            flooding, simple, identity, covering, merging: what is asked of a neighbour

Nothing here knows of brokers, links or messages, nor of the engines that match events.
"""
