"""The text form of composite subscriptions.

    composite   = [SELECT item {',' item} FROM] sequence [window] {option}
    item        = (atom-name '.' attribute | '$' variable) [AS name]
    sequence    = either {THEN [NOT atom THEN] either} [THEN NOT atom WITHIN duration]
    either      = both {OR both}
    both        = part {AND part}
    part        = atom | '(' sequence [window] ')'
    atom        = '[' filter ']' [AS name]
    window      = WITHIN (duration | number EVENTS)
    option      = EACH EVENT ONCE | BY TIME attribute [LATE BY duration]

In a filter, `attribute = $variable` binds; it may be joined to the rest by `and` only. `then` binds the
loosest. What `not … within` ends with is known last, so it ends a composite or an alternative of it.
docs/COMPOSITES.md specifies all of it.
"""

import re
from typing import Final, NoReturn

from penstock.composites.expression import And, Atom, Composite, Item, Node, Or, Then, Unless, Window, Within
from penstock.composites.lexing import UNITS, Token, tokens_of, unit_of, write_duration
from penstock.errors import FilterSyntaxError, LimitError
from penstock.filters.constraint import Constraint
from penstock.filters.expression import And as Conjunction
from penstock.filters.expression import Expression, normalise
from penstock.filters.expression import Not as Negation
from penstock.filters.languages import sql
from penstock.filters.languages.literals import check_text
from penstock.filters.work import Work
from penstock.model.limits import DEPTH_MAX
from penstock.model.names import check_name

_MARK: Final = "\ue000"
"""Begins a text that stands for a variable while the filter is read; a character for private use."""

_VARIABLE: Final = re.compile(r"""'(?:[^']++|'')*+'|"(?:[^"]++|"")*+"|`(?:[^`]++|``)*+`|\$([^\W\d]\w*+)""")
_EQUAL_BEFORE: Final = re.compile(r"(?<![<>!=])==?\s*\Z")
_EQUAL_AFTER: Final = re.compile(r"\s*==?(?!=)")
_BINDING: Final = "'attribute = $variable' only, joined to the rest of its filter by 'and'"

_KEYWORDS: Final = frozenset({"select", "from", "as", "then", "and", "or", "not", "within"})
"""Words that no atom, attribute or result is called without quotes."""

_BARE: Final = re.compile(r"[^\W\d]\w*")
_DURATION: Final = "a duration, such as 10 s, 5 min or 2 h"
_EVENTS_MAX: Final = 2**31


def parse(text: str, work: Work | None = None) -> Composite:
    """Read a composite from its text. Raises FilterSyntaxError with the place, LimitError and FilterError."""
    return _Parser(check_text(text), work).whole()


def read_tail(root: Node, text: str, at: int) -> Composite:
    """The composite of a tree that was read otherwise, with the window and the options that follow it."""
    return _Parser(text, None, at).tail((), root)


def write(composite: Composite) -> str:
    """Write a composite in its canonical form, which reads back as the same."""
    parts = []
    if composite.items:
        parts.append(f"select {', '.join(map(_write_item, composite.items))} from")
    root = composite.root
    if isinstance(root, Within):
        parts += [_write(root.part, 0), _write_window(root.window)]
    else:
        parts.append(_write(root, 0))
    if composite.consume == "once":
        parts.append("each event once")
    if composite.time is not None:
        parts.append(f"by time {_write_dotted(composite.time)}")
        if composite.lateness:
            parts.append(f"late by {write_duration(composite.lateness)}")
    return check_text(" ".join(parts))


