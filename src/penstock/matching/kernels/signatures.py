"""The types that each kernel is compiled for, written down.

Kernels are called with arrays of the same types always (see `jit`). So they can be compiled before anything
calls them, one by one and in several processes. `signatures.txt` has a line for each kernel; a test holds it
against what kernels are called with, and `python -m penstock.matching.kernels.signatures` writes it anew.
"""

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numba

from penstock.matching.kernels.jit import is_cached

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
    return [line for line in recorded() if not is_cached(_kernel(line[0]))]


def compile_line(line: tuple[str, str]) -> str:
    """Compile a kernel for arguments of these types; return its name."""
    name, types = line
    _kernel(name).compile(tuple(_type_of(one) for one in _split(types)))
    return name


def _kernel(name: str) -> Any:
    module, _colon, key = name.partition(":")
    return getattr(importlib.import_module(module), key)


# Types as text


def text_of(given: Any) -> str:
    """A type of Numba as text: `int64`, `uint8[:]`, or `module:Class(types of its fields)`."""
    if isinstance(given, numba.types.Array):
        return f"{given.dtype}[{','.join(':' * given.ndim)}]"
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
        return numba.types.Array(getattr(numba.types, name), axes.count(":"), "C")
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
