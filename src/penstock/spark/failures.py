"""Penstock's own errors, found again in what Spark makes of them."""

import re
from typing import Final

from penstock import errors
from penstock.errors import PenstockError

_NAMED: Final = re.compile(r"^\s*penstock\.errors\.(\w+): (.+?)\s*$", re.MULTILINE)


def own_error(error: BaseException) -> PenstockError | None:
    """The error of Penstock that is behind an error of Spark's, if there is one.

    Workers and Spark's threads hand errors on as text with a trace. There, an error stands at the beginning
    of a line, under its full name, and is one sentence.
    """
    if isinstance(error, PenstockError):
        return error
    found = _NAMED.search(str(error))
    if found is None:
        return None
    kind = getattr(errors, found[1], PenstockError)
    try:
        made = kind(found[2])
    except TypeError:
        # Some are made of more than their sentence.
        return PenstockError(found[2])
    return made if isinstance(made, PenstockError) else PenstockError(found[2])