class _Parser:
    """Recursive descent over the tokens."""

    def __init__(self, text: str, work: Work | None, at: int = 0) -> None:
        self._text = text
        self._work = work
        self._tokens = tokens_of(text, at)
        self._at = 0
        self._depth = 0
        self._atoms = 0

    # Tokens

    def _is_word(self, word: str, ahead: int = 0) -> bool:
        place = self._at + ahead
        if place >= len(self._tokens):
            return False
        token = self._tokens[place]
        return token.kind == "word" and token.text.lower() == word

    def _word(self, *words: str) -> bool:
        """Step over words that follow each other, if they are there."""
        if all(self._is_word(word, ahead) for ahead, word in enumerate(words)):
            self._at += len(words)
            return True
        return False

    def _need(self, *words: str) -> None:
        for word in words:
            if not self._word(word):
                self._fail(repr(word))

    def _take(self, kind: str, expected: str) -> Token:
        token = self._tokens[self._at]
        if token.kind != kind:
            self._fail(expected)
        self._at += 1
        return token

    def _fail(self, expected: str) -> NoReturn:
        token = self._tokens[self._at]
        found = "the end of the text" if token.kind == "end" else repr(token.text[:40])
        raise FilterSyntaxError(expected, self._text, token.at, found=found)

    # The whole

    def whole(self) -> Composite:
        """Read the whole text."""
        items = self._items() if self._word("select") else ()
        return self.tail(items, self._sequence())

    def tail(self, items: tuple[Item, ...], root: Node) -> Composite:
        """Read what follows the tree."""
        window = self._window()
        if window is not None:
            root = Within(root, window)
        consume, time, lateness = False, None, 0
        while self._tokens[self._at].kind != "end":
            if self._word("each"):
                self._need("event", "once")
                consume = True
            elif self._word("by", "time"):
                time = self._dotted("the attribute that says when an event happened")
                lateness = self._lateness()
            elif window is not None and any(map(self._is_word, ("then", "or", "and", "within"))):
                self._fail(
                    "each event once, by time, or the end of the text (a window of a part of a "
                    "composite stands inside its parentheses: ([a = 1] and [b = 1] within 5 s) then …)"
                )
            else:
                self._fail("then, or, and, within, each event once, by time, or the end of the text")
        return Composite(root, items, "once" if consume else "all", time, lateness)

    def _lateness(self) -> int:
        if not self._word("late"):
            return 0
        self._need("by")
        return self._duration()

    def _items(self) -> tuple[Item, ...]:
        items = [self._item()]
        while self._tokens[self._at].kind == ",":
            self._at += 1
            items.append(self._item())
        self._need("from")
        return tuple(items)

    def _item(self) -> Item:
        token = self._tokens[self._at]
        if token.kind == "variable":
            self._at += 1
            variable = token.text[1:]
            return Item(None, variable, self._called() or variable)
        atom = self._name("atom.attribute or $variable")
        self._take(".", "'.' and an attribute")
        attribute = self._dotted("an attribute")
        return Item(atom, attribute, self._called() or f"{atom}.{attribute}")

    def _called(self) -> str | None:
        return self._dotted("a name") if self._word("as") else None

    def _name(self, expected: str) -> str:
        token = self._tokens[self._at]
        if token.kind == "name" or (token.kind == "word" and token.text.lower() not in _KEYWORDS):
            self._at += 1
            return check_name(token.text)
        return self._fail(expected)

    def _dotted(self, expected: str) -> str:
        parts = [self._name(expected)]
        while self._tokens[self._at].kind == ".":
            self._at += 1
            parts.append(self._name(expected))
        return check_name(".".join(parts))

    # The tree

    def _sequence(self) -> Node:
        node = self._either()
        while self._word("then"):
            absent = self._absent()
            if absent is None:
                node = Then(node, self._either())
            elif self._word("then"):
                node = Then(node, self._either(), absent)
            elif self._word("within"):
                return Unless(node, absent, self._duration())
            else:
                self._fail("then, or within and a duration, after 'then not [filter]'")
        return node

    def _absent(self) -> Atom | None:
        if not self._word("not"):
            return None
        return self._atom("a filter in [ ], which must be absent")

    def _either(self) -> Node:
        node = self._both()
        while self._word("or"):
            node = Or(node, self._both())
        return node

    def _both(self) -> Node:
        node = self._part()
        while self._word("and"):
            node = And(node, self._part())
        return node

    def _part(self) -> Node:
        if self._tokens[self._at].kind != "(":
            return self._atom("a filter in [ ], or '('")
        self._at += 1
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise LimitError("parentheses nest too deep", "DEPTH_MAX", DEPTH_MAX)
        node = self._sequence()
        window = self._window()
        self._take(")", "then, or, and, within, or ')'")
        self._depth -= 1
        return node if window is None else Within(node, window)

    def _window(self) -> Window | None:
        if not self._word("within"):
            return None
        if self._tokens[self._at].kind == "number" and (
            self._is_word("events", 1) or self._is_word("event", 1)
        ):
            token = self._tokens[self._at]
            self._at += 2
            if not token.text.isdigit() or not 0 < int(token.text[:12]) < _EVENTS_MAX:
                raise FilterSyntaxError("a whole number of events above 0", self._text, token.at)
            return Window(events=int(token.text))
        return Window(nanoseconds=self._duration())

    def _duration(self) -> int:
        token = self._take("number", _DURATION)
        unit = unit_of(self._take("word", f"a unit ({', '.join(UNITS)})").text)
        if unit is None:
            self._at -= 1
            self._fail(f"a unit ({', '.join(UNITS)})")
        whole, _point, fraction = token.text.partition(".")
        length = UNITS[unit]
        nanoseconds = int(whole[:20]) * length + int(fraction[:18].ljust(18, "0")) * length // 10**18
        if not 0 < nanoseconds < 2**63:
            raise FilterSyntaxError(_DURATION, self._text, token.at, reason="a duration of 1 ns to 292 years")
        return nanoseconds

    def _atom(self, expected: str) -> Atom:
        token = self._take("atom", expected)
        self._atoms += 1
        name = self._name("a name for the event") if self._word("as") else f"e{self._atoms}"
        try:
            return read_atom(name, token.text, self._work)
        except FilterSyntaxError as error:
            place = None if error.position is None else token.at + error.position
            raise FilterSyntaxError(error.expected, self._text, place, reason=error.what) from None


