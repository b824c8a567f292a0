"""`penstock compile`: subscriptions compiled once, into a folder that `penstock match` opens at once."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from penstock.cli.files import is_same_file, tells_format
from penstock.cli.kernels import note_if_interpreting, wait_for_kernels
from penstock.cli.progress import progress
from penstock.cli.schema_files import Unmatchable, read_schema
from penstock.cli.sources import Source, has_files, size_of_all, sources
from penstock.cli.subscriptions import Reading, read_subscriptions
from penstock.errors import InputError
from penstock.filters.asked import attributes_in
from penstock.filters.parsing import Language
from penstock.filters.predicate import Predicate
from penstock.matching.matcher import Matcher
from penstock.matching.storage import is_saved
from penstock.model.names import Id
from penstock.model.schema import Schema


def run(options: argparse.Namespace) -> int:
    """Compile the subscriptions of a file into a folder."""
    if is_compiled(options.subscriptions, options.subscriptions_format):
        raise InputError(f"{options.subscriptions[0]}: a folder; subscriptions are compiled from a file")
    files = subscription_files(options)
    check_output(options.output, files)
    if tells_format(options.output):
        raise InputError(f"{options.output}: a folder is written; its name must not end as a file's does")
    schema = None if options.schema is None else read_schema(options.schema)
    matcher = load(files, Reading(language_of(options)), schema=schema, matching=False)
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


def subscription_files(options: argparse.Namespace) -> list[Source]:
    """The files of subscriptions."""
    return sources(options.subscriptions, options.subscriptions_format, "--subscriptions-format")


def check_output(output: str | None, files: Sequence[Source]) -> None:
    """Raise if what is written would replace what is read."""
    if any(is_same_file(output, source.path) for source in files):
        raise InputError(f"{output}: --output would replace what is read")


def is_compiled(given: Sequence[str], kind: str | None) -> bool:
    """Whether the subscriptions are a compiled folder, and nothing says that they should be files."""
    path = Path(given[0])
    if kind is not None or len(given) > 1 or given[0] == "-" or not path.is_dir() or tells_format(given[0]):
        return False
    return is_saved(path) or not has_files(path)


def load(
    files: Sequence[Source],
    reading: Reading,
    *,
    schema: Schema | None = None,
    matching: bool = True,
    unmatchable: Unmatchable | None = None,
) -> Matcher:
    """A matcher of the subscriptions of files, which are refused if they do not fit the schema.

    `matching`: whether it is going to be matched with. `unmatchable`: columns that no rule may name.
    """
    matcher = Matcher(schema=schema)
    with progress("subscriptions", size_of_all(files)) as advance:

        def pairs() -> Iterator[tuple[Id, Predicate]]:
            for found in read_subscriptions(files, reading, advance):
                if unmatchable:
                    for f in found.predicate.filters:
                        unmatchable.refuse(attributes_in(f))
                yield found.id, found.predicate
            (note_if_interpreting if matching else wait_for_kernels)()

        matcher.add_many(pairs())
    return matcher
