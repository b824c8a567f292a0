"""Where compiled kernels are kept in workers."""

import os
import stat
from contextlib import suppress
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
    folder = Path(gettempdir()) / f"penstock-kernels-{os.getuid()}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if not _is_ours(folder):
        folder = Path(mkdtemp(prefix="penstock-kernels-"))
    # Numba reads the variable when it is imported, which is later.
    os.environ["NUMBA_CACHE_DIR"] = str(folder)


def _package() -> Path:
    import penstock

    return Path(penstock.__file__).parent / "matching" / "kernels"


def _home() -> Path:
    # A user that the system does not know, as containers have them, has none: this stays as it is then.
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~"))  # noqa: PTH111


def _is_ours(folder: Path) -> bool:
    """Whether nobody else can write to it: what is cached there is run."""
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022


def _is_writeable(folder: Path) -> bool:
    return folder.is_dir() and os.access(folder, os.W_OK)
