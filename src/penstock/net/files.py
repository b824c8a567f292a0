"""Small files that a broker is told of."""

from pathlib import Path
from typing import Final

from penstock.errors import InputError, PenstockError
from penstock.model.schema import Schema

_SECRET_BYTES_MIN: Final = 16
_SECRET_BYTES_MAX: Final = 4_096


def read_schema(path: str) -> Schema:
    """The JSON Schema in a file."""
    try:
        return Schema.from_json(Path(path).read_bytes())
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except PenstockError as error:
        raise InputError(f"{path}: {error}") from None


def read_secret(path: str) -> str:
    """The secret in a file, without white space around it."""
    try:
        text = Path(path).read_text("utf-8").strip()
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: a secret is text in UTF-8") from None
    if not _SECRET_BYTES_MIN <= len(text.encode()) <= _SECRET_BYTES_MAX:
        raise InputError(
            f"{path}: a secret has {_SECRET_BYTES_MIN} to {_SECRET_BYTES_MAX:,} bytes; "
            "penstock token --new-secret FILE makes one"
        )
    return text
