"""Tables on disk: a folder with a file for each array, and a manifest.

`manifest.json` names the format and its version, and for each array its file, type, shape and checksum. It
is written last, into a folder beside the place where it belongs, which then takes that place: there is
never half a table, and who loads while another saves gets the old one or the new. Arrays are mapped into
memory as they are; a table of a million filters loads in a fraction of a second, most of which goes into
the checksums and into looking at what kernels would follow.
"""

import errno
import math
import os
import shutil
import time
import zlib
from os import PathLike
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.errors import InputError
from penstock.matching.checks import SHAPES, check_ids, check_shape, check_table
from penstock.matching.folders import is_being_replaced, new_folder, put_in_place
from penstock.matching.ids import IdTable
from penstock.matching.table import Table, from_arrays
from penstock.matching.times import Asked, TimeTexts
from penstock.model.places import Place

FORMAT: Final = "penstock-matcher"
VERSION: Final = 3
"""Raised whenever the arrays change their meaning."""

_MANIFEST: Final = "manifest.json"
_CHUNK: Final = 2**24
_IDS: Final[tuple[str, ...]] = ("ids.bytes", "ids.offsets")

_PAUSES: Final = (0.0, 0.001, 0.01, 0.05, 0.1, 0.2)
"""Seconds between attempts to load what is being replaced. A folder takes its place in far less."""


class _Array(msgspec.Struct):
    """An array's file."""

    file: str
    dtype: str
    shape: list[int]
    crc32: int


class SavedTimes(msgspec.Struct, frozen=True):
    """Of which attributes texts are read as times."""

    always: list[Place] = []
    """Those that a schema says are times."""
    never: list[Place] = []
    """Those that a schema says are something else."""
    asked: Asked = Asked()
    """What filters ask for."""

    def texts(self) -> TimeTexts:
        """Of which attributes texts are read as times, for a matcher."""
        return TimeTexts(frozenset(self.always), frozenset(self.never))


class _Manifest(msgspec.Struct):
    """What is in a folder."""

    format: str
    version: int
    byteorder: str
    names: list[str] | None
    """The attributes of the slots; null where there is no filter at all."""
    constraints: int
    distinct: bool
    distinct_ids: int
    learnt: bool
    """Whether the table was compiled knowing what events look like."""
    times: SavedTimes
    """Which texts are read as times."""
    arrays: dict[str, _Array]
    crc32: int = 0
    """Of the manifest itself, with this as 0."""


class _SavedFile(msgspec.Struct):
    """What every version says of an array."""

    file: str


class _Saved(msgspec.Struct):
    """What every version says of a folder."""

    format: str
    arrays: dict[str, _SavedFile]


def save(
    path: str | PathLike[str],
    table: Table | None,
    ids: tuple[NDArray[np.uint8], NDArray[np.int64]],
    *,
    learnt: bool = False,
    times: SavedTimes | None = None,
) -> None:
    """Write a table and its ids into a folder: new, empty, or with such a table and nothing else in it."""
    try:
        # A link stays, and what it names is written: also where that is not there yet.
        target = Path(path).resolve()
        if target == Path.cwd():
            raise InputError(f"{path}: the folder that the program stands in cannot be replaced")
        foreign = _foreign(target) if target.exists() else None
        if foreign is not None:
            raise InputError(
                f"{path}: there is something else here ({foreign!r:.80}), which would be lost; "
                "a matcher is saved in a folder of its own"
            )
        if target.parent.exists() and not target.parent.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        target.parent.mkdir(parents=True, exist_ok=True)
        folder = new_folder(target)
        try:
            _write(folder, table, ids, learnt, times or SavedTimes())
            put_in_place(folder, target)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    except InputError:
        raise
    except (OSError, RuntimeError, ValueError) as error:
        # Paths that go round in a circle, or that no system takes, are told of as the last two.
        raise InputError(f"{path}: cannot be saved: {_why(error)}") from None


def _why(error: Exception) -> str:
    return ((isinstance(error, OSError) and error.strerror) or str(error)).lower()


def _write(
    folder: Path,
    table: Table | None,
    ids: tuple[NDArray[np.uint8], NDArray[np.int64]],
    learnt: bool,
    times: SavedTimes,
) -> None:
    arrays = {} if table is None else table.arrays()
    arrays["ids.bytes"], arrays["ids.offsets"] = ids
    described = {}
    for number, (name, array) in enumerate(arrays.items()):
        file = f"{number:02}-{name}.bin"
        data = np.ascontiguousarray(array)
        _write_file(folder / file, _bytes(data))
        described[name] = _Array(file, data.dtype.str, list(data.shape), _checksum(data))
    manifest = _Manifest(
        format=FORMAT,
        version=VERSION,
        byteorder="little" if np.little_endian else "big",
        names=None if table is None else table.names,
        constraints=0 if table is None else table.constraints,
        distinct=table is not None and table.distinct,
        distinct_ids=0 if table is None else table.distinct_ids,
        learnt=learnt,
        times=times,
        arrays=described,
    )
    manifest.crc32 = zlib.crc32(msgspec.json.encode(manifest))
    _write_file(folder / _MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=1))


