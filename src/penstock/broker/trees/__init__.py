"""Advertisement trees: `protocol = "trees"`, with the routing schemes of `penstock.routing.schemes`.

broker        the core: which message leads to what
trees         advertisements, and the trees that they span
pathways      where events of a tree go
sessions      numbered messages on a link, and what is done when one is missing
outbox        what one message leads to
advertising   how trees grow, fall, and are mended
subscribing   what is asked of this broker, and what it asks of its neighbours
catching      what was missed while a path was broken, and how it is asked for
"""
