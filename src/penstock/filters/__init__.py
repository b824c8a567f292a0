"""The filter algebra: pure, without input or output.

order         the families as ordered domains
cuts          sets of ordered values
patterns      LIKE, suffix, substring
valuesets     what one attribute may be: the canonical form
constraint    attribute, operator, value
filter        a conjunction: a value set for each attribute
work          counted steps, and how many there may be
shelves       which of many filters covers one
disjunction   canonical form of several filters
expansion     conjunctions of disjunctions, without multiplying out
predicate     a disjunction of filters
expression    and, or, not over constraints; into a predicate
describe      from a predicate back into an expression
relations     covers, overlaps, identical
estimate      how many events a filter is likely to match
merging       fewer filters for the same events, or for a few more
languages     SQL, PADRES, JSON
parsing       one door to the languages
"""
