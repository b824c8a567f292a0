"""What users bring along: objects in modules of their own, named as in "package.module:NAME"."""

import sys
from importlib import import_module
from typing import Any

from penstock.errors import PenstockError


def brought_along(what: str, name: str) -> Any:
    """The object of this name; `what` it is to be is for errors. Raises PenstockError.

    Modules in the folder where the program was started are found too, as by `python -m`.
    """
    if "" not in sys.path:
        sys.path.append("")
    module, _, attribute = name.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except KeyboardInterrupt:
        raise
    except (ImportError, AttributeError) as error:
        raise PenstockError(f"no {what} {name!r:.80}: {error}") from None
    except BaseException as error:
        # Whatever somebody's module does, its user wants to know where.
        said = f"{type(error).__name__}: {error}"
        raise PenstockError(f"no {what} {name!r:.80}: the module raises {said}") from error
