"""A genetic search for the filters that cost a broker most, among texts of a few hundred characters.

    python tests/worst_filters.py --seconds 60        # the worst found, with what each operation costs
    python tests/worst_filters.py --length 16384 --only parse --language json
    python tests/worst_filters.py --save found.jsonl  # all texts found, whole

A text is parsed as a broker parses a client's request, then printed, parsed again, compared with its
opposite and with the worst text so far, and added to a matcher. The search maximises milliseconds, which
also finds work that is not counted; with `--by steps` it maximises counted steps. The nightly run does the
latter (`filters/test_worst_filters.py`), because timings never decide a test. With `--only parse` it
maximises the milliseconds of parsing, or refusing, alone. Texts are made in SQL; with another `--language`
each is said in that one before it is parsed. The exit status is 1 if a text takes more steps than it may.
"""

import argparse
import heapq
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

import msgspec

from penstock import Matcher, Predicate, covers, overlaps, parse
from penstock.errors import PenstockError
from penstock.filters.constraint import Constraint
from penstock.filters.expression import And, Expression, Not, Or
from penstock.filters.languages import sql
from penstock.filters.parsing import LANGUAGES, Language
from penstock.filters.relations import Allowance
from penstock.filters.work import Work
from penstock.model.limits import COVERING_WORK_MAX, EXPANSION_WORK_MAX

LENGTH = 500
"""Characters of a text, if nothing else is said."""

POPULATION = 60

ONE_STEP = 5_000
"""What a single step too many may have been: it is counted as a whole before it is taken."""

BUDGETS = {
    "parse": EXPANSION_WORK_MAX + ONE_STEP,
    "read again": EXPANSION_WORK_MAX,
    "covers": COVERING_WORK_MAX + ONE_STEP,
    "overlaps": COVERING_WORK_MAX + ONE_STEP,
}
"""The steps that each operation may take."""

ATTRIBUTES = ("x", "y", "z", "a", "b", "s", "t")
LIKES = ("%{}%", "%{}", "{}%", "%{}_", "_{}%", "a%{}%b", "%_{}_%", "_%{}")

REGEXES = (
    *("{0}+[{0}b]{{{1}}}", "({0}?b?){{{1}}}", "^({0}|b)*c{{{1}}}", "(?i)[a-z{0}]+.{{0,{1}}}{0}"),
    *(r"\b{0}.*\b{1}", "(({0}*)*b|[^{0}])*", "{0}|b|c{1}"),
)
MATCHING = ("like", "not like", "ilike", "not ilike", "rlike", "not rlike")


@dataclass(order=True)
class Found:
    """A text and what it costs: by steps, or by milliseconds."""

    cost: float
    text: str
    operations: dict[str, float] = field(default_factory=dict, compare=False)


# What a text costs


def cost_in_steps(text: str, others: list[Predicate]) -> Found:
    """The steps of everything a broker does with the text: none may be above the limits."""
    work = Work.for_request()
    operations: dict[str, float] = {}
    predicate = None
    with suppress(PenstockError):
        predicate = sql.parse(text, work)
    operations["parse"] = work.spent
    if predicate is not None:
        again = Work.on(predicate.filters)
        assert sql.parse(predicate.to_sql(), again) == predicate
        operations["read again"] = again.spent
        operations["conditions"] = sum(len(f.conditions) for f in predicate.filters)
        for other in others:
            for name, relation in (("covers", covers), ("overlaps", overlaps)):
                for pair in ((predicate, other), (other, predicate)):
                    allowance = Allowance()
                    before = allowance.left
                    relation(*pair, allowance)
                    operations[name] = max(operations.get(name, 0), before - max(0, allowance.left))
    return Found(sum(operations.values()), text, operations)


def cost_in_milliseconds(text: str, others: list[Predicate]) -> Found:
    """The milliseconds of the same, each the best of three."""
    operations: dict[str, float] = {}

    def timed(name: str, run: Callable[[], object]) -> object:
        best, result = float("inf"), None
        for _ in range(3):
            start = time.perf_counter()
            try:
                result = run()
            except PenstockError:
                result = None
            best = min(best, 1_000 * (time.perf_counter() - start))
            if best < 1:
                break
        operations[name] = max(operations.get(name, 0), best)
        return result

    predicate = timed("parse", lambda: parse(text, request=True))
    if isinstance(predicate, Predicate):
        printed = str(timed("print", predicate.to_sql))
        timed("read again", lambda: parse(printed))
        for other in others:
            timed("covers", partial(covers, predicate, other))
            timed("covered", partial(covers, other, predicate))
            timed("overlaps", partial(overlaps, predicate, other))
        timed("add", partial(_added, predicate))
    return Found(sum(operations.values()), text, operations)


