"""The SQL language: the boolean part of WHERE.

    predicate   = predicate OR predicate | predicate AND predicate | NOT predicate
                | '(' predicate ')' | TRUE | FALSE | condition
    condition   = attribute comparison literal | literal comparison attribute
                | attribute [NOT] BETWEEN literal AND literal
                | attribute [NOT] IN '(' literal {',' literal} ')'
                | attribute [NOT] (LIKE | ILIKE) string [ESCAPE string]
                | attribute IS [NOT] NULL
                | attribute [NOT] (RLIKE | REGEXP) string
                | literal [NOT] IN attribute                   an element of a list
                | ANY '(' attribute ')' what follows an attribute | literal comparison ANY '(' attribute ')'
                | ANY '(' attribute WHERE predicate ')'
                | (ARRAY_CONTAINS | LIST_CONTAINS) '(' attribute ',' literal ')'
                | (STARTSWITH | ENDSWITH | CONTAINS | REGEXP_LIKE) '(' attribute ',' string ')'
                | (EXISTS | ABSENT) '(' attribute ')'
                | attribute                                    a bool that is true
    comparison  = '=' | '==' | '!=' | '<>' | '<' | '<=' | '>' | '>='
    literal     = number | string | TRUE | FALSE | (TIMESTAMP | DATE) string
    attribute   = word {'.' word} | '"' anything '"' | '`' anything '`', also dotted

Keywords are case-insensitive, names are not. The parser is recursive descent over one regular expression
of tokens, which takes the commonest condition, `word comparison literal`, in one piece.
"""

import re
from collections.abc import Callable
from typing import Final, NoReturn

from penstock.errors import FilterError, FilterSyntaxError, LimitError, PenstockError
from penstock.filters import lists, patterns
from penstock.filters.constraint import Constraint
from penstock.filters.describe import describe, describe_filter
from penstock.filters.expression import And, Expression, Not, Or, kept, normalise
from penstock.filters.filter import Filter
from penstock.filters.languages.literals import check_text, read_number, write_number
from penstock.filters.predicate import Predicate
from penstock.filters.wildcards import RUN
from penstock.filters.work import Work
from penstock.model.limits import DEPTH_MAX, ELEMENT_DEPTH_MAX, LITERAL_LENGTH_MAX
from penstock.model.values import Scalar, Time

