"""What clients may have missed is told once for all that is found out at a time."""

from collections.abc import Callable
from typing import cast

from penstock.broker.effects import Missed
from penstock.node.links import Link
from penstock.node.runtime import Runtime
from penstock.node.telling import Telling
from penstock.wire.sessions import Session


class Told:
    """In place of a runtime: what each client was told."""

    def __init__(self) -> None:
        self.notices: list[tuple[str, str, int]] = []

    def notify(self, link: Link, kind: str, text: str, count: int) -> None:
        assert kind == "missed"
        self.notices.append((link.peer, text, count))


def link(name: str) -> Link:
    return Link(name, "s", Session(2**20), True, name)


def told(gather: Callable[[Telling, Link, Link], None]) -> list[tuple[str, str, int]]:
    runtime = Told()
    telling = Telling(cast(Runtime, runtime))
    gather(telling, link("c"), link("d"))
    assert runtime.notices == []
    telling.tell_all()
    telling.tell_all()
    return runtime.notices


def test_numbers_are_added_up_and_each_client_is_told_once() -> None:
    def gather(telling: Telling, c: Link, d: Link) -> None:
        for link, count in ((c, 2), (d, 1), (c, 3)):
            telling.gather(link, Missed(link.name, count))

    assert told(gather) == [
        ("c", "up to 5 events may have been missed: no longer kept", 5),
        ("d", "up to 1 event may have been missed: no longer kept", 1),
    ]


def test_with_a_number_that_nobody_knows_nobody_knows_how_many_it_is() -> None:
    def gather(telling: Telling, c: Link, _d: Link) -> None:
        telling.gather(c, Missed("c", 2))
        telling.gather(c, Missed("c", 0, "unreachable"))

    text = "events may have been missed: the broker that kept them cannot be reached"
    assert told(gather) == [("c", text, 0)]


def test_who_is_gone_is_told_nothing() -> None:
    def gather(telling: Telling, c: Link, _d: Link) -> None:
        telling.gather(c, Missed("c", 2))
        telling.forget(c)

    assert told(gather) == []
