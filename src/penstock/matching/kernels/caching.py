"""Where compiled kernels are kept: one decision, in one place.

Kernels are read from whichever of these folders has them, and written to the first that can be written to:

1. the folder that NUMBA_CACHE_DIR names, if it does;
2. beside the sources, where the installation can be written to;
3. the user's cache folder, `$XDG_CACHE_HOME` or `~/.cache`;
4. a temporary folder that nobody else can write to: workers of a cluster and containers often have no other.

A compiled kernel depends on its bytecode and types, on the sources of all kernels, on the versions of Python
and Numba, and on the processor. Numba compares all of these when it looks for one. The folder and the time of
the installation do not matter, so files may be copied from one machine to another.
"""

import hashlib
import os
import stat
import sys
import zlib
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile, gettempdir, mkdtemp
from typing import Any, Final

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile

_SOURCES: Final = Path(__file__).parent
_NO_KERNELS: Final = ("caching.py", "signatures.py")
"""What says nothing of how kernels are compiled."""


@cache
def digest() -> str:
    """What all kernels' sources amount to."""
    made = hashlib.sha256()
    for source in sorted(_SOURCES.glob("*.py")):
        if source.name not in _NO_KERNELS:
            made.update(source.read_bytes())
    return made.hexdigest()


_NAME: Final = f"penstock-kernels-{digest()[:16]}"
"""Versions that share a folder must not overwrite each other's kernels."""


@cache
def processor() -> tuple[str, ...]:
    """What Numba compiles for: the system, the processor's name and its features."""
    from numba.core.registry import cpu_target

    return tuple(map(str, cpu_target.target_context.codegen().magic_tuple()))


def build_name() -> str:
    """The name of the kernels that this process runs: other sources, versions and processors have another."""
    parts = digest(), numba.__version__, sys.implementation.cache_tag, *processor()
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:32]


@cache
def folder() -> Path | None:
    """The folder that kernels are written to; None where there is none."""
    found = next((place for place in _lasting() if _can_be_written(place)), None)
    if found is not None:
        return found
    own = _own_temporary_folder()
    return None if own is None else own / _NAME


@cache
def places() -> tuple[Path, ...]:
    """The folders that kernels are read from, the first of them first."""
    own = [place for place in (folder(), arrived()) if place is not None]
    return tuple(dict.fromkeys([*_lasting(), *own]))


def arrived() -> Path | None:
    """The folder for kernels that another machine has compiled, all of them; None where there is none.

    Not among those that are compiled here: it comes and goes as a whole.
    """
    written = folder()
    return None if written is None else written / f"arrived-{build_name()}"


def _lasting() -> list[Path]:
    """All places but the temporary one."""
    found = [_SOURCES / "__pycache__"]
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given:
        found.insert(0, Path(given) / _NAME)
    with suppress(RuntimeError):
        # A user that the system does not know, as containers have them, has no home.
        home = os.environ.get("XDG_CACHE_HOME")
        found.append((Path(home) if home else Path.home() / ".cache") / "penstock" / _NAME)
    return found


def _can_be_written(place: Path) -> bool:
    try:
        place.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=place):
            return True
    except OSError:
        return False


def _own_temporary_folder() -> Path | None:
    """A temporary folder of this user alone: what is kept there is run."""
    place = Path(gettempdir()) / f"penstock-kernels-{os.getuid()}"
    try:
        with suppress(FileExistsError):
            place.mkdir(mode=0o700)
        found = place.lstat()
        is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022
        return place if is_ours else Path(mkdtemp(prefix="penstock-kernels-"))
    except OSError:
        return None


# Numba's own types say nothing of these.
_FunctionCache: Any = FunctionCache
_File: Any = IndexDataCacheFile


class _Locator:
    """Tells Numba's cache where a kernel is kept, and what it depends on."""

    def __init__(self, line: int, file: str) -> None:
        self._line = line
        self._py_file = file

    @classmethod
    def from_function(cls, function: Any, file: str) -> "_Locator":
        """The locator of a function."""
        return cls(function.__code__.co_firstlineno, file)

    def ensure_cache_path(self) -> None:
        """Have the folder there."""
        Path(self.get_cache_path()).mkdir(parents=True, exist_ok=True)

    def get_cache_path(self) -> str:
        """The folder as text."""
        return str(folder() or _lasting()[0])

    def get_source_stamp(self) -> str:
        """The sources of all kernels: Numba by itself looks only at the file that a kernel is in."""
        return digest()

    def get_disambiguator(self) -> str:
        """What tells two kernels of one name apart."""
        return str(self._line)


class _Kept(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_Locator,)


class KernelCache(_FunctionCache):  # type: ignore[misc]
    """The cache of one kernel."""

    _impl_class = _Kept

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        base, stamp = self._impl.filename_base, self._impl.locator.get_source_stamp()
        elsewhere = [str(place) for place in places() if str(place) != self._cache_path]
        self._elsewhere = [_File(place, base, stamp) for place in elsewhere]

    def has(self, types: tuple[Any, ...], target: Any) -> bool:
        """Whether the kernel is kept, compiled for these types and this target."""
        return self.files(types, target) is not None

    def files(self, types: tuple[Any, ...], target: Any) -> tuple[Path, Path] | None:
        """The files that have the kernel for these types and this target: the index, and the code."""
        key = self._index_key(types, target.codegen())
        for file in (self._cache_file, *self._elsewhere):
            name = _index_of(file).get(key)
            if name is not None and (found := Path(file._data_path(name))).is_file():
                return Path(file._index_path), found
        return None

    def gather(self, types: tuple[Any, ...], target: Any) -> None:
        """Have the kernel in the folder that is written to, if it is kept elsewhere."""
        key = self._index_key(types, target.codegen())
        if key in _index_of(self._cache_file):
            return
        for file in self._elsewhere:
            with suppress(OSError):
                data = file.load(key)
                if data is not None:
                    self._cache_file.save(key, data)
                    return

    def has_any(self, target: Any) -> bool:
        """Whether the kernel is kept, compiled for this target and any types."""
        named = target.codegen().magic_tuple()
        files = (self._cache_file, *self._elsewhere)
        return any(key[1] == named for file in files for key in _index_of(file))

    def _load_overload(self, types: Any, target: Any) -> Any:
        found = super()._load_overload(types, target)
        if found is not None or not self._enabled:
            return found
        key = self._index_key(types, target.codegen())
        for file in self._elsewhere:
            with suppress(OSError):
                data = file.load(key)
                if data is not None:
                    return self._impl.rebuild(target, data)
        return None

    def _save_overload(self, types: Any, made: Any) -> None:
        # A disk that is full, or a folder that has gone, is no reason not to run what was compiled.
        with suppress(OSError):
            if folder() is not None:
                super()._save_overload(types, made)


def mark_of(file: Path) -> list[int] | None:
    """What tells that a file of the cache is the one it was; None where there is none.

    Its size, and for an index, which is small and says what it was compiled from, a checksum.
    """
    try:
        mark = [file.stat().st_size]
        return [*mark, zlib.crc32(file.read_bytes())] if file.suffix == ".nbi" else mark
    except OSError:
        return None


def _index_of(file: Any) -> dict[Any, str]:
    try:
        found: dict[Any, str] = file._load_index()
        return found
    except (OSError, EOFError, ValueError):
        return {}
