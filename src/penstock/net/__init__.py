"""The live network: brokers and clients that talk over sockets.

Everything here has to do with the outside: sockets, clocks, files, certificates. What a broker decides is
decided in `penstock.broker`.

config      what a broker is told, from TOML and flags; `broker.toml` shows all of it
checks      mistakes in that
addresses   penstock://host:port
serve       brokers in this process, until a signal
server      one broker: listeners, neighbours, the clock, the gateway
hub         its connections: who they are, which link each belongs to
admission   who is let in
tokens      who somebody is, and what that one may do: JSON Web Tokens
tls         contexts for connections that are encrypted
files       secrets
descriptors how near the process is to having no file descriptor left
opening     dialing and greeting, as brokers and clients do alike
dialing     keeping a connection to another broker
connection  bytes of a socket to frames and back
runtime     carries out what the core asks for, on reliable links; knows no sockets
links       one link
naming      what links are called
asking      what clients ask, as the core has it
meters      what clients send, counted against their quotas
watching    who is away too long, or too slow
matching    the engine as a broker uses it
tracing     reports of the ways of marked events
status      what a broker says of itself
connector   clients of the broker in its own process, for the gateway
gateway     HTTP, server-sent events and WebSocket
client      the client library
torture     failures of real processes and links, and what became of the events
"""
