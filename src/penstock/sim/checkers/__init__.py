"""What must be true of every run; a file each.

checker     the interface
catalog     which checkers there are, and which look at a protocol

Of every network:
delivered   who wanted an event that was published at rest got it, and nobody else
once        nobody got an event twice
order       events of one publisher came in order, but for those that are marked late
silence     at rest, nothing is said but that neighbours are there

Of protocols that name them:
loops       no event went over a link twice
trees       at rest, the ways to each publisher lead there
tables      at rest, tables hold what live subscriptions need, and nothing else

schemes     the same deliveries under every scheme and protocol
"""
