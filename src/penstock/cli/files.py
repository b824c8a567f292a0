"""Files for the commands: opening, formats, places of mistakes, writing whole or not at all.

Every mistake is an InputError that names the file and the line, or in Parquet the row.
"""

import codecs
import gzip
import io
import os
import re
import secrets
import shlex
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, cast

import msgspec

from penstock.errors import InputError, PenstockError
from penstock.model.limits import ATTRIBUTES_MAX, TEXT_LENGTH_MAX

if TYPE_CHECKING:
    import pyarrow as pa

_FORMATS: Final = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
}

_GZIP: Final = ".gz"
"""The ending of files that are unpacked as they are read."""

_COMPRESSED: Final = {".bz2": "bzcat", ".xz": "xzcat", ".zst": "zstdcat"}
"""What unpacks files with other endings."""

_MISSING: Final = re.compile(r"Object missing required field `(\w+)`$")
_WRONG: Final = re.compile(r"Expected `object`, got `(\w+)`$")
_WRONG_FIELD: Final = re.compile(r"Expected `([\w |]+)`, got `(\w+)` - at `\$\.(\w+)`$")

Advance = Callable[[int], None]
"""Told how many bytes have been read since the last call."""


def display(path: str) -> str:
    """The file's name for messages."""
    return "standard input" if path == "-" else path


def format_of(path: str, given: str | None, flag: str) -> str:
    """The format of a file: as given, else by the name's ending, else for standard input JSON lines."""
    if given is not None:
        return given
    if path == "-":
        return "jsonl"
    if not tells_format(path):
        if not Path(path).exists():
            raise InputError(f"{path}: no such file or folder")
        if Path(path).suffix.lower() in _COMPRESSED:
            raise InputError(f"{path}: compressed files are not read: {_unpacking(path, flag)}")
        endings = ".jsonl, .csv or .parquet"
        raise InputError(f"{path}: the name does not tell the format: end it in {endings}, or give {flag}")
    kind = _FORMATS[_unpacked_name(path).suffix.lower()]
    if kind == "parquet" and _is_gzip(path):
        raise InputError(f"{path}: Parquet is compressed inside; unpack the file: gunzip {shlex.quote(path)}")
    return kind


def _is_gzip(path: str) -> bool:
    return Path(path).suffix.lower() == _GZIP


def _unpacked_name(path: str) -> Path:
    """What the file is called without the ending that says that it is compressed."""
    return Path(path).with_suffix("") if _is_gzip(path) else Path(path)


def _unpacking(path: str, flag: str) -> str:
    """The command that reads a compressed file by way of standard input."""
    inside = Path(path).with_suffix("")
    kind = _FORMATS.get(inside.suffix.lower(), "jsonl")
    said = "" if kind == "jsonl" else f" {flag} {kind}"
    unpack = _COMPRESSED[Path(path).suffix.lower()]
    return f"{unpack} {shlex.quote(path)} | penstock … {flag.removesuffix('-format')} -{said}"


def tells_format(path: str) -> bool:
    """Whether a file's name tells its format."""
    return _unpacked_name(path).suffix.lower() in _FORMATS


@contextmanager
def opened(path: str) -> Iterator[IO[bytes]]:
    """The file, or standard input for `-`; what is compressed is unpacked."""
    if path == "-":
        yield sys.stdin.buffer
        return
    with _open(path, "rb", path) as file:
        if not _is_gzip(path):
            yield file
            return
        with gzip.GzipFile(fileobj=file) as unpacked, _unpacking_told(path):
            yield cast("IO[bytes]", unpacked)


@contextmanager
def _unpacking_told(path: str) -> Iterator[None]:
    try:
        yield
    except EOFError:
        raise PlacedError(f"{path}: the compressed file is cut off") from None
    except (zlib.error, gzip.BadGzipFile) as error:
        raise PlacedError(f"{path}: not gzip, or damaged: {error}") from None


def _open(path: str, mode: str, what: str) -> IO[bytes]:
    """Open a file, or raise InputError that begins with `what` could not be opened."""
    try:
        return Path(path).open(mode)
    except OSError as error:
        raise InputError(f"{what}: {why(error)}") from None


def why(error: OSError) -> str:
    """What the system says of an error, as the end of a sentence."""
    return (error.strerror or str(error)).lower()


def size_of(path: str) -> int | None:
    """How many bytes are read from a file, where that is known."""
    try:
        return None if path == "-" or _is_gzip(path) else Path(path).stat().st_size
    except OSError:
        return None


class PlacedError(InputError):
    """An InputError that says where already; `message` is what it says besides, where that is known."""

    message: str | None = None


