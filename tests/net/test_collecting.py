"""The collector of a broker looks at what is new, and now and then at everything."""

import gc
import sys
from collections.abc import Callable, Iterator
from weakref import ref

import pytest

from penstock.net import collecting
from penstock.net.collecting import collecting_what_is_new


class Thing:
    """May refer to itself."""

    me: "Thing | None" = None


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Callable[[], object]]]:
    """What is to be called soon."""
    monkeypatch.setattr(collecting, "MORE", 1_000)
    monkeypatch.setattr(collecting, "YOUNG_MAX", 10**9)
    called: list[Callable[[], object]] = []
    with collecting_what_is_new(called.append):
        yield called
    assert gc.get_freeze_count() == 0


def test_what_has_survived_a_full_collection_is_not_looked_at_again(soon: list[Callable[[], object]]) -> None:
    before = gc.get_freeze_count()
    kept = [[number] for number in range(500)]
    gc.collect()
    assert gc.get_freeze_count() >= before + len(kept)
    assert soon == []


def test_what_is_new_is_collected_and_what_was_set_aside_when_it_has_doubled(
    soon: list[Callable[[], object]],
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
    many = [[number] for number in range(sys.getallocatedblocks() + 2_000)]
    gc.collect()
    # Once, however many collections there are until then.
    del many[:10]
    gc.collect()
    assert len(soon) == 1
    soon.pop()()
    assert gone() is None
    gc.collect()
    assert soon == []


def test_full_collections_come_soon_so_that_each_has_little_to_look_at(
    soon: list[Callable[[], object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    gc.collect()
    monkeypatch.setattr(collecting, "YOUNG_MAX", 8)
    kept = []
    while not soon:
        kept.append([0])
    assert soon == [gc.collect]
    first, step = len(kept), gc.get_threshold()[0] * (gc.get_threshold()[1] + 1)
    assert first <= (collecting.YOUNG_MAX + 2) * step
    before = gc.get_freeze_count()
    soon.pop()()
    assert gc.get_freeze_count() >= before + first
    while not soon:
        kept.append([0])
