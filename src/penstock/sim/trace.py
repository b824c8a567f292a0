"""What happened in a simulation, as lines of JSON: one for each message that a broker handled, for each
delivery, for each message that was lost (`Drop`) and for each broker or link that a fault changed.

The same run gives the same bytes: keys are sorted, floats are written as `repr` writes them, and what is a
set is sorted. So two traces can be compared with `cmp`, and the first line that differs says where two runs
part.
"""

import json
from collections.abc import Callable
from typing import Any

import msgspec

from penstock.filters.predicate import Predicate
from penstock.model.names import Key
from penstock.sim.clients import Client
from penstock.sim.observers import Observer
from penstock.wire.blocks import Block
from penstock.wire.messages import Message, Publish

Write = Callable[[bytes], object]


class Trace(Observer):
    """Writes lines as a network runs. Times are those of the virtual clock, in seconds."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._texts: dict[Predicate, str] = {}

    def begin(self, **about: Any) -> None:
        """Say which run follows."""
        self._line({"kind": "Run", **about})

    def on_handle(self, broker: str, link: str, message: Message | Block, now: float) -> None:  # noqa: D102
        self._line({"at": now, "broker": broker, "link": link, **self._brief(message)})

    def on_lose(self, a: str, b: str, message: Message | Block, now: float) -> None:  # noqa: D102
        self._line({"at": now, "broker": a, "kind": "Drop", "link": b, "message": self._brief(message)})

    def on_fault(self, what: str, broker: str, link: str, about: dict[str, Any], now: float) -> None:  # noqa: D102
        self._line({"at": now, "broker": broker, "kind": what, "link": link, **about})

    def on_deliver(  # noqa: D102
        self, client: Client, publish: Publish, keys: tuple[Key, ...], now: float, late: bool
    ) -> None:
        self._line(
            {
                "at": now,
                "broker": client.home,
                "kind": "Deliver",
                "link": client.name,
                "subscriptions": sorted(map(self._text, keys)),
                **({"late": True} if late else {}),
                **publish.brief(self._text),
            }
        )

    def _line(self, record: dict[str, Any]) -> None:
        text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_plain)
        self._write(text.encode() + b"\n")

    def _brief(self, message: Message | Block) -> dict[str, Any]:
        return {"kind": message.kind, **message.brief(self._text)}

    def _text(self, key: Key | Predicate) -> str:
        if not isinstance(key, Predicate):
            return str(key)
        # Most filters come again and again, and writing one takes longer than handling it.
        text = self._texts.get(key)
        if text is None:
            text = self._texts[key] = str(key)
        return text


def _plain(value: object) -> object:
    """What JSON has no form of: the structs in a message as objects, everything else as text."""
    return msgspec.structs.asdict(value) if isinstance(value, msgspec.Struct) else str(value)
