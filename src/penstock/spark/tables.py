"""Tables of subscriptions on disk: a folder of versions, each a folder of blocks that workers map.

    rules/
      v000001/ …
      v000002/
        table.json            what is in it; written last
        block-00000/          a saved matcher (`Matcher.save`), and `subscribers-….arrow` where there are any;
                              `rules-….json`, if it is small: the rules as text (`rules`), perhaps without
                              the matcher
        block-00001/ …        later blocks have later ids
        rejected.jsonl        what was left out, where that was asked for

A version is complete or not there: it is written beside its place, and takes it at once. It never changes, so
that tasks which are given its path agree on what they match with. A folder of `penstock compile` is a table
of one block without versions.
"""

import os
import re
import shutil
import time
import zlib
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.errors import InputError
from penstock.matching.folders import new_folder, sync
from penstock.model.places import Place, in_order
from penstock.spark.places import write_whole

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.matching.matcher import Matcher
    from penstock.matching.storage import SavedTimes
    from penstock.matching.times import Asked

FORMAT: Final = "penstock-table"
FORMAT_VERSION: Final = 1
MANIFEST: Final = "table.json"
MATCHER: Final = "manifest.json"
"""What a folder has that `Matcher.save` wrote."""
REJECTED: Final = "rejected.jsonl"

_VERSION: Final = re.compile(r"v(\d{6,})")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_SUFFIXES: Final = (".bin", ".json", ".arrow")
"""Of the files that a block has."""
_ATTEMPTS: Final = 100
_ABANDONED_S: Final = 3 * 86_400.0


class BlockFacts(msgspec.Struct, frozen=True):
    """What is in a block."""

    folder: str
    ids: int
    filters: int
    nbytes: int


class _Manifest(msgspec.Struct, frozen=True):
    format: str
    format_version: int
    version: int
    names: list[str]
    subscribers: bool
    rejected: int
    blocks: list[BlockFacts]
    crc32: int = 0
    """Of the manifest itself, with this as 0."""


class Table(msgspec.Struct, frozen=True):
    """A version of a table: what it holds, and where. See the module."""

    path: str
    """The folder of the version."""
    version: int | None
    """None for a folder of `penstock compile`."""
    names: tuple[str, ...]
    """The attributes that filters name."""
    subscribers: bool
    """Whether ids have subscribers."""
    blocks: tuple[BlockFacts, ...]
    rejected: int = 0
    """How many rows were left out because they are no subscriptions; they are in `rejected.jsonl`."""

    @property
    def ids(self) -> int:
        """How many ids there are."""
        return sum(block.ids for block in self.blocks)

    @property
    def filters(self) -> int:
        """How many filters there are: an id may have several."""
        return sum(block.filters for block in self.blocks)

    @property
    def nbytes(self) -> int:
        """Bytes on disk, and in memory once all of it has been read."""
        return sum(block.nbytes for block in self.blocks)

    @property
    def times(self) -> "frozenset[Place]":
        """The attributes whose texts are read as times: what rules in all blocks ask together decides."""
        from penstock.matching.times import TimeTexts

        saved = self._saved_times()
        always = frozenset[Place]().union(*(one.always for one in saved))
        never = frozenset[Place]().union(*(one.never for one in saved))
        return TimeTexts(always, never).names(self.asked.times_only)

    @property
    def asked(self) -> "Asked":
        """What rules in all blocks compare with times and strings."""
        from penstock.matching.times import Asked

        asked = [one.asked for one in self._saved_times()]
        times = in_order({place for one in asked for place in one.times})
        return Asked(times, in_order({place for one in asked for place in one.strings}))

    def _saved_times(self) -> "list[SavedTimes]":
        from penstock.spark.rules import saved_times

        return [saved_times(folder) for folder in self.folders]

    @property
    def folders(self) -> list[Path]:
        """The folders of the blocks."""
        return [Path(self.path) / block.folder for block in self.blocks]

    @classmethod
    def open(cls, folder: str | PathLike[str], version: int | None = None) -> "Table":
        """A version of a table, the latest unless one is named; or InputError that says why not."""
        given = checked_folder(folder)
        try:
            return cls._open(folder, given, version)
        except OSError as error:
            raise InputError(f"{folder}: {(error.strerror or str(error)).lower()}") from None

    @classmethod
    def _open(cls, folder: str | PathLike[str], given: Path, version: int | None) -> "Table":
        if (given / MANIFEST).exists():
            found = _read(given)
            if version not in (None, found.version):
                raise InputError(f"{folder}: this is version {found.version}, not {version}")
            return found
        if (given / MATCHER).exists():
            if version is not None:
                raise InputError(f"{folder}: compiled subscriptions have no versions; there is no {version}")
            return _of_matcher(given)
        known = cls.versions(given)
        wanted = known[-1] if version is None and known else version
        if wanted is None or wanted not in known:
            raise InputError(_why_not(folder, given, wanted, known))
        try:
            return _read(given / version_name(wanted))
        except (InputError, OSError):
            if version is not None or (given / version_name(wanted) / MANIFEST).exists():
                raise
        # It was the latest, and has been removed since, because there is a later one.
        return cls._open(folder, given, None)

    @staticmethod
    def versions(folder: str | PathLike[str]) -> list[int]:
        """The versions that are complete, in order."""
        given = checked_folder(folder)
        if not given.is_dir():
            return []
        named = (_VERSION.fullmatch(entry.name) for entry in given.iterdir())
        return sorted(int(found[1]) for found in named if found and (given / found[0] / MANIFEST).exists())

    @classmethod
    def prune(cls, folder: str | PathLike[str], keep: int = 2) -> list[int]:
        """Remove all but the latest versions; say which.

        Who has mapped one goes on with it. A stream that is to be replayed needs the versions of its batches.
        """
        if keep < 1:
            raise InputError(f"at least one version is kept, not {keep}")
        gone = cls.versions(folder)[:-keep]
        for version in gone:
            place = checked_folder(folder) / version_name(version)
            # No version without its manifest: whoever looks while files go sees none.
            (place / MANIFEST).unlink(missing_ok=True)
            shutil.rmtree(place, ignore_errors=True)
        return gone


