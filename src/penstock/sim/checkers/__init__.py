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

Of whole nodes:
contract    what is acknowledged was taken, or told; at rest nothing is left over
prompt      nobody is kept waiting by what others do
strangers   hostile clients lose their connection, and get nothing

schemes     the same deliveries under every scheme and protocol
"""
