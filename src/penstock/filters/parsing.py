"""One door to all languages: `parse`, and what counts as a predicate where one is asked for."""

from collections.abc import Callable
from typing import Final, Literal, get_args

from penstock.errors import FilterError, LimitError
from penstock.filters.alternatives import dead_alternatives
from penstock.filters.constraint import Constraint
from penstock.filters.filter import Filter
from penstock.filters.languages import json, padres, sql
from penstock.filters.predicate import Predicate
from penstock.filters.work import Work
from penstock.model.limits import DEPTH_MAX, REQUEST_LENGTH_MAX

Language = Literal["sql", "padres", "json"]
LANGUAGES: Final = get_args(Language)

PredicateLike = Predicate | Filter | Constraint | str

_PARSERS: Final[dict[str, Callable[..., Predicate]]] = {
    "sql": sql.parse,
    "padres": padres.parse,
    "json": json.parse,
}
_WRITERS: Final[dict[str, Callable[[Predicate], str]]] = {
    "sql": Predicate.to_sql,
    "padres": Predicate.to_padres,
    "json": Predicate.to_json,
}


def parse(
    text: str | bytes | dict[str, object],
    language: Language = "sql",
    *,
    request: bool = False,
    pace: Callable[[], object] | None = None,
) -> Predicate:
    """Read a predicate from text in one of the languages.

    >>> parse("origin = 'JFK' and dep_delay > 60").matches({"origin": "JFK", "dep_delay": 75})
    True

    The JSON form may also come as bytes or as the dict it decodes to. With `request`, the text comes from a
    client: it has at most REQUEST_LENGTH_MAX characters, and is refused if reading it, or reading its
    canonical form at the next broker, would take long. `pace` is called now and then while that is read.
    """
    read = _PARSERS.get(language)
    if read is None:
        raise FilterError(f"there is no language {language!r:.40}; say one of {', '.join(LANGUAGES)}")
    if isinstance(text, str) or (language == "json" and isinstance(text, bytes | dict)):
        try:
            if request:
                check_request(text)
                return read(text, Work.for_request(len(text), pace))
            return read(text)
        except RecursionError:
            # Only where the caller's own stack is nearly full: texts may nest DEPTH_MAX deep.
            raise LimitError("a filter nests too deep for the stack left", "DEPTH_MAX", DEPTH_MAX) from None
    raise FilterError(f"a filter in {language} is text, not {type(text).__name__}")


def never_matching(text: str, language: Language = "sql") -> list[str]:
    """The alternatives of a rule that no event can match, as SQL; the rule itself is known to be good."""
    if language == "padres":
        return []
    expression = sql.parse_expression(text) if language == "sql" else json.parse_expression(text)
    return [sql.write_expression(part) for part in dead_alternatives(expression)]


def check_request(text: str | bytes | dict[str, object]) -> None:
    """Raise when the text of a client is longer than one may be."""
    if isinstance(text, dict):
        raise FilterError("a client sends a filter as text")
    if len(text) > REQUEST_LENGTH_MAX:
        what = f"the text of a filter has {len(text):,} characters"
        raise LimitError(what, "REQUEST_LENGTH_MAX", REQUEST_LENGTH_MAX)


def write(predicate: Predicate, language: Language = "sql") -> str:
    """Write a predicate in one of the languages."""
    to_text = _WRITERS.get(language)
    if to_text is None:
        raise FilterError(f"there is no language {language!r:.40}; say one of {', '.join(LANGUAGES)}")
    return to_text(predicate)


def as_predicate(given: PredicateLike) -> Predicate:
    """Take a predicate, a filter, a constraint, or SQL text for the predicate it says."""
    if isinstance(given, Predicate):
        return given
    if isinstance(given, str):
        return sql.parse(given)
    if isinstance(given, Filter):
        return Predicate((given,))
    if isinstance(given, Constraint):
        return Predicate((Filter((given,)),))
    raise FilterError(f"a predicate, a filter or SQL text was expected, not {type(given).__name__}")