def version_name(version: int) -> str:
    """The name of a version's folder."""
    return f"v{version:06}"


def checked_folder(folder: str | PathLike[str]) -> Path:
    """The folder; or an error if it is none that can be mapped."""
    text = str(folder)
    # Also as Spark writes it, file:/…
    text = re.sub("^file:/+", "/", text)
    if _SCHEME.match(text):
        raise InputError(
            f"{text}: a table is mapped into memory, so it lies in a folder that all workers have mounted "
            "(NFS, /dbfs, /Volumes …), not in an object store"
        )
    return Path(text).absolute()


def _why_not(shown: object, folder: Path, version: int | None, known: list[int]) -> str:
    if not folder.exists():
        return f"{shown}: there is no table: the folder does not exist"
    if not folder.is_dir():
        return f"{shown}: a table is a folder, and this is a file"
    if version is not None:
        if (folder / version_name(version)).exists():
            return f"{shown}: version {version} is half-written: it has no {MANIFEST}"
        have = ", ".join(map(str, known[-10:])) or "none"
        return f"{shown}: there is no version {version} (there are: {have})"
    half = [entry.name for entry in folder.iterdir() if entry.name.startswith(("v0", ".v0", "block-"))]
    if half:
        return f"{shown}: half-written: {min(half)!r} has no {MANIFEST}; save the table again"
    return f"{shown}: no table is saved here (no versions, no {MANIFEST}, no {MATCHER})"


def _read(folder: Path) -> Table:
    try:
        plain = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=dict)
        if plain.get("format") != FORMAT:
            raise InputError(f"{folder}: this is no saved table")
        if plain.get("format_version") != FORMAT_VERSION:
            raise InputError(
                f"{folder}: saved in version {plain.get('format_version')!r:.20} of the format; this program "
                f"reads version {FORMAT_VERSION}. Save it again from its subscriptions."
            )
        found = msgspec.convert(plain, _Manifest)
    except OSError as error:
        raise InputError(f"{folder}: {(error.strerror or str(error)).lower()}") from None
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise InputError(f"{folder}: damaged: {MANIFEST}: {error}") from None
    if _checksum(found) != found.crc32:
        raise InputError(f"{folder}: damaged: {MANIFEST} does not have its checksum")
    blocks = [(block.folder, folder / block.folder) for block in found.blocks]
    missing = [name for name, block in blocks if not is_compiled(block) and not has_rules(block)]
    if missing:
        raise InputError(f"{folder}: damaged: the block {missing[0]!r:.80} is not there")
    # A copy that has not come to its end has all names. Here it costs a look; in a worker, a job.
    short = [block.folder for block in found.blocks if _nbytes(folder / block.folder) != block.nbytes]
    if short:
        raise InputError(
            f"{folder}: damaged, or not copied whole: files of the block {short[0]!r:.80} are not as large "
            "as they were when it was saved"
        )
    return Table(
        str(folder), found.version, tuple(found.names), found.subscribers, tuple(found.blocks), found.rejected
    )


def _of_matcher(folder: Path) -> Table:
    from penstock.matching.computed import plain_names
    from penstock.matching.matcher import Matcher

    matcher = Matcher.load(folder)
    return Table(
        str(folder), None, tuple(sorted(plain_names(matcher.names))), False, (facts_of(matcher, folder, "."),)
    )


def is_compiled(block: Path) -> bool:
    """Whether the folder of a block has a saved matcher."""
    return (block / MATCHER).exists()


