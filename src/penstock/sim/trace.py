"""What happened in a simulation, as lines of JSON: one for each message that a broker handled, for each
delivery, for each message that was lost (`Drop`) and for each broker or link that a fault changed.

The same run gives the same bytes: keys are sorted, floats are written as `repr` writes them, and what is a
set is sorted. So two traces can be compared with `cmp`, and the first line that differs says where two runs
part.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any, Final

from penstock.filters.predicate import Predicate
from penstock.model.names import Key
from penstock.sim.network import Client, Network
from penstock.wire.messages import (
    Advertise,
    Alive,
    Control,
    LinkUp,
    Lost,
    Publish,
    Subscribe,
    Sync,
    Unadvertise,
    Unreachable,
    Unsubscribe,
)

Write = Callable[[bytes], object]

_TREES_SHOWN: Final = 8
"""Of more trees than these, only the number is written: without advertisements there is one per broker."""


class Trace:
    """Writes lines as a network runs. Times are those of the virtual clock, in seconds."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._texts: dict[Predicate, str] = {}
        self._short: dict[type, Callable[[Any], dict[str, Any]]] = {
            Advertise: self._advertise,
            Unadvertise: _tree,
            Unreachable: _tree,
            Subscribe: self._subscribe,
            Unsubscribe: self._unsubscribe,
            Lost: _lost,
            Publish: _publish,
            Control: self._control,
            Sync: _sync,
            Alive: _numbered,
            LinkUp: lambda message: {"client": message.client},
        }

    def watch(self, network: Network) -> None:
        """Write what brokers of this network handle; deliveries are told by whoever hears of them."""
        network.on_handle = self.handled
        network.on_lose = self.lost
        network.on_fault = self.failed

    def begin(self, **about: Any) -> None:
        """Say which run follows."""
        self._line({"kind": "Run", **about})

    def handled(self, now: float, broker: str, link: str, message: object) -> None:
        """A broker takes a message that came over a link."""
        self._line({"at": now, "broker": broker, "link": link, **self._brief(message)})

    def lost(self, now: float, sender: str, end: str, message: object) -> None:
        """A message does not come to the end of a link."""
        self._line(
            {"at": now, "broker": sender, "kind": "Drop", "link": end, "message": self._brief(message)}
        )

    def failed(self, now: float, what: str, broker: str, link: str, about: dict[str, Any]) -> None:
        """A broker or a link fails, or is mended."""
        self._line({"at": now, "broker": broker, "kind": what, "link": link, **about})

    def delivered(self, client: Client, publish: Publish, subscriptions: tuple[Key, ...], now: float) -> None:
        """A client gets an event."""
        self._line(
            {
                "at": now,
                "broker": client.home,
                "kind": "Deliver",
                "link": client.name,
                "subscriptions": sorted(map(self._text, subscriptions)),
                **_publish(publish),
            }
        )

    def _line(self, record: dict[str, Any]) -> None:
        text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)
        self._write(text.encode() + b"\n")

    def _brief(self, message: object) -> dict[str, Any]:
        short = self._short.get(type(message))
        return {"kind": type(message).__name__, **(short(message) if short is not None else {})}

    def _text(self, key: Key) -> str:
        if not isinstance(key, Predicate):
            return str(key)
        # Most filters come again and again, and writing one takes longer than handling it.
        text = self._texts.get(key)
        if text is None:
            text = self._texts[key] = str(key)
        return text

    def _advertise(self, message: Advertise) -> dict[str, Any]:
        return {"tree": message.tree, "epoch": message.epoch, "filter": self._text(message.filter)}

    def _subscribe(self, message: Subscribe) -> dict[str, Any]:
        brief: dict[str, Any] = {"filter": self._text(message.filter)}
        if message.key != message.filter:
            brief["key"] = self._text(message.key)
        if message.trees:
            brief["trees"] = _some(message.trees)
        if message.replaces:
            brief["replaces"] = [self._text(key) for key in message.replaces]
        return brief

    def _unsubscribe(self, message: Unsubscribe) -> dict[str, Any]:
        return {"key": self._text(message.key)}

    def _control(self, message: Control) -> dict[str, Any]:
        return {**_numbered(message), "bodies": [self._brief(body) for body in message.bodies]}


def _some(trees: Iterable[str]) -> list[str] | int:
    names = sorted(trees)
    return names if len(names) <= _TREES_SHOWN else len(names)


def _tree(message: Unadvertise | Unreachable) -> dict[str, Any]:
    return {"tree": message.tree}


def _lost(message: Lost) -> dict[str, Any]:
    return {"broker": message.broker, "count": message.count, "trees": message.trees}


def _publish(message: Publish) -> dict[str, Any]:
    brief: dict[str, Any] = {"event": message.event.attributes}
    if message.tree:
        brief.update(tree=message.tree, number=message.number)
    return brief


def _numbered(message: Control | Sync | Alive) -> dict[str, Any]:
    return {"session": message.session, "number": message.number}


def _sync(message: Sync) -> dict[str, Any]:
    counts = {"advertisements": len(message.advertisements), "subscriptions": len(message.subscriptions)}
    return {**_numbered(message), **counts}
