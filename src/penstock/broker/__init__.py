"""The broker: a state machine without input or output. A message in, effects out.

effects       what the runtime is asked to do
needs         what the broker is handed: a matcher
trees         advertisements, and the trees that they span
table         what has been asked for, by whom, on which trees
grants        what a client may subscribe to, advertise and watch
quotas        how much of it, and how fast
routes        the same, ready for blocks of events
clients       what clients call things, and what the network calls them
sessions      numbered messages on a link, and what is done when one is missing
outbox        what one message leads to
advertising   how trees grow, fall, and are mended
subscribing   what is asked of this broker, and what it asks of its neighbours
publishing    events, down their tree, to whoever wants them
relaying      the same for blocks of events, as bytes
seen          which events have come, so that none is taken twice
grants        what a client may subscribe to, advertise and watch
core          the broker itself
"""