_WORD: Final = r"[^\W\d]\w*+(?:\.[^\W\d]\w*+)*+"
_NUMBER: Final = r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?(?![\w.])"
_STRING: Final = r"'(?:[^']++|'')*+'"
_COMPARISON: Final = r"<=|>=|<>|!=|==?|<|>"
_QUOTED: Final = r'(?:"(?:[^"]++|"")*+"|`(?:[^`]++|``)*+`)'
_TOKEN: Final = re.compile(
    rf"""\s*+(?:
      (?P<condition>({_WORD})\s*+({_COMPARISON})\s*+(?:({_NUMBER})|({_STRING})))
    | (?P<time>(?:timestamp|date)\s*+{_STRING})
    | (?P<name>(?:{_QUOTED}|{_WORD})(?:\.(?:{_QUOTED}|{_WORD}))++)
    | (?P<word>{_WORD})
    | (?P<number>{_NUMBER})
    | (?P<misnumber>[+-]?\.?\d[\w.]*+)
    | (?P<string>{_STRING})
    | (?P<comparison>{_COMPARISON})
    | (?P<mark>[(),])
    | (?P<quoted>{_QUOTED})
    | (?P<end>\Z)
    | (?P<bad>.)
    )""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_RESERVED: Final = frozenset({"and", "or", "not", "in", "between", "like", "is", "null", "true", "false"})
_BARE: Final = re.compile(_WORD)
_QUOTED_OR_WORD: Final = re.compile(rf"{_QUOTED}|{_WORD}")

_MIRRORED: Final = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_SYNONYMS: Final = {"==": "=", "<>": "!="}
_LIKE_CONTAINS: Final = ("contains", "includes", "has")
"""What other languages call `in` from the other side."""

_FUNCTIONS: Final = {
    "startswith": "prefix",
    "endswith": "suffix",
    "contains": "substring",
    "regexp_like": "regexp",
    "regexp_matches": "regexp",
    "regexp": "regexp",
    "rlike": "regexp",
    "exists": "exists",
    "absent": "absent",
    "any": "any",
    "array_contains": "member",
    "list_contains": "member",
}

_ATTRIBUTE: Final = "an attribute name"
_VALUE: Final = "a value (a number, 'text', true, false or timestamp '…')"
_CONDITION: Final = "a condition such as price > 10"


def parse(text: str, work: Work | None = None) -> Predicate:
    """Read a predicate from SQL text, or raise FilterSyntaxError with the place."""
    return normalise(parse_expression(text, work), work)


def parse_expression(text: str, work: Work | None = None) -> Expression:
    """Read what a text says, as it says it; what it asks of elements of lists, as a predicate."""
    return _Parser(check_text(text), work).whole()


def parse_kept(text: str) -> Filter:
    """Read back a filter with clauses from what `write_filter` wrote, just as it was."""
    return kept(_Parser(check_text(text)).whole())


def write(predicate: Predicate) -> str:
    """Write the predicate in its canonical SQL form."""
    return check_text(_write(describe(predicate), _OUTERMOST, {}))


def write_filter(f: Filter) -> str:
    """Write one filter in its canonical SQL form."""
    return write_expression(describe_filter(f))


def write_expression(expression: Expression) -> str:
    """Write an expression that has no `not` in it, as those that describe filters."""
    return _write(expression, _OUTERMOST, {})


Token = tuple[str, object, int]
"""Kind, content, offset. The kinds: keyword, attribute, literal, comparison, condition, end, ( ) and ,"""


class _Parser:
    """Recursive descent over the tokens of one text."""

    def __init__(self, text: str, work: Work | None = None) -> None:
        self.text = text
        self._work = work
        """Counts the steps that conditions on the elements of lists take: all of them together."""
        self._conditions: dict[tuple[str | None, ...], Constraint] = {}
        """Conditions read so far: the same may stand in many filters."""
        self.tokens = self._tokens()
        self.at = 0
        self.depth = 0
        self._inside = 0
        """How many conditions on elements are around the place."""

    def _tokens(self) -> list[Token]:
        """Cut the text into tokens."""
        tokens: list[Token] = []
        for found in _TOKEN.finditer(self.text):
            kind = found.lastgroup
            if kind == "condition":
                tokens += self._condition_tokens(found)
            elif kind == "mark":
                mark = found["mark"]
                tokens.append((mark, mark, found.start("mark")))
            elif kind == "word":
                word = found["word"]
                keyword = word.lower()
                start = found.start("word")
                if keyword in _RESERVED:
                    tokens.append(("keyword", keyword, start))
                else:
                    tokens.append(("attribute", word, start))
            elif kind == "end":
                tokens.append(("end", "", found.start("end")))
                break
            else:
                tokens.append(self._rarer_token(found, kind or ""))
        return tokens

    def _condition_tokens(self, found: re.Match[str]) -> list[Token]:
        name, comparison, number, string = written = found.group(2, 3, 4, 5)
        known = self._conditions.get(written)
        if known is not None:
            return [("condition", known, found.start(2))]
        value: Scalar = (
            read_number(number, self.text, found.start(4))
            if string is None
            else string[1:-1].replace("''", "'")
        )
        operator, start = _SYNONYMS.get(comparison, comparison), found.start(2)
        if name.lower() in _RESERVED:
            keyword: Token = ("keyword", name.lower(), start)
            place = found.start(5 if number is None else 4)
            return [keyword, ("comparison", operator, found.start(3)), ("literal", value, place)]
        made = self._conditions[written] = self._constraint(name, operator, value, start)
        return [("condition", made, start)]

    def _constraint(self, attribute: str, operator: str, value: object, place: int) -> Constraint:
        """A constraint; if its name or value is not good, say where."""
        try:
            return Constraint(attribute, operator, value)
        except LimitError:
            raise
        except PenstockError as error:
            expected = f"what {operator.removeprefix('not ')} can take"
            raise FilterSyntaxError(expected, self.text, place, reason=str(error)) from None

    def _rarer_token(self, found: re.Match[str], kind: str) -> Token:
        content, start = found[kind], found.start(kind)
        if kind == "number":
            return "literal", read_number(content, self.text, start), start
        if kind == "string":
            return "literal", content[1:-1].replace("''", "'"), start
        if kind == "comparison":
            return "comparison", _SYNONYMS.get(content, content), start
        if kind in ("quoted", "name"):
            return "attribute", ".".join(_unquoted(part) for part in _QUOTED_OR_WORD.findall(content)), start
        if kind == "time":
            return "literal", self._time(content, start), start
        if content in "'\"`":
            self._fail_at(f"a closing {content} for the one opened here", start, "the end of the text")
        if kind == "misnumber":
            self._fail_at("a number, such as 5, -1.5 or 1e6", start, content[:40])
        if content in "&|":
            self._fail_at("and, or", start, repr(content))
        if content == "[":
            self._fail_at("an operator; lists have no places: 'a' in tags asks for an element", start, "'['")
        return self._fail_at("a name, a value, an operator or a parenthesis", start, repr(content))

    def _time(self, content: str, start: int) -> Time:
        quote = content.index("'")
        if not content[:quote].isascii():  # ſ is an s to a pattern that ignores case
            self._fail_at("timestamp or date", start, content[:quote])
        try:
            return Time.parse(content[quote + 1 : -1])
        except PenstockError as error:
            raise FilterSyntaxError("a time", self.text, start + quote, reason=str(error)) from None

    def _fail_at(self, expected: str, start: int, found: str) -> NoReturn:
        raise FilterSyntaxError(expected, self.text, start, found=found) from None

    def _fail(self, expected: str, *, back: int = 0) -> NoReturn:
        kind, content, start = self.tokens[self.at - back]
        if kind == "condition":
            assert isinstance(content, Constraint)  # noqa: S101
            content = content.attribute
        shown = "the end of the text" if kind == "end" else repr(content)[:60]
        self._fail_at(expected, start, f"the keyword {content}" if kind == "keyword" else shown)

    def _keyword(self, *words: str) -> bool:
        """Step over the keyword if it is one of these."""
        kind, content, _start = self.tokens[self.at]
        if kind == "keyword" and content in words:
            self.at += 1
            return True
        return False

    def _word(self, *words: str) -> bool:
        """The same for words that attributes may be called, too."""
        kind, content, _start = self.tokens[self.at]
        if kind == "attribute" and str(content).lower() in words:
            self.at += 1
            return True
        return False

    def _mark(self, mark: str, expected: str | None = None) -> None:
        """Step over a mark, which must be there."""
        if self.tokens[self.at][0] != mark:
            self._fail(expected or f"'{mark}'")
        self.at += 1

    def _take(self, kind: str, expected: str) -> object:
        """Step over a token of the kind, which must be there, and return its content."""
        found, content, _start = self.tokens[self.at]
        if found != kind:
            self._fail(expected)
        self.at += 1
        return content

    def whole(self) -> Expression:
        """Read the whole text."""
        expression = self._disjunction()
        if self.tokens[self.at][0] != "end":
            if self.tokens[self.at][0] == ")":
                self._fail("the end of the text (nothing is open here)")
            self._fail("and, or, or the end of the text")
        return expression

    def _disjunction(self) -> Expression:
        first = self._conjunction()
        if not self._keyword("or"):
            return first
        parts = [first, self._conjunction()]
        while self._keyword("or"):
            parts.append(self._conjunction())
        return Or(parts)

    def _conjunction(self) -> Expression:
        first = self._negation()
        if not self._keyword("and"):
            return first
        parts = [first, self._negation()]
        while self._keyword("and"):
            parts.append(self._negation())
        return And(parts)

    def _negation(self) -> Expression:
        negated = False
        while self._keyword("not"):
            negated = not negated
        part = self._primary()
        return Not(part) if negated else part

    def _primary(self) -> Expression:
        kind, content, _start = self.tokens[self.at]
        if kind == "condition":
            self.at += 1
            return content  # type: ignore[return-value]
        if kind == "(":
            return self._parenthesis()
        if kind == "attribute":
            self.at += 1
            if self.tokens[self.at][0] == "(":
                return self._call(str(content))
            return self._condition(str(content))
        if kind == "literal":
            return self._mirrored()
        if kind == "keyword" and content in ("true", "false"):
            following = self.tokens[self.at + 1]
            if following[0] == "comparison" or following[:2] in (("keyword", "in"), ("keyword", "not")):
                return self._mirrored()
            self.at += 1
            return And(()) if content == "true" else Or(())
        return self._fail(_CONDITION)

    def _parenthesis(self) -> Expression:
        self.at += 1
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise LimitError("parentheses nest too deep", "DEPTH_MAX", DEPTH_MAX)
        inner = self._disjunction()
        self._mark(")", "and, or, or ')'")
        self.depth -= 1
        return inner

    def _call(self, function: str) -> Expression:
        operator = _FUNCTIONS.get(function.lower())
        if operator is None:
            self._fail(f"a function that filters have ({', '.join(_FUNCTIONS)})", back=1)
        self._mark("(")
        if operator == "any" and self.tokens[self.at][0] == "condition":
            asked = self.tokens[self.at][1]
            assert isinstance(asked, Constraint)  # noqa: S101
            name, what = write_name(asked.attribute), f"{asked.operator} {write_literal(asked.value)}"
            self._fail(f"a list alone: any({name}) {what:.80}")
        attribute = str(self._take("attribute", _ATTRIBUTE))
        if operator == "any":
            return self._any(attribute)
        value: object = None
        if operator == "member":
            self._mark(",")
            value, operator = self._of_elements(self._here(lists.ELEMENT, "=", self._literal())), "any"
        elif operator not in ("exists", "absent"):
            self._mark(",")
            value = self._string()
        self._mark(")")
        return self._here(attribute, operator, value)

    def _any(self, attribute: str) -> Expression:
        """What may follow `any(attribute`."""
        if self._word("where"):
            self._inside += 1
            if self._inside > ELEMENT_DEPTH_MAX:
                raise LimitError(
                    "conditions on elements nest too deep", "ELEMENT_DEPTH_MAX", ELEMENT_DEPTH_MAX
                )
            asked = self._disjunction()
            self._mark(")", "and, or, or ')'")
            self._inside -= 1
        else:
            self._mark(")", "where, or ')'")
            if self.tokens[self.at][:2] == ("keyword", "is"):
                self._fail(f"a comparison; {write_name(attribute)} is null asks whether there is a list")
            asked = self._condition(lists.ELEMENT)
        return self._here(attribute, "any", self._of_elements(asked))

    def _of_elements(self, asked: Expression) -> Predicate:
        """What is asked of elements, as a predicate."""
        if self._work is None:
            self._work = Work()
        return normalise(asked, self._work)

    def _condition(self, attribute: str) -> Expression:
        """What may follow an attribute."""
        kind, content, _start = self.tokens[self.at]
        if kind == "comparison":
            self.at += 1
            return self._here(attribute, str(content), self._literal())
        if self._keyword("is"):
            negated = self._keyword("not")
            if not self._keyword("null"):
                self._fail("null" if negated else "null or not null")
            return self._here(attribute, "exists" if negated else "absent", None)
        negation = "not " if self._keyword("not") else ""
        if self._keyword("in"):
            return self._here(attribute, f"{negation}in", self._list())
        if self._keyword("between"):
            low = self._literal()
            if not self._keyword("and"):
                self._fail("and, with the upper end of the range")
            return self._here(attribute, f"{negation}between", (low, self._literal()))
        if self._keyword("like"):
            return self._here(attribute, f"{negation}like", self._pattern())
        if self._word("ilike"):
            return self._here(attribute, f"{negation}ilike", self._pattern())
        if self._word("rlike", "regexp"):
            return self._here(attribute, f"{negation}regexp", self._string())
        if negation:
            self._fail("in, between, like, ilike or rlike")
        if kind in ("literal", "attribute", "condition", "("):
            self._fail(self._operator_after(attribute))
        return self._here(attribute, "=", True)

    def _operator_after(self, attribute: str) -> str:
        """What should stand where there is something else than an operator."""
        word = str(self.tokens[self.at][1]).lower()
        following = self.tokens[self.at + 1 : self.at + 2]
        if word in _LIKE_CONTAINS and following and following[0][0] == "literal":
            value: Scalar = following[0][1]  # type: ignore[assignment]
            written, name = f"{write_literal(value):.60}", write_name(attribute)
            of_text = f", contains({name}, {written}) of text" if isinstance(value, str) else ""
            return f"an operator; write {written} in {name} of a list{of_text}"
        return "an operator (=, !=, <, <=, >, >=, in, between, like, ilike, rlike, is null)"

    def _here(self, attribute: str, operator: str, value: object) -> Constraint:
        """A constraint whose value ends with the last token."""
        return self._constraint(attribute, operator, value, self.tokens[self.at - 1][2])

    def _mirrored(self) -> Expression:
        value = self._literal()
        negation = "not " if self._keyword("not") else ""
        if self._keyword("in"):
            asked = self._of_elements(self._here(lists.ELEMENT, "=", value))
            return self._here(str(self._take("attribute", "the name of a list")), f"{negation}any", asked)
        if negation:
            self._fail("in, and the name of a list")
        comparison = str(self._take("comparison", "a comparison (=, !=, <, <=, >, >=) or in"))
        attribute = str(self._take("attribute", _ATTRIBUTE))
        if attribute.lower() != "any" or self.tokens[self.at][0] != "(":
            return self._here(attribute, _MIRRORED[comparison], value)
        self._mark("(")
        attribute = str(self._take("attribute", _ATTRIBUTE))
        self._mark(")")
        asked = self._of_elements(self._here(lists.ELEMENT, _MIRRORED[comparison], value))
        return self._here(attribute, "any", asked)

    def _literal(self) -> Scalar:
        kind, content, _start = self.tokens[self.at]
        if kind == "literal":
            self.at += 1
            return content  # type: ignore[return-value]
        if kind == "keyword" and content in ("true", "false"):
            self.at += 1
            return content == "true"
        if kind == "keyword" and content == "null":
            self._fail("a value (is null asks whether an attribute is absent)")
        if kind == "attribute" and str(content).lower() == "any" and self.tokens[self.at + 1][0] == "(":
            self._fail("a value; the list is named within any: 'a' = any(tags), or 'a' in tags")
        if kind in ("attribute", "condition"):
            self._fail(f"{_VALUE}; text stands in single quotes")
        return self._fail(_VALUE)

    def _string(self) -> str:
        if not isinstance(self.tokens[self.at][1], str):
            self._fail("a string in single quotes")
        return str(self._take("literal", "a string in single quotes"))

    def _list(self) -> tuple[Scalar, ...]:
        self._mark("(", "'(' and a list of values")
        values = [self._literal()]
        while self.tokens[self.at][0] == ",":
            self.at += 1
            values.append(self._literal())
        self._mark(")", "',' or ')'")
        return tuple(values)

    def _pattern(self) -> str:
        text = self._string()
        kind, content, _start = self.tokens[self.at]
        if kind == "attribute" and str(content).lower() == "escape":
            self.at += 1
            escape = self._string()
            try:
                return patterns.to_like(patterns.from_like(text, escape))
            except FilterError as error:
                place = self.tokens[self.at - 1][2]
                raise FilterSyntaxError("an escape character", self.text, place, reason=str(error)) from None
        return text


def _unquoted(part: str) -> str:
    quote = part[0]
    return part[1:-1].replace(quote * 2, quote) if quote in '"`' else part


_OUTERMOST, _IN_OR, _IN_AND = 0, 1, 2


def _write(expression: Expression, place: int, known: dict[int, str]) -> str:
    """Write an expression; parentheses only where `or` stands within `and`.

    `known` has the texts of constraints, by their identity: the same may stand in many filters.
    """
    if isinstance(expression, Constraint):
        written = known.get(id(expression))
        if written is None:
            written = known[id(expression)] = _write_constraint(expression)
        return written
    assert isinstance(expression, And | Or)  # noqa: S101 - canonical forms have no Not
    if isinstance(expression, And):
        return " and ".join(_write(part, _IN_AND, known) for part in expression.parts) or "true"
    text = " or ".join(_write(part, _IN_OR, known) for part in expression.parts) or "false"
    return f"({text})" if place == _IN_AND and expression.parts else text


def _write_constraint(constraint: Constraint) -> str:
    name, operator = write_name(constraint.attribute), constraint.operator
    if operator.endswith("prefix") and len(constraint.value) > LITERAL_LENGTH_MAX // 4:
        # As a pattern, with its escapes, it could be longer than a literal may be.
        return f"{operator.removesuffix('prefix')}startswith({name}, {write_literal(constraint.value)})"
    if operator.endswith("regexp"):
        return f"{operator.removesuffix('regexp')}regexp_like({name}, {write_literal(constraint.value)})"
    if operator.endswith("any"):
        return _write_any(name, operator.removesuffix("any"), lists.text_of(constraint.value))
    write_value = _VALUE_WRITERS.get(operator.removeprefix("not "))
    if write_value is not None:
        negation = "not " if operator.startswith("not ") else ""
        return f"{name} {negation}{write_value(constraint.value)}"
    return f"{name} {operator} {write_literal(constraint.value)}"


def _write_any(name: str, negation: str, asked: str) -> str:
    """Write what is asked of the elements of a list, which is given as its canonical text."""
    member = lists.member_of(asked)
    if member is not None:
        return f"{write_literal(member)} {negation}in {name}"
    return f"{negation}any({name} where {asked})"


def _like(text: str, operator: str = "like") -> str:
    text, escape = patterns.to_portable(text)
    written = f"{operator} {write_literal(text)}"
    return f"{written} escape {write_literal(escape)}" if escape else written


def _like_pattern(symbols: str) -> str:
    return _like(patterns.to_like(symbols))


_VALUE_WRITERS: Final[dict[str, Callable[..., str]]] = {
    "between": lambda ends: f"between {write_literal(ends[0])} and {write_literal(ends[1])}",
    "in": lambda values: f"in ({', '.join(write_literal(value) for value in values)})",
    "like": _like,
    "ilike": lambda text: _like(text, "ilike"),
    "prefix": lambda text: _like_pattern(text + RUN),
    "suffix": lambda text: _like_pattern(RUN + text),
    "substring": lambda text: _like_pattern(RUN + text + RUN),
    "exists": lambda _none: "is not null",
    "absent": lambda _none: "is null",
}


def write_name(name: str) -> str:
    """Write an attribute name, quoted where it must be."""
    if _BARE.fullmatch(name) and name.lower() not in _RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def write_literal(value: Scalar) -> str:
    """Write a value as SQL."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Time):
        return f"timestamp '{value}'"
    return write_number(value)
