"""What a node runs: a state machine without input or output. A message in, effects out.

core          the seam: what every protocol's core offers
protocols     the protocols by name: what makes a core
effects       what a runtime is asked to do
local         what a core is told by its runtime: links, time, load
needs         what a core is handed: a matcher
forwarding    who gets an event: the one procedure, for every protocol
seen          which events have come, so that none is taken twice
table         what has been asked for, by whom, on which trees
routes        the same, ready for blocks of events
clients       what clients call things, and what the network calls them
grants        what a client may subscribe to, advertise and watch
quotas        how much of it, and how fast
publishers    who publishes, and what their earlier brokers have acknowledged
trees         advertisement trees: `protocol = "trees"`
flood         every event to every node: `protocol = "flood"`
"""
