"""The limits of the data model and of filters, each with its reason.

What exceeds one raises `penstock.errors.LimitError`, which names the constant; an integer beyond 64 bits is a
value without a family, and a cover that takes too many steps is not claimed. Tables have limits of their own:
`penstock.matching`.
"""

from typing import Final

INTEGER_MIN: Final = -(2**63)
"""Integers are 64-bit and signed: what Arrow, Parquet, Spark and most languages can carry exactly."""

INTEGER_MAX: Final = 2**63 - 1
"""See INTEGER_MIN."""

ATTRIBUTES_MAX: Final = 4_096
"""Attributes of one event, after flattening. Wide telemetry has about a thousand."""

NAME_LENGTH_MAX: Final = 512
"""Characters of an attribute name, dots included: room for eight long path segments."""

ID_LENGTH_MAX: Final = 512
"""Characters of a subscription's, subscriber's or broker's id: a URL fits."""

SKIPPED_NAMES_MAX: Final = 4_096
"""Attributes of which it is counted how many values were left out: as many as one event may have."""

NESTING_MAX: Final = 32
"""Depth of nested objects and lists in an event. Deeper ones are generated to break parsers."""

ELEMENTS_MAX: Final = 16_384
"""Elements of one list: a condition on it may look at each of them. A vector of a language model fits."""

STRING_LENGTH_MAX: Final = 2**20
"""Characters of a string value in an event: a document fits, a video does not."""

LITERAL_LENGTH_MAX: Final = 2**16
"""Characters of a string in a filter. It is kept in every table that the filter reaches."""

PATTERN_LENGTH_MAX: Final = 1_024
"""Characters of a LIKE pattern that has wildcards: comparing two patterns costs their product."""

PATTERNS_MAX: Final = 64
"""Suffix, substring and LIKE conditions on one attribute of one filter: each is compared with each."""

REGEX_LENGTH_MAX: Final = 4_096
"""Characters of a regular expression, as written and as it is printed: `\\w` is printed as a class."""

REGEX_SIZE_MAX: Final = 256
"""Characters, classes and places of a regular expression, each counted as often as it is repeated: so much
may have to be looked at for each character of a text."""

DECIMAL_DIGITS_MAX: Final = 76
"""Digits of a decimal that no double stands for: what Arrow's decimal256 holds."""

DECIMAL_PLACES_MAX: Final = 400
"""Digits of such a decimal after the point: the 324 of the least double, and some more digits."""

DECIMAL_WHOLE_MAX: Final = 308
"""Digits of such a decimal before the point: so it lies within the range of doubles."""

NUMBER_LENGTH_MAX: Final = 400
"""Characters of a numeric literal: the longest double written in full has 326 digits."""

LIST_VALUES_MAX: Final = 100_000
"""Values of one `in` or `not in` list."""

TEXT_LENGTH_MAX: Final = 2**22
"""Characters of one filter's text: a full `in` list of 40-character strings."""

ELEMENT_FILTERS_MAX: Final = 16
"""Filters (alternatives) in what one condition asks of the elements of a list, `any(items where …)`.
Comparing two such conditions compares each with each."""

ELEMENT_DEPTH_MAX: Final = 8
"""Nesting of conditions on elements, `any(rows where any(this) > 5)`: each level is brought into its
canonical form again by the one around it."""

DEPTH_MAX: Final = 100
"""Nesting of parentheses, `not`, `any` and `all` in a filter: far above what people write, far below
the interpreter's recursion limit."""

CONSTRAINTS_MAX: Final = 1_024
"""Attributes that one filter (conjunction) constrains."""

CLAUSES_MAX: Final = 1_024
"""Clauses (`a != 1 or b != 1`) of one filter that are kept because they would be too many filters: each is
tested where the rest of the filter matches."""

DISJUNCTS_MAX: Final = 2_048
"""Filters (conjunctions) of one predicate, after merging. Relations between predicates compare pairs."""

EXPANSION_WORK_MAX: Final = 30_000
"""Steps (conditions visited, filters built, pairs compared) that bringing one text into a disjunction may
take, plus a dozen for each of its constraints. A step is about a microsecond, so a text of a few hundred
characters is parsed or refused within some 30 ms."""

COVERING_WORK_MAX: Final = 30_000
"""Steps (pairs of filters compared, boxes cut) that deciding a cover or an overlap between disjunctions may
take, some 30 ms. Cover is co-NP-complete; past this `covers` gives the safe answer, false, and `overlaps`
true."""

REQUEST_LENGTH_MAX: Final = 2**14
"""Characters of a filter that a client sends to a broker: a thousand values fit, and the text itself is
read in some 15 ms. Brokers send each other the canonical form, which may be longer (TEXT_LENGTH_MAX)."""
