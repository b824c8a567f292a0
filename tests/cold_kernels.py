"""As if there were no compiled kernels, and none came."""

import pytest

from penstock.matching.arrival import KERNELS


class Cold:
    """Inside, there are no kernels and none come; outside, they are there."""

    def __enter__(self) -> None:
        self._patch = pytest.MonkeyPatch()
        self._patch.setattr(KERNELS, "_always_wait", False)
        self._patch.setattr(KERNELS, "are_here", False)
        self._patch.setattr(KERNELS, "_looked", True)
        self._patch.setattr(KERNELS, "_has_begun", True)

    def __exit__(self, *_raised: object) -> None:
        self._patch.undo()