def _write_file(file: Path, data: bytes | memoryview) -> None:
    with file.open("wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())


def _foreign(target: Path) -> str | None:
    """The name of something that would go with what is replaced, and was not written by `save`."""
    if not target.is_dir():
        return target.name
    ours = _files_of(target)
    return min((entry.name for entry in target.iterdir() if entry.name not in ours), default=None)


def _files_of(folder: Path) -> set[str]:
    """The files that a matcher, saved in any version of the format, has in a folder."""
    try:
        plain = msgspec.json.decode((folder / _MANIFEST).read_bytes())
    except (OSError, msgspec.DecodeError, UnicodeError):
        return set()
    try:
        saved = msgspec.convert(plain, _Saved)
    except msgspec.ValidationError:
        return {_MANIFEST} if isinstance(plain, dict) and plain.get("format") == FORMAT else set()
    return {_MANIFEST, *(array.file for array in saved.arrays.values())} if saved.format == FORMAT else set()


def _bytes(array: NDArray[Any]) -> memoryview:
    return memoryview(array.reshape(-1).view(np.uint8).data) if array.size else memoryview(b"")


def _checksum(array: NDArray[Any]) -> int:
    data = _bytes(array)
    found = 0
    for at in range(0, len(data), _CHUNK):
        found = zlib.crc32(data[at : at + _CHUNK], found)
    return found


class Saved(NamedTuple):
    """What is in a folder."""

    table: Table | None
    ids: IdTable
    learnt: bool
    """Whether the table knows events."""
    times: SavedTimes


def load_times(path: str | PathLike[str]) -> SavedTimes:
    """Which texts are read as times by what is saved in a folder."""
    return _read_manifest(Path(path)).times


def load(path: str | PathLike[str]) -> Saved:
    """What was saved in a folder; or InputError that says why not."""
    folder = Path(path)
    for pause in _PAUSES:
        time.sleep(pause)
        found = _state(folder)
        try:
            return _load(folder)
        except InputError:
            # Files of two tables fit together no better than damaged ones: look whether it is another by now.
            if _state(folder) == found and not (found is None and is_being_replaced(folder)):
                raise
    return _load(folder)


def _state(folder: Path) -> tuple[int, int, int] | None:
    """What tells one saved table from the next in the same place."""
    try:
        found = (folder / _MANIFEST).stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def is_saved(folder: Path) -> bool:
    """Whether a folder looks as if a matcher had been saved in it."""
    return (folder / _MANIFEST).exists() and next(folder.glob("*.bin"), None) is not None


def _load(folder: Path) -> Saved:
    manifest = _read_manifest(folder)
    names = manifest.names
    try:
        arrays: dict[str, NDArray[Any]] = {}
        for name in _IDS if names is None else SHAPES:
            if name not in manifest.arrays:
                raise InputError(f"the array {name} is missing")
            arrays[name] = _map(folder, name, manifest.arrays[name])
        known = check_ids(arrays)
        ids = IdTable.from_arrays(arrays.pop("ids.bytes"), arrays.pop("ids.offsets"))
        if names is None:
            return Saved(None, ids, learnt=False, times=manifest.times)
        if len(set(names)) < len(names):
            raise InputError("an attribute is there twice")
        check_table(arrays, len(names), known, manifest.distinct, manifest.distinct_ids)
    except InputError as error:
        raise InputError(f"{folder}: damaged: {error}") from None
    table = from_arrays(names, arrays, manifest.constraints, manifest.distinct, manifest.distinct_ids)
    return Saved(table, ids, manifest.learnt, manifest.times)


def _read_manifest(folder: Path) -> _Manifest:
    try:
        text = (folder / _MANIFEST).read_bytes()
    except FileNotFoundError:
        raise InputError(f"{folder}: no matcher is saved here (there is no {_MANIFEST})") from None
    except OSError as error:
        raise InputError(f"{folder}: {_why(error)}") from None
    try:
        plain = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        raise InputError(f"{folder}: damaged: {_MANIFEST} is not JSON") from None
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        raise InputError(f"{folder}: this is not a saved matcher")
    if plain.get("version") != VERSION:
        raise InputError(
            f"{folder}: saved in version {plain.get('version')!r:.20} of the format; this program reads "
            f"version {VERSION}. Save it again from its filters."
        )
    try:
        manifest = msgspec.convert(plain, _Manifest)
    except msgspec.ValidationError as error:
        raise InputError(f"{folder}: damaged: {_MANIFEST}: {error}") from None
    expected, manifest.crc32 = manifest.crc32, 0
    if zlib.crc32(msgspec.json.encode(manifest)) != expected:
        raise InputError(f"{folder}: damaged: {_MANIFEST} does not have its checksum")
    if manifest.byteorder != ("little" if np.little_endian else "big"):
        raise InputError(f"{folder}: saved on a machine of the other byte order")
    return manifest


def _map(folder: Path, name: str, array: _Array) -> NDArray[Any]:
    file = folder / array.file
    # Before anything is mapped: there are types whose very bytes are pointers.
    check_shape(name, array.dtype, array.shape)
    dtype, shape = np.dtype(array.dtype), tuple(array.shape)
    # Python's integers: a product that does not fit into 64 bits is no size either.
    size = dtype.itemsize * math.prod(shape)
    try:
        if file.parent != folder or file.stat().st_size != size:
            raise InputError(f"{array.file} has not its {size:,} bytes")
        # Copy-on-write: kernels want arrays that could be written to, the file never is.
        data: NDArray[Any] = (
            np.memmap(file, dtype, "c", shape=shape).view(np.ndarray) if size else np.zeros(shape, dtype)
        )
    except OSError as error:
        raise InputError(f"{array.file}: {_why(error)}") from None
    except InputError:
        raise
    except ValueError:
        # Another file since its size was looked at.
        raise InputError(f"{array.file} has not its {size:,} bytes") from None
    if _checksum(data) != array.crc32:
        raise InputError(f"{array.file} does not have its checksum")
    return data
