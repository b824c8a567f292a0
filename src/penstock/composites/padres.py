"""The PADRES form of composite subscriptions.

    {{[class,eq,'STOCK'],[symbol,eq,$s],[price,<,20]} & {[class,eq,'NEWS'],[symbol,eq,$s]}} within 10 s

Atoms are the triples of `penstock.filters.languages.padres`; braces group, `&` is `and`, `||` is `or`, and
`&` binds more tightly. `[attribute,eq,$name]` binds a variable. PADRES writes variables as `$S$name`, with a
letter for the type, which is read and ignored. It has no windows; here one follows, and options, as in the
text form.
"""

import re
from typing import Final, NoReturn

from penstock.composites.expression import And, Atom, Composite, Node, Or
from penstock.composites.language import read_tail
from penstock.errors import FilterSyntaxError, LimitError
from penstock.filters.filter import ALWAYS
from penstock.filters.languages import padres
from penstock.filters.languages.literals import check_text
from penstock.filters.predicate import Predicate
from penstock.filters.work import Work
from penstock.model.limits import DEPTH_MAX
from penstock.model.names import check_name

_NAME: Final = r'[\w.-]++|"(?:[^"]++|"")*+"'
_BIND: Final = re.compile(
    rf"\[\s*+(?P<name>{_NAME})\s*+,\s*+(?:eq|=)\s*+,\s*+\$(?:[A-Z]\$)?(?P<variable>[^\W\d]\w*+)\s*+\]"
)
_TRIPLE: Final = re.compile(r"\[(?:[^\[\]'\"]++|'(?:[^']++|'')*+'|\"(?:[^\"]++|\"\")*+\")*+\]")
_MARK: Final = re.compile(r"\s*+(\{|\}|&&?|\|\|?|,|\[|\Z|.)", re.DOTALL)


def parse(text: str, work: Work | None = None) -> Composite:
    """Read a composite from the PADRES form. Raises FilterSyntaxError with the place."""
    return _Parser(check_text(text), work).whole()


class _Parser:
    def __init__(self, text: str, work: Work | None) -> None:
        self._text = text
        self._work = work
        self._at = 0
        self._depth = 0
        self._atoms = 0

    def whole(self) -> Composite:
        node = self._either()
        return read_tail(node, self._text, self._at)

    def _mark(self) -> str:
        found = _MARK.match(self._text, self._at)
        return found[1] if found is not None else ""

    def _step(self) -> None:
        found = _MARK.match(self._text, self._at)
        self._at = found.end() if found is not None else len(self._text)

    def _either(self) -> Node:
        node = self._both()
        while self._mark() in ("|", "||"):
            self._step()
            node = Or(node, self._both())
        return node

    def _both(self) -> Node:
        node = self._part()
        while self._mark() in ("&", "&&"):
            self._step()
            node = And(node, self._part())
        return node

    def _part(self) -> Node:
        if self._mark() != "{":
            return self._atom()
        self._step()
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise LimitError("braces nest too deep", "DEPTH_MAX", DEPTH_MAX)
        node = self._either()
        if self._mark() != "}":
            self._fail("'}', '&' or '||'")
        self._step()
        self._depth -= 1
        return node

    def _atom(self) -> Atom:
        """Triples with commas between them, up to what is none."""
        self._atoms += 1
        binds: set[tuple[str, str]] = set()
        triples: list[str] = []
        while True:
            if self._mark() != "[":
                self._fail("[attribute,operator,value] or '{'")
            start = self._text.index("[", self._at)
            bind, triple = _BIND.match(self._text, start), _TRIPLE.match(self._text, start)
            if bind is not None:
                name = bind["name"]
                name = name[1:-1].replace('""', '"') if name.startswith('"') else name
                binds.add((check_name(name), bind["variable"]))
                self._at = bind.end()
            elif triple is not None:
                # By itself, so that an error names the place.
                self._predicate(triple[0], start)
                triples.append(triple[0])
                self._at = triple.end()
            else:
                self._fail("[attribute,operator,value], closed by ']'")
            if self._mark() != ",":
                break
            self._step()
        whole = padres.parse(",".join(triples), self._work) if triples else Predicate([ALWAYS])
        return Atom(f"e{self._atoms}", whole, tuple(sorted(binds)))

    def _predicate(self, triple: str, start: int) -> Predicate:
        try:
            return padres.parse(triple, self._work)
        except FilterSyntaxError as error:
            place = None if error.position is None else start + error.position
            raise FilterSyntaxError(error.expected, self._text, place, reason=error.what) from None

    def _fail(self, expected: str) -> NoReturn:
        found = self._mark()
        shown = repr(found) if found else "the end of the text"
        raise FilterSyntaxError(expected, self._text, self._at, found=shown)
