"""Sends kept events again, some at a time, for cores that ask for it (`penstock.broker.effects.Replay`)."""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from penstock.broker.clients import CLOCKS_SHARE
from penstock.broker.effects import Replay
from penstock.broker.local import Replayed
from penstock.model.names import Tree
from penstock.node.history import History, Kept
from penstock.wire.sessions import Custody

if TYPE_CHECKING:
    from penstock.node.runtime import Runtime

_CHUNK_BYTES: Final = 2**18
"""Bytes that are sent again at once; the next wait until brokers have these."""

_REST_MAX_S: Final = 0.5
"""Seconds that the next wait at most for others to be served."""

SLACK_S: Final = 3.0
"""What is added to the seconds that are asked for: questions take a while to arrive."""


class _Asked(NamedTuple):
    """A question, and how many events that it is about are no longer kept."""

    replay: Replay
    missed: int


class Replaying:
    """What is being sent again: of each tree once at a time, however many ask for it meanwhile."""

    def __init__(self, runtime: "Runtime", history: History) -> None:
        self._runtime = runtime
        self._history = history
        self._waiting: dict[Tree, list[Replay]] = {}
        """Questions that came while a tree's events were being sent again."""

    def ask(self, replay: Replay, now: float) -> None:
        """Send events again, once all is carried out that is being."""
        waiting = self._waiting.get(replay.tree)
        if waiting is not None:
            waiting.append(replay)
        else:
            self._begin(replay.tree, [replay], now)

    def _begin(self, tree: Tree, replays: list[Replay], now: float) -> None:
        self._waiting[tree] = []
        history = self._history
        history.trim(now)
        asked = [
            _Asked(one, history.dropped_since(tree, now - one.seconds) if one.seconds > 0 else 0)
            for one in replays
        ]
        kept: deque[Kept] = deque()
        seconds = max(one.seconds for one in replays)
        if seconds > 0:
            kept.extend(history.since(tree, now - seconds - SLACK_S - CLOCKS_SHARE * seconds))
        self._runtime.world.call_later(0, self._send, tree, asked, kept)

    def _send(self, tree: Tree, asked: list[_Asked], kept: deque[Kept]) -> None:
        """Send some, and the rest when brokers have these; then say so."""
        runtime = self._runtime
        now = runtime.world.time()
        if not kept:
            for replay, missed in asked:
                runtime.handle(Replayed(tree, replay.number, missed), "", now)
            waiting = self._waiting.pop(tree)
            if waiting:
                self._begin(tree, waiting, now)
            runtime.flush()
            return
        began = runtime.world.cpu_time()
        self._send_some(kept, now, lambda: self._go_on(tree, asked, kept, began))
        runtime.flush()

    def _go_on(self, tree: Tree, asked: list[_Asked], kept: deque[Kept], began: float) -> None:
        # What others send has as much of the processor as this.
        rest = max(0.0, self._runtime.world.cpu_time() - began)
        self._runtime.world.call_later(min(rest, _REST_MAX_S), self._send, tree, asked, kept)

    def _send_some(self, kept: deque[Kept], now: float, on_taken: Callable[[], None]) -> None:
        """Send a chunk; tell once when no broker has to be waited for any longer."""
        runtime = self._runtime
        is_taken = False

        def taken(*_how: object) -> None:
            nonlocal is_taken
            if not is_taken:
                is_taken = True
                on_taken()

        custody = Custody(taken)
        size, mark = 0, runtime.world.mark()
        while kept and size < _CHUNK_BYTES:
            published_at, block = kept.popleft()
            size += len(block.data)
            age = max(0.0, now - published_at)
            header = msgspec.structs.replace(block.header, rescued=mark, trace="", replay=True, age=age)
            effects = runtime.core.handle(block.with_header(header), "", now)
            runtime.carry_out(effects, now, custody)
            runtime.counts["replayed"] += len(block)
        # Readers that are slow hold up nobody who catches up.
        custody.watch(taken)
        custody.release()
