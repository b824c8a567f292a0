"""The whole node under virtual time: what runs on sockets, without sockets.

process    a process of its own: its clock, its timers, its chance; it may pause, die and come back
pipes      connections as bytes: latency, stalls, cuts in the middle of a frame, flipped bits
lines      who can connect to whom, and what is done to all that goes over one line
brokers    a broker's process, and the node in it
clients    a client, with the core that programs use, and what it was told
hostile    clients that mean harm
burdens    readers that hold events, and hostile clients: what others must not notice
network    brokers, clients and the lines between them; what can happen to each
timeline   what was wrong when, from which it follows what the contract excuses
draw       plans drawn from seeds
play       playing them

A broker is a `penstock.node.node.Node`, a client a `penstock.node.client.core.ClientCore`: sessions, custody,
rescue, failover and leases are the code that runs in production.
"""
