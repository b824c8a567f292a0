"""Tables on disk: a folder with a file for each array, and a manifest.

`manifest.json` names the format and its version, and for each array its file, type, shape and checksum. It
is written last, into a folder beside the place where it belongs, which then takes that place: there is
never half a table. Arrays are mapped into memory as they are; a table of a million filters loads in a
fraction of a second, most of which goes into the checksums.
"""

import os
import shutil
import tempfile
import zlib
from os import PathLike
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.errors import InputError
from penstock.matching.ids import IdTable
from penstock.matching.table import Table, from_arrays

FORMAT: Final = "penstock-matcher"
VERSION: Final = 1
"""Raised whenever the arrays change their meaning."""

_MANIFEST: Final = "manifest.json"
_CHUNK: Final = 2**24


class _Array(msgspec.Struct):
    """An array's file."""

    file: str
    dtype: str
    shape: list[int]
    crc32: int


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
    arrays: dict[str, _Array]
    crc32: int = 0
    """Of the manifest itself, with this as 0."""


def save(
    path: str | PathLike[str],
    table: Table | None,
    ids: tuple[NDArray[np.uint8], NDArray[np.int64]],
    *,
    learnt: bool = False,
) -> None:
    """Write a table and its ids into a folder, which is new, empty, or holds such a table already."""
    target = Path(path)
    if target.exists() and not _is_ours(target):
        raise InputError(f"{target}: there is something else here; a matcher is saved in a folder of its own")
    arrays = {} if table is None else table.arrays()
    arrays["ids.bytes"], arrays["ids.offsets"] = ids
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        described = {}
        for number, (name, array) in enumerate(arrays.items()):
            file = f"{number:02}-{name}.bin"
            data = np.ascontiguousarray(array)
            with (folder / file).open("wb") as out:
                out.write(_bytes(data))
                out.flush()
                os.fsync(out.fileno())
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
            arrays=described,
        )
        manifest.crc32 = zlib.crc32(msgspec.json.encode(manifest))
        with (folder / _MANIFEST).open("wb") as out:
            out.write(msgspec.json.format(msgspec.json.encode(manifest), indent=1))
            out.flush()
            os.fsync(out.fileno())
        folder.chmod(0o755)
        _put_in_place(folder, target)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _is_ours(target: Path) -> bool:
    if not target.is_dir():
        return False
    try:
        plain = msgspec.json.decode((target / _MANIFEST).read_bytes())
    except FileNotFoundError:
        return not any(target.iterdir())
    except (OSError, msgspec.DecodeError, UnicodeError):
        return False
    return isinstance(plain, dict) and plain.get("format") == FORMAT


def _put_in_place(folder: Path, target: Path) -> None:
    if not target.exists():
        folder.rename(target)
        return
    # Readers that have mapped the old files keep them.
    old = Path(tempfile.mkdtemp(prefix=f".{target.name}-old-", dir=target.parent))
    target.rename(old / "table")
    try:
        folder.rename(target)
    except BaseException:
        (old / "table").rename(target)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


def _bytes(array: NDArray[Any]) -> memoryview:
    return memoryview(array.reshape(-1).view(np.uint8).data) if array.size else memoryview(b"")


def _checksum(array: NDArray[Any]) -> int:
    data = _bytes(array)
    found = 0
    for at in range(0, len(data), _CHUNK):
        found = zlib.crc32(data[at : at + _CHUNK], found)
    return found


def load(path: str | PathLike[str]) -> tuple[Table | None, IdTable, bool]:
    """The table and ids of a folder, and whether the table knows events; or InputError that says why not."""
    folder = Path(path)
    manifest = _read_manifest(folder)
    arrays = {name: _map(folder, array) for name, array in manifest.arrays.items()}
    try:
        ids = IdTable.from_arrays(arrays.pop("ids.bytes"), arrays.pop("ids.offsets"))
        if manifest.names is None:
            return None, ids, False
        table = from_arrays(
            manifest.names, arrays, manifest.constraints, manifest.distinct, manifest.distinct_ids
        )
    except KeyError as error:
        raise InputError(f"{folder}: damaged: the array {error} is missing") from None
    return table, ids, manifest.learnt


def _read_manifest(folder: Path) -> _Manifest:
    try:
        text = (folder / _MANIFEST).read_bytes()
    except FileNotFoundError:
        raise InputError(f"{folder}: no matcher is saved here (there is no {_MANIFEST})") from None
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}") from None
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


def _map(folder: Path, array: _Array) -> NDArray[Any]:
    file = folder / array.file
    dtype, shape = np.dtype(array.dtype), tuple(array.shape)
    size = dtype.itemsize * int(np.prod(shape))
    try:
        if file.parent != folder or file.stat().st_size != size:
            raise InputError(f"{folder}: damaged: {array.file} has not its {size:,} bytes")
        # Copy-on-write: kernels want arrays that could be written to, the file never is.
        data: NDArray[Any] = (
            np.memmap(file, dtype, "c", shape=shape).view(np.ndarray) if size else np.zeros(shape, dtype)
        )
    except OSError as error:
        raise InputError(f"{folder}: damaged: {array.file}: {error.strerror}") from None
    if _checksum(data) != array.crc32:
        raise InputError(f"{folder}: damaged: {array.file} does not have its checksum")
    return data