def has_rules(block: Path) -> bool:
    """Whether the folder of a block has the rules as text."""
    return any(block.glob(rules_file(None)))


def rules_file(checksum: int | None) -> str:
    """The name of the file that has the rules of a block as text; None: a pattern for it."""
    return f"rules-{'*' if checksum is None else format(checksum, '08x')}.json"


def facts_of(matcher: "Matcher", folder: Path, name: str, filters: int | None = None) -> BlockFacts:
    """What a block's folder has; the number of its filters, where that is known."""
    if filters is None:
        filters = sum(table.size for table in matcher.tables())
    return BlockFacts(name, len(matcher), filters, _nbytes(folder))


def _nbytes(folder: Path) -> int:
    """The size of a block's own files: others' (.nfs…, .DS_Store, a README) may lie beside them."""
    own = (entry for entry in folder.iterdir() if entry.suffix in _SUFFIXES and entry.name[0] != ".")
    return sum(entry.stat().st_size for entry in own)


def _checksum(manifest: _Manifest) -> int:
    return zlib.crc32(msgspec.json.encode(msgspec.structs.replace(manifest, crc32=0)))


def new_version(folder: Path) -> Path:
    """A new folder, in that of a table, in which a version can be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / MATCHER).exists() or (folder / MANIFEST).exists():
            raise InputError(f"{folder}: compiled subscriptions are here already; a table has its own folder")
        _tidy(folder)
        return new_folder(folder / "v0")
    except OSError as error:
        raise InputError(f"{folder}: cannot be saved: {(error.strerror or str(error)).lower()}") from None


def _tidy(folder: Path) -> None:
    """Remove what was left behind by those that died long ago: nobody works on a version for days.

    That is what writers began, and the rest of versions that were being removed. Those are older than one
    that is there, so that no number is given twice.
    """
    long_ago = time.time() - _ABANDONED_S
    newest = max(Table.versions(folder), default=0)
    rests = [
        entry
        for entry in folder.iterdir()
        if (found := _VERSION.fullmatch(entry.name))
        and int(found[1]) < newest
        and not (entry / MANIFEST).exists()
    ]
    for left in [*folder.glob(".v0-*"), *rests]:
        with suppress(FileNotFoundError):
            if left.stat().st_mtime < long_ago:
                shutil.rmtree(left, ignore_errors=True)


def publish(
    written: Path,
    folder: Path,
    names: list[str],
    blocks: list[BlockFacts],
    *,
    subscribers: bool,
    rejected: int,
) -> Table:
    """Make what was written the next version of a table."""
    for _ in range(_ATTEMPTS):
        version = _latest(folder) + 1
        made = _Manifest(FORMAT, FORMAT_VERSION, version, sorted(names), subscribers, rejected, blocks)
        made = msgspec.structs.replace(made, crc32=_checksum(made))
        write_whole(written / MANIFEST, msgspec.json.format(msgspec.json.encode(made), indent=1))
        try:
            # Where somebody else has just written this version, the folder is there, and not empty.
            written.rename(folder / version_name(version))
        except OSError as error:
            if not (folder / version_name(version)).exists():
                raise InputError(
                    f"{folder}: cannot be saved: {(error.strerror or str(error)).lower()}"
                ) from None
            continue
        sync(folder)
        return _read(folder / version_name(version))
    raise InputError(f"{folder}: others keep writing versions; this one found no place")


def _latest(folder: Path) -> int:
    """The last number that is taken: also one whose folder was left half-written, or half-removed."""
    named = (_VERSION.fullmatch(entry.name) for entry in folder.iterdir())
    return max((int(found[1]) for found in named if found), default=0)


def write_subscribers(folder: Path, subscribers: "pa.Array") -> None:
    """Write the subscribers of a block's ids, in the order of the ids' text."""
    import pyarrow as pa

    table = pa.table({"subscriber": subscribers})
    out = pa.BufferOutputStream()
    with pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)
    data = out.getvalue()
    # The checksum is in the name: the file is mapped as it is, and wrong offsets in it would be followed.
    with (folder / f"subscribers-{zlib.crc32(data):08x}.arrow").open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def read_subscribers(folder: Path) -> "pa.Array | None":
    """The subscribers of a block's ids, if it has any."""
    import pyarrow as pa

    file = next(folder.glob("subscribers-*.arrow"), None)
    if file is None:
        return None
    try:
        data = pa.memory_map(str(file)).read_buffer() if file.stat().st_size else pa.py_buffer(b"")
        if file.name != f"subscribers-{zlib.crc32(data):08x}.arrow":
            raise InputError(f"{folder}: damaged: {file.name} does not have its checksum")
        column = pa.ipc.open_file(data).read_all().column("subscriber")
    except (OSError, pa.ArrowException, KeyError) as error:
        raise InputError(f"{folder}: damaged: {file.name}: {error}") from None
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
