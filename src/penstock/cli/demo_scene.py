"""Where the demo's network part plays: the overlay, who publishes at it, and who subscribes.

The overlay is a wheel: a circle of brokers, and one in the middle that all of them are linked to. Most ways
lead through the middle, and without it there is still a way from everybody to everybody.
"""

from typing import TYPE_CHECKING, Final

import msgspec

from penstock.errors import InputError
from penstock.filters.parsing import parse
from penstock.model.arrow import events_from_arrow
from penstock.model.events import Event
from penstock.workloads.flights import subscriptions

if TYPE_CHECKING:
    import pyarrow as pa

BROKERS_MIN: Final = 5
BROKERS_MAX: Final = 20
"""So many processes start in bearable time."""

ROW: Final = "row"
"""An attribute by which a flight is known again."""

_HOMES: Final = 3
"""Brokers that a client knows: one to talk to, and others to go to when that one is gone."""

_RIM: Final = (
    "radio-epic-delays", "jfk-long-delays", "ewr-morning-rush", "deice-winter-mornings", "cancelled-all",
    "research-late-arrivals",
)  # fmt: skip
_MIDDLE: Final = ("delta-all", "united-hub-misconnects")
"""Subscriptions of those at the rim, and of those who talk to the broker that is killed."""

_PICTURE: Final = """\
        b1 ─── b2
       /  \\   /  \\
     b6 ─── b7 ─── b3
       \\  /   \\  /
        b5 ─── b4
"""


class Client(msgspec.Struct, frozen=True):
    """Somebody who publishes or subscribes."""

    name: str
    filter: str
    """What it publishes, or what it wants."""
    homes: tuple[int, ...]
    """The brokers that it may talk to, the first one first."""


class Scene(msgspec.Struct, frozen=True):
    """An overlay with its clients."""

    brokers: int
    links: list[tuple[int, int]]
    """Who connects to whom."""
    publishers: list[Client]
    subscribers: list[Client]
    pipeline: tuple[int, ...]
    """The brokers that the pipeline may talk to, the first one first."""

    @property
    def victim(self) -> int:
        """The broker in the middle, which is killed."""
        return self.brokers - 1

    def degree(self, broker: int) -> int:
        """How many links a broker has."""
        return sum(broker in link for link in self.links)

    def picture(self) -> str:
        """The overlay, drawn; or in words, where it is not the one that somebody has drawn."""
        if self.brokers == 7:
            return _PICTURE
        rim = " ─ ".join(name(broker) for broker in range(self.victim))
        return f"  {rim} ─ b1, and {name(self.victim)} in the middle, linked to all of them\n"


def name(broker: int) -> str:
    """What a broker is called."""
    return f"b{broker + 1}"


def make_scene(brokers: int) -> Scene:
    """A wheel of so many brokers, and clients all over it."""
    if not BROKERS_MIN <= brokers <= BROKERS_MAX:
        raise InputError(f"--brokers: {brokers} are no wheel; say {BROKERS_MIN} to {BROKERS_MAX}")
    rim, middle = brokers - 1, brokers - 1
    links = [(broker, broker - 1) for broker in range(1, rim)] + [(rim - 1, 0)]
    links += [(middle, broker) for broker in range(rim)]
    known = {one.id: one for one in subscriptions()}
    homes = [_homes(at * rim // len(_RIM), rim) for at in range(len(_RIM))]
    homes += [(middle, *_homes(rim // 2 + 2 * at, rim)[: _HOMES - 1]) for at in range(len(_MIDDLE))]
    wanted = [known[one] for one in (*_RIM, *_MIDDLE)]
    return Scene(
        brokers,
        links,
        [
            Client("Kennedy and LaGuardia", "origin in ('JFK', 'LGA')", _homes(0, rim)),
            Client("Newark", "origin = 'EWR'", _homes(rim // 2, rim)),
        ],
        [Client(one.subscriber, one.filter, at) for one, at in zip(wanted, homes, strict=True)],
        _homes(1, rim),
    )


def _homes(first: int, rim: int) -> tuple[int, ...]:
    return tuple((first + step) % rim for step in range(_HOMES))


class Flights:
    """What is published, by whom, and who must get it: found by trying every filter on every flight."""

    def __init__(self, scene: Scene, table: "pa.Table") -> None:
        self.events = [
            Event({**event, ROW: row}) for row, event in enumerate(events_from_arrow(table)) if event
        ]
        offers = [parse(one.filter) for one in scene.publishers]
        self.publisher = [
            next(at for at, offer in enumerate(offers) if offer.matches(event)) for event in self.events
        ]
        self.wanted: list[set[int]] = []
        """For each subscriber: the rows that it must get."""
        for one in scene.subscribers:
            predicate = parse(one.filter)
            self.wanted.append({row for row, event in enumerate(self.events) if predicate.matches(event)})

    def __len__(self) -> int:
        return len(self.events)

    def most_wanted(self, rows: range) -> int:
        """The first of the flights that most subscribers want."""
        return max(rows, key=lambda row: sum(row in wanted for wanted in self.wanted))
