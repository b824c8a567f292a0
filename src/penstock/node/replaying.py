"""Sends kept events again, some at a time, for cores that ask for it (`penstock.broker.effects.Replay`).

Trees take turns, a block each. One turn of the loop sends so many blocks and bytes, for so long, however many
trees there are; then everybody else has as much of the processor.
"""

from collections import deque
from functools import partial
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
"""Bytes of a tree that are sent before anybody waits; the next wait until brokers have these."""

_TURN_S: Final = 0.002
"""Seconds of a processor after which a turn of the loop begins nothing more."""

TURN_BLOCKS: Final = 64
"""Blocks that are sent in a turn of the loop at the most, of all trees together."""

_TURN_BYTES: Final = 2**18
"""The same in bytes: what is sent has to be written as well."""

_REST_MAX_S: Final = 0.5
"""Seconds that the next turn waits at most for others to be served."""

SLACK_S: Final = 3.0
"""What is added to the seconds that are asked for: questions take a while to arrive."""


class _Question(NamedTuple):
    """Somebody asked, and when that was: the seconds that are asked for count from then."""

    replay: Replay
    at: float

    @property
    def since(self) -> float:
        """From when on everything is sent again."""
        seconds = self.replay.seconds
        return self.at - seconds - SLACK_S - CLOCKS_SHARE * seconds


class _Task:
    """A tree whose events are being sent again."""

    __slots__ = ("answers", "chunk_bytes", "custody", "kept", "mark", "tree")

    def __init__(self, tree: Tree, answers: list[Replayed], kept: deque[Kept]) -> None:
        self.tree = tree
        self.answers = answers
        """What is said when all has been sent."""
        self.kept = kept
        self.custody: Custody | None = None
        """Of the chunk that is being sent."""
        self.chunk_bytes = 0
        self.mark = 0


class Replaying:
    """What is being sent again: of each tree once at a time, however many ask for it meanwhile."""

    def __init__(self, runtime: "Runtime", history: History) -> None:
        self.turn_blocks = TURN_BLOCKS
        """Fewer only where somebody wants to see what happens between turns."""
        self._runtime = runtime
        self._history = history
        self._questions: dict[Tree, list[_Question]] = {}
        """Questions that have to wait: for their turn, or until what others asked for has been sent."""
        self._tasks: dict[Tree, _Task | None] = {}
        """The trees whose turn has come, or will; None until it has."""
        self._ready: deque[Tree] = deque()
        """Those that wait for nobody, in turn."""
        self._is_awaited = False
        """Whether a turn will come."""
        self._rests_until = float("-inf")

    def ask(self, replay: Replay, now: float) -> None:
        """Send events again, once all is carried out that is being."""
        tree = replay.tree
        self._questions.setdefault(tree, []).append(_Question(replay, now))
        if tree not in self._tasks:
            self._tasks[tree] = None
            self._queue(tree)

    def _queue(self, tree: Tree) -> None:
        self._ready.append(tree)
        if not self._is_awaited:
            self._is_awaited = True
            world = self._runtime.world
            world.call_later(max(0.0, self._rests_until - world.time()), self._turn)

    def _turn(self) -> None:
        """Do some steps of those who are ready; then let others have as much of the processor."""
        world, ready = self._runtime.world, self._ready
        began, blocks, size = world.cpu_time(), 0, 0
        try:
            while ready and blocks < self.turn_blocks and size < _TURN_BYTES:
                size += self._step(ready.popleft())
                blocks += 1
                if world.cpu_time() - began >= _TURN_S:
                    break
            self._runtime.flush()
        finally:
            rest = min(max(0.0, world.cpu_time() - began), _REST_MAX_S)
            self._rests_until = world.time() + rest
            self._is_awaited = bool(ready)
            if ready:
                world.call_later(rest, self._turn)

    def _step(self, tree: Tree) -> int:
        """Find a tree's events, send a block of them, or say that all has been sent; return its bytes."""
        now = self._runtime.world.time()
        task = self._tasks[tree]
        if task is None:
            self._tasks[tree] = self._begun(tree, now)
        elif task.kept:
            return self._send(task, now)
        elif task.answers:
            self._runtime.handle(task.answers.pop(0), "", now)
        else:
            self._tasks[tree] = None
            if tree not in self._questions:
                del self._tasks[tree]
                return 0
        self._ready.append(tree)
        return 0

    def _begun(self, tree: Tree, now: float) -> _Task:
        history = self._history
        history.trim(now)
        questions = self._questions.pop(tree)
        answers = [
            Replayed(tree, replay.number, history.dropped_since(tree, at - replay.seconds))
            if replay.seconds > 0
            else Replayed(tree, replay.number, 0)
            for replay, at in questions
        ]
        since = min((one.since for one in questions if one.replay.seconds > 0), default=None)
        return _Task(tree, answers, deque() if since is None else deque(history.since(tree, since)))

    def _send(self, task: _Task, now: float) -> int:
        """Send a block of a chunk; after its last one, go on when no broker is waited for any longer."""
        runtime = self._runtime
        if task.custody is None:
            task.mark, task.chunk_bytes = runtime.world.mark(), 0
            task.custody = Custody(partial(self._taken, task, task.mark))
        published_at, block = task.kept.popleft()
        age = max(0.0, now - published_at)
        header = msgspec.structs.replace(block.header, rescued=task.mark, trace="", replay=True, age=age)
        effects = runtime.core.handle(block.with_header(header), "", now)
        runtime.carry_out(effects, now, task.custody)
        runtime.counts["replayed"] += len(block)
        size = len(block.data)
        task.chunk_bytes += size
        if task.kept and task.chunk_bytes < _CHUNK_BYTES:
            self._ready.append(task.tree)
            return size
        # Readers that are slow hold up nobody who catches up.
        custody = task.custody
        custody.watch(partial(self._taken, task, task.mark))
        custody.release()
        return size

    def _taken(self, task: _Task, chunk: int, _how: object) -> None:
        """No broker is waited for any longer that gets a chunk. It may be told twice."""
        if task.custody is not None and task.mark == chunk:
            task.custody = None
            self._queue(task.tree)
