"""Kernels that travel: the driver has Spark send what it has compiled to all machines of a cluster.

A file with all kernels goes out with the tasks of an application. Its name says what they were compiled
from and for: the sources, the versions of Python and Numba, the processor and its features (`build_name`).
A worker without kernels looks for a file of the name that its own would have. It lays the content down in a
folder that is there whole or not at all. Any other worker finds no such file, and compiles as it would have.
"""

import shutil
import tarfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from penstock.matching.arrival import KERNELS
from penstock.spark.shipping import unpack

_sent: Final[set[str]] = set()
"""Applications whose workers have been sent the kernels."""


def send(context: Any) -> None:
    """Have the kernels of this process go out with the tasks of an application, if they are all here."""
    if context.applicationId in _sent or not KERNELS.look():
        return
    _sent.add(context.applicationId)
    # Spark serves this very file for as long as the application runs: it lies where Spark's own lie.
    file = pack(Path(context._temp_dir))
    if file is not None:
        context.addFile(str(file))


def pack(folder: Path) -> Path | None:
    """Write all kernels into a file in a folder; None where no one folder has them."""
    from penstock.matching.kernels import signatures

    found = signatures.noted()
    if found is None:
        return None
    home, names = found
    file = folder / file_name()
    with tarfile.open(file, "w:gz", compresslevel=1) as packed:
        for name in names:
            packed.add(home / name, arcname=name)
    return file


def file_name() -> str:
    """The name of the file with the kernels that this process would run."""
    from penstock.matching.kernels import signatures

    return f"{signatures.note_name()}.tgz"


def expect() -> None:
    """In a worker: look for kernels that were sent before any are compiled."""
    KERNELS.bring = _bring


def _bring() -> None:
    from pyspark import SparkFiles

    # Without them it goes on as on any machine.
    with suppress(Exception):
        lay_down(Path(SparkFiles.getRootDirectory()) / file_name())


def lay_down(file: Path) -> None:
    """Lay the kernels of a file down where this process finds them, if it has none and there is a file."""
    from penstock.matching.kernels import caching, signatures

    home = caching.arrived()
    if home is None or not file.is_file() or signatures.is_noted():
        return
    if home.is_dir():
        # Not whole any more, or there would be a note.
        shutil.rmtree(home, ignore_errors=True)
    unpack(file.read_bytes(), home)
