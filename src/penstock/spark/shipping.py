"""How workers get at a table: they map its folder, or it is sent to them and they map a copy."""

import io
import os
import shutil
import tarfile
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

from penstock.errors import InputError
from penstock.model.places import Place
from penstock.spark.tables import MANIFEST, MATCHER, Table


class Mapped(NamedTuple):
    """A table in a folder that all workers have."""

    path: str
    blocks: tuple[str, ...]
    key: str
    """What tells this table from others, also from one that was in the same folder before."""
    times: frozenset[Place] = frozenset()
    """The attributes whose texts are read as times."""

    def folders(self) -> list[Path]:
        """The folders of its blocks."""
        found = [Path(self.path) / block for block in self.blocks]
        for folder in found:
            if not folder.is_dir():
                raise InputError(
                    f"{folder}: this worker does not see the table's folder: put it where all workers have "
                    "it, or give share='broadcast'"
                )
        return found


class Shipped(NamedTuple):
    """A table that is sent to workers, of which the first on each machine lays it out in a folder."""

    key: str
    broadcast: Any
    """Spark's broadcast of the packed table."""
    blocks: tuple[str, ...]
    times: frozenset[Place] = frozenset()
    """The attributes whose texts are read as times."""

    def folders(self) -> list[Path]:
        """The folders of its blocks, on this machine."""
        home = _home() / f"penstock-table-{self.key}"
        if not home.is_dir():
            unpack(self.broadcast.value, home)
        return [home / block for block in self.blocks]


Where = Mapped | Shipped


def mapped(table: Table) -> Mapped:
    """The table as workers find it in its folder."""
    # Versions never change, but folders can be removed and written anew while workers keep what they mapped.
    try:
        written = (Path(table.path) / (MATCHER if table.version is None else MANIFEST)).stat()
    except OSError as error:
        raise InputError(
            f"{table.path}: the table is gone: {(error.strerror or str(error)).lower()}"
        ) from None
    key = f"{table.path}@{written.st_ino}-{written.st_mtime_ns}"
    return Mapped(table.path, tuple(block.folder for block in table.blocks), key, table.times)


def pack(table: Table) -> bytes:
    """The blocks of a table as one piece."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as packed:
        for number, folder in enumerate(table.folders):
            packed.add(folder, arcname=block_name(number))
    return out.getvalue()


def block_name(number: int) -> str:
    """The name of a block's folder."""
    return f"block-{number:05}"


def unpack(data: bytes, home: Path) -> None:
    """Lay a packed table out in a folder, which is there whole or not at all: others may do the same."""
    folder = Path(mkdtemp(prefix=f".{home.name}-", dir=home.parent))
    try:
        with tarfile.open(fileobj=io.BytesIO(data)) as packed:
            packed.extractall(folder, filter="data")
        folder.rename(home)
    except OSError:
        if not home.is_dir():
            raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _home() -> Path:
    """A folder that Spark removes with the application; several workers of a machine share it."""
    from pyspark import SparkFiles

    try:
        return Path(SparkFiles.getRootDirectory())
    except Exception:
        return Path(os.environ.get("TMPDIR") or "/tmp")  # noqa: S108 - only where Spark has no folder
