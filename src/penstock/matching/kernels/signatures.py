"""The types that each kernel is compiled for, written down.

Kernels are called with arrays of the same types always (see `jit`). So they can be compiled before anything
calls them, one by one and in several processes. `signatures.txt` has a line for each kernel; a test holds it
against what kernels are called with, and `python -m penstock.matching.kernels.signatures` writes it anew.
"""

import hashlib
import importlib
import os
import pkgutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
import numba

from penstock.matching.kernels.caching import build_name, folder, mark_of, places

_FILE: Final = Path(__file__).with_name("signatures.txt")


def kernels() -> dict[str, Any]:
    """All kernels that are cached on disk, by module and name."""
    package = importlib.import_module(__package__ or "")
    modules = [f"{package.__name__}.{found.name}" for found in pkgutil.iter_modules(package.__path__)]
    return {
        f"{name}:{key}": value
        for name in modules
        if name != __name__
        for key, value in vars(importlib.import_module(name)).items()
        if _is_kernel(value) and value.py_func.__module__ == name
    }


def _is_kernel(value: object) -> bool:
    # What only kernels call is compiled with them.
    return hasattr(value, "py_func") and hasattr(getattr(value, "_cache", None), "_cache_file")


def recorded() -> list[tuple[str, str]]:
    """Kernels, and the types of the arguments of each; what takes longest to compile first."""
    lines = _FILE.read_text().splitlines()
    return [(name, types) for name, _space, types in (line.partition(" ") for line in lines)]


def missing() -> list[tuple[str, str]]:
    """Those of the recorded ones that are not on disk for this processor."""
    return [line for line in recorded() if not _is_kept(line)]


def _is_kept(line: tuple[str, str]) -> bool:
    kernel = _kernel(line[0])
    return bool(kernel._cache.has(_types_of(line), kernel.targetctx))


def are_complete() -> bool:
    """Whether all are on disk for this processor. Looked at once: then a note says so, beside them."""
    return is_noted() or (not missing() and note_completeness())


def is_noted() -> bool:
    """Whether a note says that all are there, and its files are as it says. Imports no kernel."""
    return noted() is not None


def noted() -> tuple[Path, list[str]] | None:
    """The folder that has all kernels, and the names of their files; None where there is no such folder."""
    for place in places():
        try:
            files = msgspec.json.decode((place / note_name()).read_bytes(), type=dict[str, list[int]])
        except (OSError, msgspec.DecodeError):
            continue
        if files and all(mark_of(place / name) == mark for name, mark in files.items()):
            return place, [*files, note_name()]
    return None


def note_completeness() -> bool:
    """Write the note that all are there, and have them in one folder for that; true always."""
    files = _files()
    if len({file.parent for file in files}) > 1 and folder() is not None:
        for line in recorded():
            kernel = _kernel(line[0])
            kernel._cache.gather(_types_of(line), kernel.targetctx)
        files = _files()
    homes = {file.parent for file in files}
    if len(homes) == 1:
        (home,) = homes
        note, beside = {file.name: mark_of(file) for file in files}, home / f".{note_name()}-{os.getpid()}"
        with suppress(OSError):
            beside.write_bytes(msgspec.json.encode(note))
            beside.replace(home / note_name())
    return True


def _files() -> list[Path]:
    """The files that have all kernels; none where one is missing."""
    found = [
        _kernel(line[0])._cache.files(_types_of(line), _kernel(line[0]).targetctx) for line in recorded()
    ]
    return [] if None in found else sorted({file for pair in found if pair is not None for file in pair})


def note_name() -> str:
    """The name of the note that all are there, which is theirs: other kernels have another."""
    lines = hashlib.sha256(_FILE.read_bytes()).hexdigest()
    return f"penstock-{build_name()}-{lines[:16]}.complete"


def load_all(is_wanted: Callable[[], bool] = lambda: True) -> None:
    """Have all kernels loaded, or compiled where they are not on disk, as long as somebody wants them."""
    for line in recorded():
        if not is_wanted():
            return
        compile_line(line)


def compile_line(line: tuple[str, str]) -> str:
    """Compile a kernel for arguments of these types; return its name."""
    name, _types = line
    _kernel(name).compile(_types_of(line))
    return name


def _types_of(line: tuple[str, str]) -> tuple[Any, ...]:
    return tuple(_type_of(one) for one in _split(line[1]))


def _kernel(name: str) -> Any:
    module, _colon, key = name.partition(":")
    return getattr(importlib.import_module(module), key)


# Types as text


def text_of(given: Any) -> str:
    """A type of Numba as text: `int64`, `uint8[:]`, or `module:Class(types of its fields)`.

    An array that cannot be written to is another type, and has `const` before it.
    """
    if isinstance(given, numba.types.Array):
        return f"{'' if given.mutable else 'const '}{given.dtype}[{','.join(':' * given.ndim)}]"
    if isinstance(given, numba.types.NamedTuple):
        made = given.instance_class
        return f"{made.__module__}:{made.__qualname__}({', '.join(map(text_of, given.types))})"
    return str(given)


def _type_of(text: str) -> Any:
    if text.endswith(")"):
        name, _bracket, fields = text[:-1].partition("(")
        module, _colon, key = name.partition(":")
        made = getattr(importlib.import_module(module), key)
        return numba.types.NamedTuple([_type_of(one) for one in _split(fields)], made)  # type: ignore[no-untyped-call]
    if text.endswith("]"):
        name, _bracket, axes = text[:-1].partition("[")
        plain = name.removeprefix("const ")
        return numba.types.Array(getattr(numba.types, plain), axes.count(":"), "C", readonly=plain != name)
    return numba.types.boolean if text == "bool" else getattr(numba.types, text)


def _split(text: str) -> Iterator[str]:
    """Texts between commas that are in no brackets."""
    depth, begin = 0, 0
    for at, character in enumerate(text):
        depth += (character in "([") - (character in ")]")
        if character == "," and not depth:
            yield text[begin:at]
            begin = at + 2
    if text:
        yield text[begin:]


def called_with() -> dict[str, set[str]]:
    """What kernels have been called with in this process."""
    return {
        name: {", ".join(map(text_of, types)) for types in kernel.signatures}
        for name, kernel in kernels().items()
    }


def _write() -> None:
    """Call all kernels, and write down their types."""
    from penstock.matching.warming import warm_all

    warm_all(lambda _what: None)
    found = [(name, types) for name, all_types in called_with().items() for types in sorted(all_types)]
    before = {line: at for at, line in enumerate(recorded())} if _FILE.exists() else {}
    found.sort(key=lambda line: before.get(line, len(before)))
    _FILE.write_text("".join(f"{name} {types}\n" for name, types in found))


if __name__ == "__main__":
    _write()
