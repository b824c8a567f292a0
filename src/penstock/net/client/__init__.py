"""The client library: the client of `penstock.node.client`, over sockets.

connecting     `connect`: the way in
client         a client, for asyncio
subscriptions  what it is sent: subscriptions and received events
sync           the same verbs without asyncio
"""