@contextmanager
def placed(place: str | Callable[[], str]) -> Iterator[None]:
    """Errors inside say where they happened, unless they do already."""
    try:
        yield
    except PlacedError:
        raise
    except (PenstockError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        where = place if isinstance(place, str) else place()
        message = _in_flags(_said(error))
        made = PlacedError(f"{where}: {message}")
        made.message = message
        raise made from None


def _said(error: Exception) -> str:
    """What an error says, in words about the file."""
    if isinstance(error, RecursionError):
        return "nested too deep"
    if isinstance(error, msgspec.ValidationError):
        return _said_of_fields(str(error))
    return str(error) if isinstance(error, PenstockError) else f"not a JSON object: {error}"


def _said_of_fields(message: str) -> str:
    """What msgspec says of an object that is JSON but not as expected."""
    if missing := _MISSING.match(message):
        return f"missing required field {missing[1]!r}"
    if wrong := _WRONG_FIELD.match(message):
        expected, got, name = wrong.groups()
        return f"{name!r} must be {expected.replace(' | ', ' or ')}, not {got}"
    if wrong := _WRONG.match(message):
        return f"not a JSON object, but of type {wrong[1]}"
    return f"not a JSON object as expected: {message}"


def _in_flags(message: str) -> str:
    """What the library says of its arguments, said of the program's flags."""
    return message.replace("unsupported='skip'", "--unsupported skip")


LINE_LENGTH_MAX: Final = 16 * TEXT_LENGTH_MAX
"""Bytes of a line. A file without line ends would otherwise be read whole before it is refused."""


def read_some(file: IO[bytes], path: str, size: int, *, at_once: bool = False) -> bytes:
    """Read so many bytes, or what is left; with `at_once`, no more than there are without waiting."""
    try:
        if at_once and isinstance(file, io.BufferedIOBase):
            return file.read1(size)
        return file.read(size)
    except gzip.BadGzipFile:
        raise
    except OSError as error:
        raise PlacedError(f"{display(path)}: {why(error)}") from None


def _line(file: IO[bytes], path: str) -> bytes:
    try:
        return file.readline(LINE_LENGTH_MAX + 1)
    except gzip.BadGzipFile:
        raise
    except OSError as error:
        raise PlacedError(f"{display(path)}: {why(error)}") from None


def lines(path: str, advance: Advance) -> Iterator[tuple[int, bytes]]:
    """Yield (number, line) for the lines that are not blank."""
    name = display(path)
    with opened(path) as file:
        number = 0
        while line := _line(file, path):
            number += 1
            if len(line) > LINE_LENGTH_MAX:
                raise PlacedError(f"{name}:{number}: a line is longer than {LINE_LENGTH_MAX:,} bytes")
            advance(len(line))
            content = line.removeprefix(codecs.BOM_UTF8).strip() if number == 1 else line.strip()
            if content:
                yield number, content


def parquet_batches(path: str, advance: Advance) -> "Iterator[pa.RecordBatch]":
    """Yield the batches of a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as papq

    with opened(path) as file:
        try:
            source = pa.BufferReader(file.read()) if path == "-" else file
            parquet = papq.ParquetFile(source)
            names = parquet.schema_arrow.names
            if len(names) > ATTRIBUTES_MAX:
                raise PlacedError(f"{display(path)}: more than {ATTRIBUTES_MAX:,} columns")
            size, rows = size_of(path) or 0, max(1, parquet.metadata.num_rows)
            for batch in parquet.iter_batches(batch_size=16_384):
                yield batch
                advance(size * batch.num_rows // rows)
        except (pa.ArrowException, OSError) as error:
            raise PlacedError(f"{display(path)}: not Parquet: {error}") from None


@contextmanager
def whole_output(
    path: str | None, *, line_buffered: bool = False
) -> Iterator[Callable[[bytes | memoryview], object]]:
    """Give a function that writes; what was written appears only if no error comes.

    A file is written beside its place and moved there at the end. Standard output is held back in a
    temporary file, unless it is to be line-buffered.
    """
    if path is None or path in ("-", "/dev/stdout") or not can_be_replaced(path):
        with _stream(path) as stream:
            if line_buffered:
                yield lambda line: (stream.write(line), stream.flush())
                return
            with tempfile.SpooledTemporaryFile(max_size=2**26) as held:
                yield held.write
                held.seek(0)
                shutil.copyfileobj(held, stream, 2**20)
        return
    with whole_file(path) as file:
        yield file.write


@contextmanager
def whole_file(path: str) -> Iterator[IO[bytes]]:
    """Give a file to write, which is moved to its place at the end if no error comes."""
    target = Path(path).resolve()
    beside = target.with_name(f".penstock-{secrets.token_hex(8)}.part")
    # The file is made within the try, or a signal that comes just then would leave it behind.
    try:
        with _made(path, target, beside) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.chmod(_mode_of(target))
        beside.replace(target)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, path) from None
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _made(path: str, target: Path, beside: Path) -> IO[bytes]:
    try:
        if target.is_dir():
            raise IsADirectoryError(21, "is a directory")
        # Nobody else reads it before it is whole, and has the permissions of what it replaces.
        return open(beside, "x+b", opener=lambda name, flags: os.open(name, flags, 0o600))
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {why(error)}") from None


def _mode_of(target: Path) -> int:
    """The permissions of the file to replace, or those that a new one gets."""
    if target.exists():
        return target.stat().st_mode & 0o777
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


def can_be_replaced(path: str) -> bool:
    """Whether a file can be moved to this place: not onto a device, a pipe or another process's file."""
    if path == "-" or path.startswith(("/dev/", "/proc/")):
        return False
    target = Path(path)
    return not target.exists() or target.is_file() or target.is_dir()


@contextmanager
def _stream(path: str | None) -> Iterator[IO[bytes]]:
    if path is None or path in ("-", "/dev/stdout"):
        yield sys.stdout.buffer
        return
    with _open(path, "ab", f"{path}: cannot be written") as stream:
        yield stream


def is_same_file(a: str | None, b: str) -> bool:
    """Whether both name the same file."""
    try:
        return a is not None and Path(a).samefile(b)
    except OSError:
        return False
