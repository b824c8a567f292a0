"""A node without sockets: what a broker process and a client do besides the protocol.

world         what a node is handed of the world: time, chance, connections
settings      limits and times
connection    bytes to frames and back
opening       dial, greet, and be welcomed or refused
dialing       keep a connection to a neighbour
hub           which connection is whose
admission     who is let in
turns         whose filters are looked at next
logs          what is logged, without control characters
identity      who somebody is, and what that one may do
naming        what links are called, and in whose name events are numbered
links         one link: its session, the connection it has now, its counts
runtime       carries out what the core asks for, on reliable links
watching      what time does to links
asking        what clients ask of their broker, as the core has it
meters        what clients send, counted against their quotas
tracing       the ways that marked events took
status        what a node says of itself
node          all of that together: one broker
client        the same for a client

The live network (`penstock.net`) runs these over sockets and asyncio; `penstock check` runs the same under
virtual time. Nothing here reads a clock, draws at random or opens anything by itself.
"""
