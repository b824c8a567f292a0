"""The client library.

connecting     `connect`: the way in
client         a client: its connection, its requests, what happens when the connection is lost
outlet         what it publishes: numbered, in blocks, until acknowledged
subscriptions  what it is sent: subscriptions and received events
notices        what it is told
sync           the same verbs without asyncio
"""
