"""Sends kept events again, some at a time, for cores that ask for it (`penstock.broker.effects.Replay`)."""

from collections import deque
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.broker.clients import CLOCKS_SHARE
from penstock.broker.effects import Replay
from penstock.broker.local import Replayed
from penstock.node.history import History, Kept
from penstock.wire.sessions import Custody

if TYPE_CHECKING:
    from penstock.node.runtime import Runtime

_CHUNK_BYTES: Final = 2**20
"""Bytes that are sent again at once; the next wait until these are dealt with."""

SLACK_S: Final = 3.0
"""What is added to the seconds that are asked for: questions take a while to arrive."""


class Replaying:
    """What is being sent again."""

    def __init__(self, runtime: "Runtime", history: History) -> None:
        self._runtime = runtime
        self._history = history

    def ask(self, replay: Replay, now: float) -> None:
        """Send events again, once all is carried out that is being."""
        kept: deque[Kept] = deque()
        missed = 0
        if replay.seconds > 0:
            self._history.trim(now)
            since = now - replay.seconds
            missed = self._history.dropped_since(replay.tree, since)
            slack = SLACK_S + CLOCKS_SHARE * replay.seconds
            kept.extend(self._history.since(replay.tree, since - slack))
        self._runtime.world.call_later(0, self._send, replay, kept, missed)

    def _send(self, replay: Replay, kept: deque[Kept], missed: int) -> None:
        """Send some, and the rest when these are dealt with; then say so."""
        runtime = self._runtime
        now = runtime.world.time()
        if not kept:
            runtime.handle(Replayed(replay.tree, replay.number, missed), "", now)
            runtime.flush()
            return

        def go_on(_succeeded: bool) -> None:
            runtime.world.call_later(0, self._send, replay, kept, missed)

        custody = Custody(go_on)
        size, mark = 0, runtime.world.mark()
        while kept and size < _CHUNK_BYTES:
            published_at, block = kept.popleft()
            size += len(block.data)
            age = max(0.0, now - published_at)
            header = msgspec.structs.replace(block.header, rescued=mark, trace="", replay=True, age=age)
            effects = runtime.core.handle(block.with_header(header), "", now)
            runtime.carry_out(effects, now, custody)
            runtime.counts["replayed"] += len(block)
        custody.release()
        runtime.flush()
