"""`penstock compile`: subscriptions compiled once, into a folder that `penstock match` opens at once."""

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from penstock.cli.files import format_of, is_same_file, size_of, tells_format
from penstock.cli.kernels import note_if_cold
from penstock.cli.progress import progress
from penstock.cli.subscriptions import read_subscriptions
from penstock.errors import InputError
from penstock.filters.parsing import Language
from penstock.filters.predicate import Predicate
from penstock.matching.matcher import Matcher
from penstock.model.names import Id


def run(options: argparse.Namespace) -> int:
    """Compile the subscriptions of a file into a folder."""
    if is_same_file(options.output, options.subscriptions):
        raise InputError(f"{options.output}: --output would replace what is read")
    if tells_format(options.output):
        raise InputError(f"{options.output}: a folder is written; its name must not end as a file's does")
    if is_compiled(options.subscriptions, options.subscriptions_format):
        raise InputError(f"{options.subscriptions}: a folder; subscriptions are compiled from a file")
    matcher = load(
        options.subscriptions, subscriptions_format_of(options), language_of(options), matching=False
    )
    matcher.save(options.output)
    size = sum(file.stat().st_size for file in Path(options.output).iterdir())
    filters = matcher.stats([]).filters
    held = f"{_counted(filters, 'filter')} under {_counted(len(matcher), 'id')}"
    sys.stdout.write(f"{options.output}: {held}, {size:,} bytes\n")
    return 0


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def language_of(options: argparse.Namespace) -> Language:
    """The language of the filters of a file."""
    language: Language = options.language or "sql"
    return language


def subscriptions_format_of(options: argparse.Namespace) -> str:
    """The format of the subscriptions' file."""
    return format_of(options.subscriptions, options.subscriptions_format, "--subscriptions-format")


def is_compiled(path: str, given: str | None) -> bool:
    """Whether the subscriptions are a folder, and nothing says that they should be a file."""
    return given is None and path != "-" and Path(path).is_dir() and not tells_format(path)


def load(
    path: str,
    kind: str,
    language: Language,
    expect: Callable[[Predicate], None] = lambda _predicate: None,
    *,
    matching: bool = True,
) -> Matcher:
    """A matcher of the subscriptions of a file; each predicate is shown to `expect`.

    `matching`: whether it is going to be matched with.
    """
    matcher = Matcher()
    with progress("subscriptions", size_of(path)) as advance:

        def pairs() -> Iterator[tuple[Id, Predicate]]:
            for found in read_subscriptions(path, kind, language, advance):
                expect(found.predicate)
                yield found.id, found.predicate
            note_if_cold(matching=matching)

        matcher.add_many(pairs())
    return matcher
