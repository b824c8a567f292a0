"""The client library.

connecting     `connect`: the way in
client         a client: what it asks for, publishes and gets
line           its session with a broker, over one connection after another
outlet         what it publishes: numbered, in blocks, until acknowledged
subscriptions  what it is sent: subscriptions and received events
notices        what it is told
sync           the same verbs without asyncio
"""