def read_atom(name: str, text: str, work: Work | None = None) -> Atom:
    """An atom from its filter, in which `attribute = $variable` binds."""
    if _MARK in text:
        raise FilterSyntaxError("text without characters for private use", text, text.index(_MARK))
    marked = _VARIABLE.sub(lambda found: _marked(found, text), text)
    try:
        expression = sql.parse_expression(marked) if text.strip() else Conjunction(())
    except FilterSyntaxError as error:
        place = error.position
        if place is not None:
            # What stands for a variable is longer by two characters.
            place -= 2 * marked.count(_MARK, 0, place)
        raise FilterSyntaxError(error.expected, text, place, reason=error.what) from None
    parts = list(expression.parts) if isinstance(expression, Conjunction) else [expression]
    binds = sorted({bind for bind in map(_bind, parts) if bind is not None})
    rest = [part for part in parts if _bind(part) is None]
    if any(map(_has_variable, rest)):
        raise FilterSyntaxError(_BINDING, text, None, reason=f"a variable stands in {_BINDING}")
    return Atom(name, normalise(Conjunction(rest), work), tuple(binds))


def _marked(found: re.Match[str], text: str) -> str:
    """What stands for a variable while a filter is read; what is quoted stays."""
    if not found[1]:
        return found[0]
    if not _EQUAL_BEFORE.search(text, 0, found.start()) and not _EQUAL_AFTER.match(text, found.end()):
        raise FilterSyntaxError(_BINDING, text, found.start(), reason=f"a variable stands in {_BINDING}")
    return f"'{_MARK}{found[1]}'"


def _bind(part: Expression) -> tuple[str, str] | None:
    """The attribute and the variable of a condition that binds."""
    if isinstance(part, Constraint) and part.operator == "=" and str(part.value).startswith(_MARK):
        return part.attribute, str(part.value)[1:]
    return None


def _has_variable(part: Expression) -> bool:
    if isinstance(part, Constraint):
        return _MARK in str(part.value)
    if isinstance(part, Negation):
        return _has_variable(part.part)
    return any(map(_has_variable, part.parts))


# Writing


def _write(node: Node, level: int) -> str:
    """`level`: 0 where `then` may stand, 1 where `or` may, 2 where `and` may, 3 in an `and`."""
    if isinstance(node, Atom):
        return _write_atom(node)
    if isinstance(node, Within):
        return f"({_write(node.part, 0)} {_write_window(node.window)})"
    if isinstance(node, And):
        return _enclosed(f"{_write(node.left, 2)} and {_write(node.right, 3)}", level > 2)
    if isinstance(node, Or):
        return _enclosed(f"{_write(node.left, 1)} or {_write(node.right, 2)}", level > 1)
    if isinstance(node, Unless):
        text = f"{_write(node.part, 0)} then not {_write_atom(node.absent)} within"
        return _enclosed(f"{text} {write_duration(node.nanoseconds)}", level > 0)
    absent = "" if node.absent is None else f"not {_write_atom(node.absent)} then "
    return _enclosed(f"{_write(node.left, 0)} then {absent}{_write(node.right, 1)}", level > 0)


def _enclosed(text: str, is_inner: bool) -> str:
    return f"({text})" if is_inner else text


def _write_atom(atom: Atom) -> str:
    conditions = [f"{sql.write_name(attribute)} = ${variable}" for attribute, variable in atom.binds]
    text = atom.predicate.to_sql()
    if not conditions or text != "true":
        is_one = not conditions or len(atom.predicate.filters) == 1
        conditions.insert(0, text if is_one else f"({text})")
    return f"[{' and '.join(conditions)}] as {_write_name(atom.name)}"


def _write_window(window: Window) -> str:
    if window.events is not None:
        return f"within {window.events} events"
    return f"within {write_duration(window.nanoseconds or 0)}"


def _write_item(item: Item) -> str:
    source = f"${item.attribute}"
    if item.atom is not None:
        source = f"{_write_name(item.atom)}.{_write_dotted(item.attribute)}"
    plain = item.attribute if item.atom is None else f"{item.atom}.{item.attribute}"
    return source if item.name == plain else f"{source} as {_write_dotted(item.name)}"


def _write_dotted(name: str) -> str:
    parts = name.split(".")
    if all(map(_BARE.fullmatch, parts)):
        return ".".join(map(_write_name, parts))
    return _write_name(name)


def _write_name(name: str) -> str:
    if _BARE.fullmatch(name) and name.lower() not in _KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'