def cost_of_parsing(text: str, _others: list[Predicate], language: Language = "sql") -> Found:
    """The milliseconds of parsing or refusing alone, the best of three."""
    said = said_in(language, text)
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        with suppress(PenstockError):
            parse(said, language, request=True)
        best = min(best, 1_000 * (time.perf_counter() - start))
        if best < 1:
            break
    return Found(best, text, {"parse": best, "characters": len(said)})


def said_in(language: Language, text: str) -> str:
    """The same as a text in SQL, in another language; in PADRES the conjunction of its constraints."""
    if language == "sql":
        return text
    with suppress(PenstockError):
        said = sql._Parser(text).whole()
        if language == "json":
            return msgspec.json.encode(_plain(said)).decode()
        return ",".join(filter(None, map(_triple, _constraints(said))))
    return text


def _plain(said: Expression) -> dict[str, object]:
    if isinstance(said, Not):
        return {"not": _plain(said.part)}
    if isinstance(said, And | Or):
        return {"all" if isinstance(said, And) else "any": [_plain(part) for part in said.parts]}
    plain: dict[str, object] = {"attribute": said.attribute, "op": said.operator}
    return plain if said.value is None else {**plain, "value": said.value}


def _constraints(said: Expression) -> list[Constraint]:
    if isinstance(said, Constraint):
        return [said]
    parts = [said.part] if isinstance(said, Not) else said.parts
    return [leaf for part in parts for leaf in _constraints(part)]


def _triple(constraint: Constraint) -> str:
    if constraint.operator in ("<", "<=", ">", ">=", "=", "!="):
        return f"[{constraint.attribute},{constraint.operator},{str(constraint.value).lower()}]"
    if constraint.operator.endswith("like"):
        return f"[{constraint.attribute},str-contains,'{str(constraint.value).strip('%_')}']"
    return ""


def _added(predicate: Predicate) -> list[object]:
    matcher = Matcher({"worst": predicate})
    return list(matcher.match({"x": 1, "s": "a"}))


def over_budget(text: str, others: list[Predicate]) -> list[str]:
    """The operations on a text that count more steps than they may, each in words."""
    operations = cost_in_steps(text, others).operations
    return [
        f"{name} {operations[name]:,.0f} steps of {most:,}: {text}"
        for name, most in BUDGETS.items()
        if operations.get(name, 0) > most
    ]


# Texts


def condition(random: Random) -> str:
    name = random.choice(ATTRIBUTES)
    value = random.randrange(14)
    match random.randrange(9):
        case 0:
            return f"{name} != {value}"
        case 1:
            return f"{name} {random.choice(('<', '>', '<=', '>='))} {value}"
        case 2:
            return f"{name} between {value} and {value + random.randrange(6)}"
        case 3:
            return f"{name} not in ({value}, {value + 1 + random.randrange(4)})"
        case 4:
            pattern = random.choice(LIKES).format(random.choice("abcd") * random.randrange(1, 3))
            operator = random.choice(("like", "not like", "ilike", "not ilike"))
            return f"{name} {operator} '{pattern}'"
        case 8:
            pattern = random.choice(REGEXES).format(random.choice("abcd"), 1 + random.randrange(40))
            return f"{name} {random.choice(('', 'not '))}rlike '{pattern}'"
        case 5:
            return random.choice((f"{name} is null", f"{name} is not null", name))
        case _:
            return f"{name} = {value}"


def expression(random: Random, room: int, depth: int = 0) -> str:
    """A text of about so many characters."""
    if room < 25 or depth > 6:
        return condition(random)
    if random.random() < 0.35:
        return _repeated(random, room)
    connective = random.choice((" and ", " or "))
    parts: list[str] = []
    while room > 0 and len(parts) < 40:
        parts.append(expression(random, random.randrange(8, max(9, room)), depth + 1))
        room -= len(parts[-1]) + 5
    text = "(" + connective.join(parts) + ")"
    return f"not {text}" if random.random() < 0.3 else text


def _repeated(random: Random, room: int) -> str:
    """One shape over and over, with other values or attributes each time: what attacks look like."""
    inner, outer = random.choice(((" and ", " or "), (" or ", " and ")))
    width = random.randrange(1, 4)
    operators = [random.choice(("=", "!=", "<", ">", *MATCHING)) for _ in range(width)]
    names = [random.choice(ATTRIBUTES) for _ in range(width)]
    steps = [random.randrange(-2, 3) for _ in range(width)]
    numbered = random.random() < 0.3
    parts: list[str] = []
    while room > 0:
        i = len(parts)
        conditions = []
        for name, operator, step in zip(names, operators, steps, strict=True):
            value = str(20 + i * step)
            if operator in MATCHING:
                value = f"'{i * step}.?a'" if operator.endswith("rlike") else f"'%{i * step}a%'"
            conditions.append(f"{name}{i if numbered else ''} {operator} {value}")
        parts.append("(" + inner.join(conditions) + ")")
        room -= len(parts[-1]) + 5
    return ("not " if random.random() < 0.4 else "") + "(" + outer.join(parts) + ")"


