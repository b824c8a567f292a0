"""What a client publishes: numbered by itself, gathered into blocks, kept until acknowledged."""

from collections.abc import Callable, Iterable
from typing import Final, Literal, TypeAlias, get_args

import msgspec

from penstock.errors import AccessError, LimitError, PenstockError
from penstock.node.client.acknowledged import Acknowledged
from penstock.node.world import World
from penstock.wire.blocks import Block, Header
from penstock.wire.sessions import Custody, Session, Stage

BLOCK_BYTES: Final = 256 * 1024
"""Bytes after which a block is sent off, full or not."""

BLOCK_EVENTS: Final = 4_096
"""Events after which a block is sent off."""

_FRAME_OVERHEAD: Final = 1_024
_EVENT_OVERHEAD: Final = 8
"""Bytes of a frame besides its events, and of an event besides itself."""

_BUFFER_WINDOWS: Final = 2
"""So many windows of bytes may wait before publishers have to."""

OnSettled: TypeAlias = Callable[[Exception | None], object]
"""Told once that what was published has reached the stage that was asked for, or why it has not."""

FIRST: Final = Stage.ACCEPTED
"""What publishers wait for by default: no reader can hold it up, as long as a window has room."""

Ack: TypeAlias = Literal["accepted", "taken", "handled"]
"""What an acknowledgement means, as publishers say it: see `penstock.wire.sessions.Stage`."""

ACKS: Final[tuple[Ack, ...]] = get_args(Ack)


def stage_of(ack: str) -> Stage:
    """The stage that an acknowledgement waits for. Raises PenstockError."""
    if ack not in ACKS:
        raise PenstockError(f"ack={ack!r:.40}: say {', '.join(map(repr, ACKS[:-1]))} or {ACKS[-1]!r}")
    return Stage[ack.upper()]


class RejectedError(AccessError):
    """Events that the broker did not accept. `count` is how many of those published together."""

    def __init__(self, reason: str, count: int) -> None:
        super().__init__(reason)
        self.count = count


class _Gathering:
    """The next block of one advertisement; then, one that is not acknowledged."""

    __slots__ = ("events", "on_settled", "size", "stage", "waiting")

    def __init__(self, on_settled: OnSettled | None = None, stage: Stage = FIRST) -> None:
        self.events: list[bytes] = []
        self.on_settled = on_settled
        """Whoever waits for all of them to reach a stage."""
        self.stage = stage
        self.waiting: list[tuple[int, OnSettled, Stage]] = []
        """Whoever waits for one of them, for which, and for which stage."""
        self.size = 0

    @property
    def is_waited_for(self) -> bool:
        """Whether anybody waits for it."""
        return bool(self.waiting) or self.on_settled is not None

    def settle(self, first: int, whys: dict[int, str], stage: Stage) -> None:
        """They have reached a stage, but for those numbers that were not accepted."""
        due = [one for one in self.waiting if one[2] <= stage]
        self.waiting = [one for one in self.waiting if one[2] > stage]
        for at, one, _stage in due:
            why = whys.get(first + at)
            one(None if why is None else RejectedError(why, 1))
        if self.on_settled is not None and self.stage <= stage:
            on_settled, self.on_settled = self.on_settled, None
            on_settled(RejectedError(next(iter(whys.values())), len(whys)) if whys else None)

    def fail(self, error: Exception) -> None:
        """They will not be acknowledged."""
        for _at, one, _stage in self.waiting:
            one(error)
        if self.on_settled is not None:
            self.on_settled(error)


