"""Which files are read: files, folders and glob patterns as given on the command line.

As in Spark, a folder stands for all files in it and below it, and files and folders whose names begin with
`_` or `.` (`_SUCCESS`, `.part-0.crc`) are left out there. A name that is given itself is always read.
"""

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from penstock.cli.files import format_of, size_of
from penstock.errors import InputError
from penstock.matching.storage import is_saved


class Source(NamedTuple):
    """A file to read, `-` for standard input, and its format."""

    path: str
    kind: str


def sources(given: Sequence[str], kind: str | None, flag: str) -> list[Source]:
    """The files that were given; folders and patterns stand for theirs, in the order of their names.

    `kind` is the format of all, where it was said by `flag`.
    """
    found = [Source(path, format_of(path, kind, flag)) for name in given for path in _paths(name)]
    if sum(source.path == "-" for source in found) > 1:
        raise InputError("standard input can be read only once")
    return found


def one_kind(found: Sequence[Source]) -> str:
    """The format of all; raises if there are several."""
    first = found[0]
    for other in found:
        if other.kind != first.kind:
            raise InputError(
                f"{first.path} is read as {first.kind}, {other.path} as {other.kind}: "
                "give files of one format at a time"
            )
    return first.kind


def size_of_all(found: Iterable[Source]) -> int | None:
    """The bytes of all files; None where that is not known beforehand."""
    total = 0
    for source in found:
        size = size_of(source.path)
        if size is None:
            return None
        total += size
    return total


def has_files(folder: Path) -> bool:
    """Whether there is a file to read in a folder."""
    return next(_files_in(folder), None) is not None


def _paths(name: str) -> Iterator[str]:
    """The files that one argument stands for."""
    path = Path(name)
    if name != "-" and not path.exists() and glob.has_magic(name):
        places = sorted(place for place in glob.glob(name, recursive=True) if not _is_hidden(place))  # noqa: PTH207
        if not places:
            raise InputError(f"{name}: no file has a name like this")
        # `**` names folders, and the files in them too.
        folders = [Path(place) for place in places if Path(place).is_dir()]
        for place in places:
            if not any(folder in Path(place).parents for folder in folders):
                yield from _paths(place)
    elif name != "-" and path.is_dir():
        if is_saved(path):
            raise InputError(f"{name}: a folder that penstock compile wrote, and no folder of files")
        if not has_files(path):
            raise InputError(f"{name}: there is no file in this folder")
        yield from map(str, _files_in(path))
    else:
        yield name


def _files_in(folder: Path) -> Iterator[Path]:
    """The files in a folder and below it."""
    for place, folders, files in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if not _is_hidden(name))
        for name in sorted(files):
            if not _is_hidden(name):
                yield Path(place, name)


def _is_hidden(path: str) -> bool:
    return Path(path).name.startswith(("_", "."))
