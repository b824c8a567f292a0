"""Values as lines of JSON that a terminal shows and does not obey."""

import re
from typing import Final

import msgspec

_encode: Final = msgspec.json.Encoder().encode

_CONTROL: Final = re.compile(rb"\x7f|\xc2[\x80-\x9f]")
"""DEL and U+0080 to U+009F in UTF-8. JSON escapes what is below U+0020, and leaves these as they are."""


def json_line(value: object) -> bytes:
    """A value as one line, without any control character but the line's end."""
    return _CONTROL.sub(_escaped, _encode(value)) + b"\n"


def _escaped(found: "re.Match[bytes]") -> bytes:
    return b"\\u00%02x" % found[0][-1]
