"""The schemes by name."""

from collections.abc import Callable
from functools import partial
from typing import Final

from penstock.errors import PenstockError
from penstock.modules import brought_along
from penstock.routing.schemes.covering import Covering, Lazy, Packing
from penstock.routing.schemes.flooding import Flooding
from penstock.routing.schemes.identity import Identity
from penstock.routing.schemes.merging import Merging
from penstock.routing.schemes.scheme import Scheme
from penstock.routing.schemes.simple import Simple

SCHEMES: Final[dict[str, Callable[[], Scheme]]] = {
    "flooding": Flooding,
    "simple": Simple,
    "identity": Identity,
    "covering": Covering,
    "lazy": Lazy,
    "packing": Packing,
    "merging": Merging,
    "imperfect": partial(Merging, budget=0.2),
}


def scheme_named(name: str) -> Callable[[], Scheme]:
    """What makes the schemes of this name; or those of a class of its own, as "package.module:NAME"."""
    if name in SCHEMES:
        return SCHEMES[name]
    if ":" not in name:
        raise PenstockError(f"no scheme {name!r}; there are {', '.join(SCHEMES)}")
    made: Callable[[], Scheme] = brought_along("scheme", name)
    return made
