"""The data model: values and their families, names and ids, events, limits.

values   the families, the time type, what family a Python value belongs to
names    what is a good attribute name or id
limits   every bound, with its reason
events   the event, from dicts and from JSON text
arrow    events from the rows of Arrow tables
packed   events as bytes: MessagePack
"""
