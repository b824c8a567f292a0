"""A word to those whose process is the first of an installation: kernels are being compiled."""

from penstock.matching.arrival import INTERPRETING, KERNELS, WAITING, tell


def wait_for_kernels() -> None:
    """Have all kernels on disk; where that takes a while, say so on standard error, terminal or not.

    For what is measured, and what cannot do without. To be called when filters have been read well.
    """
    if not KERNELS.look():
        tell(WAITING, aloud=True)
        KERNELS.wait()


def note_if_interpreting() -> None:
    """Say on a terminal, once, that kernels are compiled while the interpreter answers."""
    if KERNELS.is_interpreting():
        tell(INTERPRETING)
