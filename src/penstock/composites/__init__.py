"""Composite subscriptions: patterns of several events (seed paper 004, section 4).

docs/COMPOSITES.md specifies them.

expression  what a composite says: atoms, and, or, then, absence, windows
language    the text form, read and written
padres      the PADRES form, read
lexing      the tokens of the text form
matches     one detection, and what atoms bind
reference   brute force: all matches of a finite log, straight from the definitions
detector    the same as events come, with bounded state
joins       what a detector keeps: partial matches and events, found again by what they bind
"""
