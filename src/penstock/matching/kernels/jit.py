"""How every kernel is compiled: one decision, in one place.

- Compiled at first use and cached on disk (`caching` says where), so that only the first process of an
  installation compiles.
- The GIL is released: threads match in parallel, and changes go on while a batch is matched.
- No Numba thread pool is ever started, so kernels are safe in forked workers.
- Arrays are C-contiguous and writeable. Numba compiles anew for read-only arrays; to stay
  with one compiled version, files are mapped copy-on-write (writeable, the file never changes), and Arrow
  buffers are copied where they are laid end to end anyway.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import numba
import numpy as np
from numba.core.options import DefaultOptions

from penstock.matching.kernels.caching import KernelCache

Function = TypeVar("Function", bound=Callable[..., Any])

ZERO: Final = cast(int, np.int64(0))
"""Where a variable begins that is given to a function compiled apart, and comes back changed.

A plain 0 is a type of its own to Numba, which compiled the largest functions twice: once for nothing.
"""


def kernel(function: Function) -> Function:
    """Compile a function over arrays and scalars; call it only with those."""
    compiled: Any = numba.njit(nogil=True, error_model="numpy")(function)
    compiled._cache = KernelCache(function)
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