def changed(random: Random, text: str, other: str, length: int) -> str:
    """A text a little different, or half of it and half of another."""
    match random.randrange(5):
        case 0:
            return f"({text}) {random.choice(('and', 'or'))} {condition(random)}"
        case 1:
            swaps = (" and ", " or "), (" or ", " and "), ("=", "!="), ("<", ">"), ("x", "y"), ("(", "not (")
            old, new = random.choice(swaps)
            at = text.find(old, random.randrange(len(text)))
            return text if at < 0 else text[:at] + new + text[at + len(old) :]
        case 2:
            return f"({text}) {random.choice(('and', 'or', 'and not', 'or not'))} ({other})"
        case 3:
            digits = [at for at, letter in enumerate(text) if letter.isdigit()]
            if not digits:
                return text
            at = random.choice(digits)
            return text[:at] + str(random.randrange(10)) + text[at + 1 :]
        case _:
            return expression(random, random.randrange(length // 8, length))


# The search


def search(
    random: Random,
    cost: Callable[[str, list[Predicate]], Found],
    is_over: Callable[[int], bool],
    length: int = LENGTH,
    language: Language = "sql",
) -> list[Found]:
    """The worst texts found until it is over, the worst first."""
    worst: list[Found] = []
    known: set[str] = set()
    rounds = 0
    while not is_over(rounds):
        rounds += 1
        if len(worst) < POPULATION or random.random() < 0.3:
            text = expression(random, random.randrange(length // 8, length))
        else:
            text = changed(random, random.choice(worst).text, random.choice(worst).text, length)
        if text in known or len(said_in(language, text)) > length:
            continue
        known.add(text)
        found = cost(text, _others(text, worst))
        if found.cost > 0:
            (heapq.heappush if len(worst) < POPULATION else heapq.heappushpop)(worst, found)
    return sorted(worst, reverse=True)


def _others(text: str, worst: list[Found]) -> list[Predicate]:
    """What a text is compared with: its opposite, and the worst so far that can be read."""
    others: list[Predicate] = []
    for other in (f"not ({text})", *(found.text for found in heapq.nlargest(3, worst))):
        try:
            others.append(parse(other, request=True))
        except PenstockError:
            continue
    return others[:2]


def main() -> None:
    """Search for a while, and print the worst."""
    parser = argparse.ArgumentParser(description="Search for the filters that cost a broker most.")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--by", choices=("steps", "time"), default="time")
    parser.add_argument("--length", type=int, default=LENGTH, help="characters of a text at the most")
    parser.add_argument("--only", choices=("parse",), help="maximise the time of this alone")
    parser.add_argument("--language", choices=LANGUAGES, default="sql", help="with --only parse")
    parser.add_argument("--top", type=int, default=3)
    parser.add_argument(
        "--save", type=Path, help="write the texts found to this file, whole, a line of JSON each"
    )
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    cost = cost_in_steps if options.by == "steps" else cost_in_milliseconds
    if options.only:
        cost = partial(cost_of_parsing, language=options.language)
    # The first match compiles kernels, or reads them.
    _added(parse("x = 1"))
    language: Language = options.language if options.only else "sql"
    is_over = lambda _rounds: time.monotonic() > end  # noqa: E731
    worst = search(Random(options.seed), cost, is_over, options.length, language)
    again_cost = cost if options.only else cost_in_milliseconds
    for found in worst[: options.top]:
        again = again_cost(found.text, _others(found.text, worst))
        figures = ", ".join(f"{name} {ms:.1f}" for name, ms in again.operations.items())
        sys.stdout.write(f"{again.cost:.1f} ms ({figures})\n  {found.text[:LENGTH]}\n")
    if options.save is not None:
        options.save.write_bytes(
            b"".join(msgspec.json.encode({"text": one.text, "cost": one.cost}) + b"\n" for one in worst)
        )
    over = [text for found in worst for text in over_budget(found.text, _others(found.text, worst))]
    for text in over:
        sys.stderr.write(f"above its budget: {text}\n")
    sys.exit(1 if over else 0)


if __name__ == "__main__":
    main()
