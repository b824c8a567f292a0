"""A word to those who wait: the first run of an installation compiles the kernels."""

import sys
from functools import cache


@cache
def note_if_cold(*, matching: bool = True, packed: bool = False) -> None:
    """Say on standard error, once, that kernels will have to be compiled, where that is so.

    Looked at are one of the kernels that compile filters and, where there are events, the one that matches:
    they are among the last that a first run compiles. Where events are those of a network (`packed`), also
    the one that reads them. To be called when filters have been read well.
    """
    from penstock.matching.kernels.build_places import arrange
    from penstock.matching.kernels.jit import is_cached
    from penstock.matching.kernels.match import match
    from penstock.matching.kernels.packed_maps import read_events

    needed = [arrange] + [match] * matching + [read_events] * packed
    if not all(map(is_cached, needed)):
        sys.stderr.write(
            "penstock: note: compiling the kernels, which takes a minute or two; "
            "later runs find them on disk\n"
        )
        sys.stderr.flush()
