"""Folders that take the place of others: whole, and at once where the system can."""

import ctypes
import os
import secrets
import shutil
import sys
from pathlib import Path
from typing import Any, Final

_HERE: Final = -100
_EXCHANGE: Final = 2
"""Of Linux: paths are those of the process; both names change places."""


def new_folder(target: Path) -> Path:
    """A new folder beside a path. What it may be read by follows the umask, unlike a temporary folder."""
    folder = target.parent / f".{target.name}-{secrets.token_hex(8)}"
    folder.mkdir()
    return folder


def put_in_place(folder: Path, target: Path) -> None:
    """Have a folder take a place; what was there is removed. Who has mapped the old files keeps them."""
    sync(folder)
    if target.exists():
        if not _exchange(folder, target):
            old = target.parent / f"{folder.name}-old"
            target.rename(old)
            try:
                folder.rename(target)
            except BaseException:
                old.rename(target)
                raise
            folder = old
        shutil.rmtree(folder, ignore_errors=True)
    else:
        folder.rename(target)
    sync(target.parent)


def is_being_replaced(target: Path) -> bool:
    """Whether nothing stands in a place only because the old folder has gone and the new one is to come."""
    return any(target.parent.glob(f".{target.name}-*-old"))


def sync(folder: Path) -> None:
    """Have the names in a folder written to the disk, where that can be asked for."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two folders at once, so that there is always one; false where this cannot be done."""
    if not sys.platform.startswith("linux"):
        return False
    rename: Any = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    # Not every file system can, and what else is wrong the plain way will tell.
    return rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0  # type: ignore[no-any-return]
