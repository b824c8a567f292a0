"""Folders of streams: which of them plain files can be written to, whole or not at all.

A path without a scheme, or with `file:`, is a folder that the driver sees, and never one of the file system
that the cluster has as its default: what is written with plain files and what Spark writes have to meet.
"""

import os
import re
import secrets
from os import PathLike
from pathlib import Path
from typing import Final

from penstock.matching.folders import sync

_REMOTE: Final = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]+:/")
_FILE: Final = re.compile(r"file:/+")


def local_folder(given: str | PathLike[str]) -> Path | None:
    """The folder, if plain files can be written there; None if only Spark gets at it (s3a://, hdfs:// …)."""
    text = os.fspath(given)
    if _REMOTE.match(text):
        return None
    return Path(_FILE.sub("/", text, count=1) if _FILE.match(text) else text).absolute()


def for_spark(folder: Path) -> str:
    """The name that Spark knows a folder of this machine by."""
    # Not as_uri(): Spark takes a %20 as it stands.
    return f"file://{folder}"


def write_whole(file: Path, data: bytes) -> None:
    """Write a file that is there with all its content, and on the disk, or not at all."""
    beside = file.with_name(f".{file.name}-{secrets.token_hex(8)}")
    try:
        with beside.open("xb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        beside.replace(file)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync(file.parent)


def flush_files(folder: Path) -> None:
    """Have all files below a folder on the disk: Spark leaves that to the system."""
    for file in folder.rglob("*"):
        if file.is_file():
            handle = os.open(file, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
