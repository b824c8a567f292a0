"""Where compiled kernels are kept in workers."""

import os
from functools import cache
from pathlib import Path
from tempfile import gettempdir, mkdtemp


@cache
def have_kernel_cache() -> None:
    """Have kernels cached somewhere, before the first is imported.

    Numba caches beside the source, else in the user's cache folder. Workers of a cluster often may write to
    neither, and then every import of a kernel fails: they share a temporary folder.
    """
    if "NUMBA_CACHE_DIR" in os.environ or any(map(_is_writeable, (_package(), _home()))):
        return
    user = os.getuid()
    folder = Path(gettempdir()) / f"penstock-kernels-{user}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != user or folder.is_symlink():
        # Somebody else's: what is cached there would be run.
        folder = Path(mkdtemp(prefix="penstock-kernels-"))
    # Numba reads the variable when it is imported, which is later.
    os.environ["NUMBA_CACHE_DIR"] = str(folder)


def _package() -> Path:
    import penstock

    return Path(penstock.__file__).parent / "matching" / "kernels"


def _home() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~").expanduser())


def _is_writeable(folder: Path) -> bool:
    return folder.is_dir() and os.access(folder, os.W_OK)
