"""How every kernel is compiled: one decision, in one place.

- Compiled at first use and cached on disk beside the source (or, where that folder cannot be written, in
  the user's cache folder, by Numba's own rule), so that only the first process of an installation compiles.
- The GIL is released: threads match in parallel, and changes go on while a batch is matched.
- No Numba thread pool is ever started, so kernels are safe in forked workers.
- Arrays are C-contiguous and writeable. Numba compiles anew for read-only arrays; to stay
  with one compiled version, files are mapped copy-on-write (writeable, the file never changes), and Arrow
  buffers are copied where they are laid end to end anyway.
"""

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numba
import numpy as np
from numba.core.options import DefaultOptions

Function = TypeVar("Function", bound=Callable[..., Any])

ZERO: Final = cast(int, np.int64(0))
"""Where a variable begins that is given to a function compiled apart, and comes back changed.

A plain 0 is a type of its own to Numba, which compiled the largest functions twice: once for nothing.
"""


def kernel(function: Function) -> Function:
    """Compile a function over arrays and scalars; call it only with those."""
    compiled = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    _stamp(compiled)
    return cast(Function, compiled)


def inlined(function: Function) -> Function:
    """For a small function that kernels call: written out in each of them, so that a call costs nothing."""
    compiled = numba.njit(nogil=True, error_model="numpy", inline="always")(function)
    return cast(Function, compiled)


def outlined(function: Function) -> Function:
    """For a larger function that kernels call; compiled with each of them."""
    compiled = numba.njit(nogil=True, error_model="numpy")(function)
    return cast(Function, compiled)


def leaf(function: Function) -> Function:
    """For a function that kernels call in their loops, and that allocates nothing.

    Numba counts references to arrays wherever one gets another name or a branch ends its use, which in a hot
    loop costs more than the work. A function that owns no memory can do without. The option that says so is
    private to Numba: where it is no more, references are counted.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    if hasattr(DefaultOptions, "_nrt"):
        options["_nrt"] = False
    compiled = numba.njit(**options)(function)
    return cast(Function, compiled)


def direct(compiled: Function) -> Function:
    """What a kernel's dispatcher calls: for one event, it takes as long as the kernel to look at all types.

    Nothing looks at them then, so this is only for callers whose arrays have the same types always. A kernel
    that is not compiled yet, or has been for several sets of types, is returned as it is.
    """
    if len(getattr(compiled, "overloads", ())) != 1:
        return compiled
    found = _DIRECT.get(compiled)
    if found is None:
        ((_types, made),) = compiled.overloads.items()  # type: ignore[attr-defined]
        found = _DIRECT[compiled] = made.entry_point
    return cast(Function, found)


_DIRECT: Final[dict[Any, Any]] = {}
"""What `direct` has found: looking it up by types takes long."""


def is_cached(compiled: Callable[..., Any]) -> bool:
    """Whether a kernel need not be compiled: a version of it for this processor is on disk.

    Where Numba does not tell, as if it were: this is for a note to those who wait, and decides nothing.
    """
    try:
        known = compiled._cache._cache_file._load_index()  # type: ignore[attr-defined]
        target = compiled.targetctx.codegen().magic_tuple()  # type: ignore[attr-defined]
        return any(key[1] == target for key in known)
    except Exception:
        return True


@cache
def _digest() -> str:
    """What all kernels' sources amount to."""
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def _stamp(compiled: Any) -> None:
    """Make the cache depend on all kernels' sources.

    Numba looks only at the file of the kernel itself, and would go on using a kernel whose helpers, in
    another file, have changed. Its attribute is private: where it is no more, its own rule holds.
    """
    cache_file = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if cache_file is not None and hasattr(cache_file, "_source_stamp"):
        cache_file._source_stamp = (*_as_tuple(cache_file._source_stamp), _digest())


def _as_tuple(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else (value,)
