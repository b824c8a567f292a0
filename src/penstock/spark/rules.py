"""The rules of a small table as text, and the matcher of a block.

A matcher of compiled arrays needs kernels. Where none are there yet, a small block is matched by the
interpreter, from the texts of its rules: a driver without kernels writes them and no arrays, and workers
without kernels read them. Nobody waits for a compiler then. Large blocks have no texts: their workers wait.
"""

import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.errors import InputError
from penstock.filters.parsing import Language, PredicateLike, parse
from penstock.matching.arrival import is_interpreting
from penstock.matching.times import Asked
from penstock.spark.tables import is_compiled, rules_file

if TYPE_CHECKING:
    from penstock.matching.matcher import Matcher
    from penstock.matching.storage import SavedTimes

RULES_MAX: Final = 10_000
"""More rules than these are not kept as text: the interpreter takes a second to read so many."""

BYTES_MAX: Final = 1 << 22
"""Nor are more bytes of text: workers read them anew."""


class Rules(msgspec.Struct, frozen=True):
    """Rules as text."""

    language: Language
    rules: list[tuple[str, str]]
    """Ids, in the order of text, and filters; an id may come again."""
    asked: Asked = Asked()
    """What they compare with times and strings, where that is known."""

    @property
    def are_few(self) -> bool:
        """Whether they are few enough to be kept."""
        return are_few([text for _id, text in self.rules])

    def __iter__(self) -> Iterator[tuple[str, PredicateLike]]:
        """What a matcher takes."""
        for key, text in self.rules:
            yield key, text if self.language == "sql" else parse(text, self.language)


def are_few(texts: list[str]) -> bool:
    """Whether so many rules are kept as text."""
    return len(texts) <= RULES_MAX and sum(map(len, texts)) <= BYTES_MAX


def write_rules(folder: Path, rules: Rules) -> None:
    """Write the rules of a block into its folder."""
    data = msgspec.json.encode(rules)
    # As with subscribers, the checksum is in the name.
    with (folder / rules_file(zlib.crc32(data))).open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def read_rules(folder: Path) -> Rules | None:
    """The rules of a block, if it has them as text."""
    file = next(folder.glob(rules_file(None)), None)
    if file is None:
        return None
    try:
        data = file.read_bytes()
        if file.name != rules_file(zlib.crc32(data)):
            raise InputError(f"{folder}: damaged: {file.name} does not have its checksum")
        return msgspec.json.decode(data, type=Rules)
    except (OSError, msgspec.DecodeError) as error:
        raise InputError(f"{folder}: damaged: {file.name}: {error}") from None


def saved_times(folder: Path) -> "SavedTimes":
    """Which texts are read as times by what is saved of a block: its arrays, or its rules alone."""
    from penstock.matching.storage import SavedTimes, load_times

    rules = None if is_compiled(folder) else read_rules(folder)
    return load_times(folder) if rules is None else SavedTimes(asked=rules.asked)


def load_block(folder: Path) -> "Matcher":
    """The matcher of a block: of its arrays, or of its rules while there are no kernels, or no arrays."""
    from penstock.matching.matcher import Matcher

    if is_interpreting() or not is_compiled(folder):
        rules = read_rules(folder)
        if rules is not None:
            made = Matcher(rules)
            made.warns = False
            return made
    return Matcher.load(folder, learn=False)
