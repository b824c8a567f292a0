"""A client without sockets: what `penstock.connect` gives, and what the simulator runs.

core          what it asks for, publishes and gets
line          its session with a broker, over one connection after another
outlet        what it publishes: numbered, in blocks, until acknowledged
acknowledged  when that was acknowledged, in case the broker dies
intake        what it is sent: nothing twice
notices       what it is told
"""