class Outlet:
    """The events of a client on their way out. `wake` has somebody write what waits."""

    def __init__(self, world: World, wake: Callable[[], None]) -> None:
        self.frame_bytes = 2**24
        """The longest frame that the broker takes."""
        self.has_room = True
        """Whether publishers need not wait."""
        self._world = world
        self._wake = wake
        self._numbers: dict[str, int] = {}
        self._gathering: dict[str, _Gathering] = {}
        self._flushing = False
        self._session: Session | None = None
        # Those that somebody waits for, in the order in which they were sent, so that a run can be repeated.
        self._open: dict[_Gathering, None] = {}
        self._when_room: list[Callable[[], object]] = []
        self._when_settled: list[Callable[[], object]] = []
        self._rejected: dict[tuple[str, int], str] = {}
        self._acked: dict[str, Acknowledged] = {}
        self._turn = 0
        self._accepted: dict[tuple[str, int], float] = {}
        """When blocks were accepted that are not acknowledged in full, by key and first number."""

    def use(self, session: Session, turn: int) -> int:
        """Send by a new session, again what was not acknowledged in the old one; return how many events.

        `turn`: how often a session has begun.
        """
        old, self._session, self._turn = self._session, session, turn
        again, mark = 0, self._world.mark()
        for block, custody in old.hand_over() if old is not None else ():
            accepted_at = self._accepted.get((block.header.tree, int(block.numbers[0])))
            # Subscriptions that were made since it was acknowledged do not get it.
            age = 0.0 if accepted_at is None else self._world.time() - accepted_at
            header = msgspec.structs.replace(block.header, rescued=mark, age=age)
            session.push_block(block.with_header(header), custody)
            if custody is not None:
                custody.release()
            again += len(block)
        return again

    # Publishing

    def put(self, key: str, event: bytes, on_settled: OnSettled, stage: Stage = FIRST) -> None:
        """Publish an event under an advertisement, and tell when it has reached a stage."""
        size = self._checked_size(event)
        gathering = self._gathering.get(key)
        if gathering is not None and gathering.size + size > self.frame_bytes - _FRAME_OVERHEAD:
            self._send(key)
            gathering = None
        if gathering is None:
            gathering = self._gathering[key] = _Gathering()
        gathering.waiting.append((len(gathering.events), on_settled, stage))
        gathering.events.append(event)
        gathering.size += size
        if gathering.size >= BLOCK_BYTES or len(gathering.events) >= BLOCK_EVENTS:
            self._send(key)
        elif not self._flushing:
            self._flushing = True
            self._world.call_later(0, self.flush)

    def put_many(
        self, key: str, events: list[bytes], watch: Callable[[], OnSettled], stage: Stage = FIRST
    ) -> None:
        """Publish events; of each block into which they are cut, whom `watch` gives is told."""
        room = min(BLOCK_BYTES, self.frame_bytes - _FRAME_OVERHEAD)
        if sum(map(len, events)) + len(events) * _EVENT_OVERHEAD > room or len(events) > BLOCK_EVENTS:
            if len(events) == 1:
                self.put(key, events[0], watch(), stage)
                return
            middle = len(events) // 2
            self.put_many(key, events[:middle], watch, stage)
            self.put_many(key, events[middle:], watch, stage)
            return
        self._send(key)
        gathering = self._gathering[key] = _Gathering(watch(), stage)
        gathering.events = events
        self._send(key)

    def put_traced(self, key: str, event: bytes, trace: str, on_settled: OnSettled) -> None:
        """Publish one event by itself, marked."""
        self._checked_size(event)
        self._send(key)
        gathering = self._gathering[key] = _Gathering(on_settled, Stage.HANDLED)
        gathering.events.append(event)
        self._send(key, trace)

    def _checked_size(self, event: bytes) -> int:
        """The bytes of an event in a frame. Raises LimitError where no frame has room for it."""
        size = len(event) + _EVENT_OVERHEAD
        if size > self.frame_bytes - _FRAME_OVERHEAD:
            what = f"an event has {len(event):,} bytes, for which the frames of this broker have no room"
            raise LimitError(what, "frame_bytes", self.frame_bytes)
        return size

    def flush(self) -> None:
        """Send off what has been gathered."""
        self._flushing = False
        for key in list(self._gathering):
            self._send(key)

    def _send(self, key: str, trace: str = "") -> None:
        gathering = self._gathering.pop(key, None)
        if gathering is None or self._session is None:
            return
        first = self._numbers.get(key, 0) + 1
        last = first + len(gathering.events)
        self._numbers[key] = last - 1
        block = Block.of(Header(key, "", trace=trace), range(first, last), gathering.events)
        self._open[gathering] = None
        custody = Custody(lambda _succeeded: self._done(key, first, last, gathering))
        custody.watch(lambda stage: self._accept(key, first, last, gathering, stage))
        self._session.push_block(block, custody)
        custody.release()
        if self.is_full:
            self.has_room = False
        self._wake()

    # What becomes of it

    def _done(self, key: str, first: int, last: int, gathering: _Gathering) -> None:
        self._accepted.pop((key, first), None)
        self._acked.setdefault(key, Acknowledged()).note(last - first, self._world.time(), self._turn)
        self._reached(key, first, last, gathering, Stage.HANDLED)
        if self._rejected:
            for number in range(first, last):
                self._rejected.pop((key, number), None)
        if not self.is_full:
            self._make_room()

    def _accept(self, key: str, first: int, last: int, gathering: _Gathering, stage: Stage) -> None:
        """Brokers have it, and some reader not yet."""
        self._accepted.setdefault((key, first), self._world.time())
        self._reached(key, first, last, gathering, stage)

    def _reached(self, key: str, first: int, last: int, gathering: _Gathering, stage: Stage) -> None:
        """Tell whoever waits for no more than this stage."""
        if gathering not in self._open:
            return
        whys: dict[int, str] = {}
        if self._rejected:
            found = ((n, self._rejected.get((key, n))) for n in range(first, last))
            whys = {n: why for n, why in found if why is not None}
        gathering.settle(first, whys, stage)
        if not gathering.is_waited_for:
            self._open.pop(gathering, None)
        if not self._open:
            self._tell(self._when_settled)

    def acked(self, key: str) -> tuple[tuple[float, int, int], ...]:
        """How long ago brokers have acknowledged events of an advertisement, how many, and in which turn."""
        known = self._acked.get(key)
        return () if known is None else known.ages(self._world.time())

    def reject(self, key: str, numbers: Iterable[int], why: str) -> None:
        """The broker has not accepted events; whoever waits for them is told."""
        if not self._open:
            return
        for number in numbers:
            self._rejected[key, number] = why

    @property
    def is_full(self) -> bool:
        """Whether so much waits that publishers have to."""
        session = self._session
        return session is not None and session.queued_bytes > _BUFFER_WINDOWS * session.window

    def _make_room(self) -> None:
        self.has_room = True
        self._tell(self._when_room)

    def when_room(self, callback: Callable[[], object]) -> None:
        """Call somebody when there is room for more, at once if there is."""
        if self.has_room:
            callback()
        else:
            self._when_room.append(callback)

    def when_settled(self, callback: Callable[[], object]) -> None:
        """Call somebody when all that was published is acknowledged, or is given up."""
        self.flush()
        if self._open:
            self._when_settled.append(callback)
        else:
            callback()

    def _tell(self, waiting: list[Callable[[], object]]) -> None:
        """Call all who wait; some may wait anew."""
        told = waiting[:]
        waiting.clear()
        for callback in told:
            callback()

    def fail(self, error: Exception) -> None:
        """It is over: whoever waits for an acknowledgement is told."""
        waiting = [*self._open, *self._gathering.values()]
        self._gathering.clear()
        self._open.clear()
        for gathering in waiting:
            gathering.fail(error)
        self._make_room()
        self._tell(self._when_settled)
