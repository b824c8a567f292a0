"""The collector of a broker looks at what is new, and now and then at everything."""

import gc
from collections.abc import Callable, Iterator
from weakref import ref

import pytest

from penstock.net import collecting
from penstock.net.collecting import collecting_what_is_new


class Thing:
    """May refer to itself."""

    me: "Thing | None" = None


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Callable[[], None]]]:
    """What is to be called soon."""
    monkeypatch.setattr(collecting, "MORE", 1_000)
    called: list[Callable[[], None]] = []
    with collecting_what_is_new(called.append):
        yield called
    assert gc.get_freeze_count() == 0


def test_what_has_survived_a_full_collection_is_not_looked_at_again(soon: list[Callable[[], None]]) -> None:
    before = gc.get_freeze_count()
    kept = [[number] for number in range(500)]
    gc.collect()
    assert gc.get_freeze_count() >= before + len(kept)
    assert soon == []


def test_what_is_new_is_collected_and_what_was_set_aside_when_it_has_doubled(
    soon: list[Callable[[], None]],
) -> None:
    circle = Thing()
    gone = ref(circle)
    circle.me = circle
    gc.collect()
    del circle
    gc.collect()
    assert gone() is not None
    new = Thing()
    new_gone, new.me = ref(new), new
    del new
    gc.collect()
    assert new_gone() is None
    many = [[number] for number in range(gc.get_freeze_count() + 2_000)]
    gc.collect()
    # Once, however many collections there are until then.
    del many[:10]
    gc.collect()
    assert len(soon) == 1
    soon.pop()()
    assert gone() is None
    gc.collect()
    assert soon == []
