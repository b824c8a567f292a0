"""The languages that filters are written in. Each parses into the algebra and prints from it.

sql      the boolean part of WHERE
padres   [attribute,operator,value] triples
json     the JSON form, also for bulk

Nothing downstream knows which one was used.
"""
