"""Reliable links: numbered frames, acknowledgements, and going on after a lost connection.

A session outlives its connections. Each side numbers the frames that it sends and keeps them until they are
acknowledged; after a new connection each says which it had last, and is sent those that follow. So a cut
connection loses nothing and repeats nothing, for as long as both processes live.

A frame is acknowledged when it is *dealt with*: when all that was sent on because of it has been
acknowledged in turn (`Custody`). So whoever is waiting for an acknowledgement still has what a broker on the
way takes with it when it dies, and can send it another way. The same rule slows publishers down: no more
than a window of bytes may be unacknowledged.

Before a frame is dealt with it may reach stages (`Stage`). Whoever is late in dealing with one says which it
has reached, so that publishers need not wait for more than they want to.

Frames are dealt with in any order, and are acknowledged in that order: with an acknowledgement of all up to a
number alone, frames that are done would wait for those before them, whose acknowledgements wait for others
elsewhere, and in overlays with circles so round in a circle, for ever.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from enum import IntEnum
from typing import Final

from penstock.errors import WireError
from penstock.wire.blocks import Block
from penstock.wire.frames import Kind, frame

_SAID_MAX: Final = 4_096
"""Frames that one acknowledgement names out of turn; others are named by the next."""

CLIENT_WINDOW: Final = 8 * 2**20
"""Bytes that a client sends at the most before they are acknowledged, whatever its broker would take."""

_NUMBER: Final = 8


class Stage(IntEnum):
    """How far events have come with everybody whom they are for."""

    NONE = 0
    ACCEPTED = 1
    """Each broker of a client that wants them has them."""
    TAKEN = 2
    """So has the process of each client."""
    HANDLED = 3
    """They are dealt with: all of it is acknowledged."""


_SHORT_OF_HANDLED: Final = (Stage.ACCEPTED, Stage.TAKEN)


class Custody:
    """What has to be dealt with elsewhere before a frame is dealt with here.

    Whoever makes one holds it; `release` says that one holder is done. `on_done` is called when none is left,
    and told whether all of them succeeded. With `on_failed`, a failure is mended at once, whatever other
    holders do: it is called, and holds the custody too until `mended` is called. Holders may be at a stage,
    which they name when they release it.
    """

    __slots__ = (
        "_at_least",
        "_has_failed",
        "_holders",
        "_is_mending",
        "_on_done",
        "_on_failed",
        "_on_stage",
        "_told",
        "is_late",
    )

    def __init__(self, on_done: Callable[[bool], None], on_failed: Callable[[], None] | None = None) -> None:
        self.is_late = False
        """Whether somebody who holds it is known to take long."""
        self._holders = 1
        self._has_failed = False
        self._is_mending = False
        self._on_done = on_done
        self._on_failed = on_failed
        self._at_least: list[int] | None = None
        """How many holders are at each stage, or beyond it."""
        self._on_stage: Callable[[Stage], None] | None = None
        self._told = Stage.NONE

    @property
    def is_done(self) -> bool:
        """Whether nobody holds it."""
        return not self._holders

    @property
    def is_watched(self) -> bool:
        """Whether somebody is told of the stages."""
        return self._on_stage is not None

    @property
    def stage(self) -> Stage:
        """What all holders have reached; nothing, if somebody has failed."""
        if not self._holders:
            return Stage.HANDLED
        if self._at_least is None or self._has_failed:
            return Stage.NONE
        reached = [stage for stage in _SHORT_OF_HANDLED if self._at_least[stage] == self._holders]
        return reached[-1] if reached else Stage.NONE

    def watch(self, on_stage: Callable[[Stage], None]) -> None:
        """Have somebody told which stage has been reached, now and later, until it is done."""
        self._on_stage = on_stage
        self._tell()

    def hold(self, stage: Stage = Stage.NONE) -> None:
        """Somebody else has to deal with it too, who is at a stage already."""
        self._holders += 1
        if stage:
            self._move(Stage.NONE, stage)

    def advance(self, before: Stage, stage: Stage) -> None:
        """A holder that was at one stage is at another."""
        self._move(before, stage)
        self._tell()

    def fail(self) -> None:
        """Somebody could not, so that it has to be sent another way."""
        if self._on_failed is None:
            self._has_failed = True
        elif not self._is_mending:
            self._is_mending = True
            self._holders += 1
            self._on_failed()

    def mended(self) -> None:
        """It has been sent another way, or is given up."""
        self._is_mending = False
        self.release()

    def release(self, stage: Stage = Stage.NONE) -> None:
        """One of them has, or has failed."""
        if stage:
            self._move(stage, Stage.NONE)
        self._holders -= 1
        if not self._holders:
            self._on_done(not self._has_failed)
        elif self._on_stage is not None:
            self._tell()

    def _move(self, before: Stage, stage: Stage) -> None:
        if self._at_least is None:
            self._at_least = [0] * (Stage.TAKEN + 1)
        for one in _SHORT_OF_HANDLED:
            self._at_least[one] += (stage >= one) - (before >= one)

    def _tell(self) -> None:
        if self._on_stage is not None and self._holders:
            stage = self.stage
            if stage > self._told:
                self._told = stage
                self._on_stage(stage)


class Outgoing:
    """A frame on its way, from `push` until it is acknowledged."""

    __slots__ = ("block", "custody", "data", "kind", "number", "size", "stage")

    def __init__(self, kind: Kind, data: bytes, block: Block | None, custody: Custody | None) -> None:
        self.number = 0
        """Given when it is written for the first time."""
        self.kind = kind
        self.data = data
        """The payload; once it has a number, the whole frame."""
        self.size = len(data)
        self.block = block
        self.custody = custody
        self.stage = Stage.NONE
        """What the other side has reached with it."""

    def release(self, *, failed: bool = False) -> None:
        """Nobody waits for the other side any longer."""
        custody, self.custody = self.custody, None
        if custody is not None:
            if failed:
                custody.fail()
            custody.release(self.stage)

    def numbered(self, number: int) -> bytes:
        """The whole frame."""
        self.number = number
        self.data = frame(self.kind, number.to_bytes(_NUMBER, "big"), self.data)
        return self.data


class Session:
    """Both directions of a reliable link."""

    def __init__(self, window: int) -> None:
        self.window = window
        """Bytes that may be sent and not acknowledged."""
        self.received = 0
        """The number of the last frame that came."""
        self.queued_bytes = 0
        """Bytes that are sent and not acknowledged, or not sent yet."""
        self.message_bytes = 0
        """Those of them that are messages, and not events."""
        self.undealt_bytes = 0
        """Bytes that came and are not dealt with: whoever sent them sends no more than a window of these."""
        self.sent = 0
        """The number of the last frame that was sent."""
        self.acked_bytes = 0
        """Bytes that the other side has dealt with, in all."""
        self._acked_to = 0
        self._unacked: OrderedDict[int, Outgoing] = OrderedDict()
        self._unacked_bytes = 0
        self._pending: deque[Outgoing] = deque()
        self._urgent: deque[Outgoing] = deque()
        self._dealt_to = 0
        self._dealt: set[int] = set()
        """Beyond that, which have been dealt with out of turn."""
        self._unsaid: list[int] = []
        """Those of them that the other side has not been told of."""
        self._undealt: dict[int, int] = {}
        self._ack_said = 0
        self._reached: dict[int, Stage] = {}
        """Of frames that are not dealt with, which stages they have reached."""
        self._reached_unsaid: list[int] = []

    # Sending

    def push_message(self, payload: bytes, custody: Custody | None = None, *, urgent: bool = False) -> None:
        """Queue a message; an urgent one goes before all that waits, and does not wait for the window."""
        self.message_bytes += len(payload)
        self._push(Outgoing(Kind.MESSAGE, payload, None, custody), self._urgent if urgent else self._pending)

    def push_block(self, block: Block, custody: Custody | None = None, stage: Stage = Stage.NONE) -> None:
        """Queue a block of events; it is held in custody until the other side has dealt with it.

        `stage` is what is reached as soon as it is queued.
        """
        out = Outgoing(Kind.EVENTS, block.encode(), block, custody)
        out.stage = stage
        self._push(out, self._pending)

    def _push(self, out: Outgoing, queue: deque[Outgoing]) -> None:
        if out.custody is not None:
            out.custody.hold(out.stage)
        self.queued_bytes += out.size
        queue.append(out)

    def sendable(self) -> list[bytes]:
        """The frames that are to be written now, as far as the window lets them."""
        if not self._pending and not self._urgent:
            return []
        found = []
        while self._urgent or (self._pending and self._unacked_bytes < self.window):
            out = self._urgent.popleft() if self._urgent else self._pending.popleft()
            self.sent += 1
            found.append(out.numbered(self.sent))
            self._unacked[out.number] = out
            self._unacked_bytes += out.size
        return found

    @property
    def is_waiting(self) -> bool:
        """Whether frames wait because too much is unacknowledged."""
        return bool(self._pending) and self._unacked_bytes >= self.window

    @property
    def is_idle(self) -> bool:
        """Whether all that was sent is acknowledged."""
        return not self._pending and not self._unacked and not self._urgent

    @property
    def unacked_frames(self) -> int:
        """How many frames are not acknowledged."""
        return len(self._unacked) + len(self._pending) + len(self._urgent)

    @property
    def has_events(self) -> bool:
        """Whether events are to be sent, or sent and not acknowledged."""
        return self.queued_bytes > self.message_bytes

    @property
    def first_unacked(self) -> int:
        """The number of the first frame of events that was sent and is not acknowledged; 0 if none is."""
        return next((number for number, out in self._unacked.items() if out.block is not None), 0)

    def is_acked(self, number: int) -> bool:
        """Whether the other side has dealt with a frame that was sent."""
        return number <= self.sent and number not in self._unacked

    def on_ack(self, payload: bytes | memoryview) -> None:
        """The other side has dealt with all frames up to a number, and with some others."""
        if not payload or len(payload) % _NUMBER or len(payload) > (_SAID_MAX + 1) * _NUMBER:
            raise WireError(f"an acknowledgement is made of 1 to {_SAID_MAX + 1:,} numbers of eight bytes")
        first = int.from_bytes(payload[:_NUMBER], "big")
        others = [
            int.from_bytes(payload[at : at + _NUMBER], "big") for at in range(_NUMBER, len(payload), _NUMBER)
        ]
        highest = max(first, *others) if others else first
        if highest > self.sent:
            raise WireError(f"frame {highest:,} is acknowledged, but only {self.sent:,} have been sent")
        self._acked_to = max(self._acked_to, first)
        done = []
        while self._unacked and next(iter(self._unacked)) <= first:
            done.append(self._unacked.popitem(last=False)[1])
        done += [self._unacked.pop(number) for number in others if number in self._unacked]
        for out in done:
            self._unacked_bytes -= out.size
            self.queued_bytes -= out.size
            self.acked_bytes += out.size
            if out.block is None:
                self.message_bytes -= out.size
            out.release()

    def on_reached(self, payload: bytes | memoryview) -> None:
        """The other side has not dealt with frames yet, and says which stages they have reached."""
        if not payload or len(payload) % (_NUMBER + 1) or len(payload) > _SAID_MAX * (_NUMBER + 1):
            raise WireError(f"what has been reached is said in nine bytes for 1 to {_SAID_MAX:,} frames")
        for at in range(0, len(payload), _NUMBER + 1):
            number, stage = int.from_bytes(payload[at : at + _NUMBER], "big"), payload[at + _NUMBER]
            if stage not in _SHORT_OF_HANDLED or number > self.sent:
                raise WireError(f"frame {number:,} cannot have reached stage {stage}")
            out = self._unacked.get(number)
            if out is not None and out.stage < stage:
                before, out.stage = out.stage, Stage(stage)
                if out.custody is not None:
                    out.custody.advance(before, out.stage)

    def resume(self, their_received: int) -> list[bytes]:
        """There is a new connection: the frames that the other side has not had, in order."""
        if not self._acked_to <= their_received <= self.sent:
            raise WireError(
                f"the other side had frame {their_received:,}, which was never sent or is long gone"
            )
        self._ack_said = -1
        self._unsaid = sorted(self._dealt)
        self._reached_unsaid = list(self._reached)
        return [out.data for out in self._unacked.values() if out.number > their_received]

    def fail(self, number: int) -> None:
        """The other side could not pass on a frame, which it will acknowledge."""
        out = self._unacked.get(number)
        if out is not None and out.custody is not None:
            out.custody.fail()

    def abandon(self, *, failed: bool) -> int:
        """The session is over: let go of all that is not acknowledged; return how many events that is.

        What has failed is to be sent another way by whoever waits for it; else it is given up.
        """
        left = [*self._unacked.values(), *self._urgent, *self._pending]
        self._unacked.clear()
        self._urgent.clear()
        self._pending.clear()
        self._acked_to = self.sent
        self._unacked_bytes = self.queued_bytes = self.message_bytes = 0
        for out in left:
            out.release(failed=failed)
        return sum(len(out.block) for out in left if out.block is not None)

    def drop_pending(self) -> int:
        """Let go of the events that have not been sent at all; return how many."""
        dropped = [out for out in self._pending if out.block is not None]
        self._pending = deque(out for out in self._pending if out.block is None)
        for out in dropped:
            self.queued_bytes -= out.size
            out.release()
        return sum(len(out.block) for out in dropped if out.block is not None)

    def let_go(self) -> int:
        """Have nobody wait for the other side: drop the events that were not sent, and return how many."""
        dropped = self.drop_pending()
        self.release_sent()
        return dropped

    def release_sent(self, to: int | None = None) -> None:
        """Have nobody wait for what the other side was sent: it stays, and is in nobody's custody.

        `to`: only for frames up to this number.
        """
        for out in [out for out in self._unacked.values() if to is None or out.number <= to]:
            if out.block is not None:
                out.release()

    def hand_over(self) -> list[tuple[Block, Custody | None]]:
        """The session is over, and another takes up the blocks that have not been acknowledged, in order.

        They stay in custody, which whoever pushes them again has to release once.
        """
        left = [*self._unacked.values(), *self._pending]
        self._unacked.clear()
        self._pending.clear()
        self._acked_to = self.sent
        self._unacked_bytes = self.queued_bytes = self.message_bytes = 0
        for out in left:
            if out.custody is not None and out.stage:
                out.custody.advance(out.stage, Stage.NONE)
        return [(out.block, out.custody) for out in left if out.block is not None]

    # Receiving

    def take(self, payload: memoryview) -> tuple[int, memoryview] | None:
        """The number and content of a numbered frame; None if it was there before."""
        if len(payload) < _NUMBER:
            raise WireError("a frame has no number")
        number = int.from_bytes(payload[:_NUMBER], "big")
        if number <= self.received:
            return None
        if number != self.received + 1:
            raise WireError(f"frame {number:,} came after {self.received:,}")
        self.received = number
        content = payload[_NUMBER:]
        self._undealt[number] = len(content)
        self.undealt_bytes += len(content)
        return number, content

    def dealt_with(self, number: int) -> None:
        """A frame need not be kept by the other side any longer."""
        self.undealt_bytes -= self._undealt.pop(number, 0)
        self._reached.pop(number, None)
        if number != self._dealt_to + 1:
            self._dealt.add(number)
            self._unsaid.append(number)
            return
        self._dealt_to = number
        while self._dealt_to + 1 in self._dealt:
            self._dealt_to += 1
            self._dealt.discard(self._dealt_to)

    def reach(self, number: int, stage: Stage) -> None:
        """A frame that came is not dealt with yet, but has reached a stage."""
        if number in self._undealt:
            self._reached[number] = stage
            self._reached_unsaid.append(number)

    def reached_due(self) -> bytes | None:
        """The frame that says what has been reached since the last one."""
        said = [number for number in self._reached_unsaid[:_SAID_MAX] if number in self._reached]
        del self._reached_unsaid[:_SAID_MAX]
        if not said:
            return None
        parts = (number.to_bytes(_NUMBER, "big") + bytes([self._reached[number]]) for number in said)
        return frame(Kind.REACHED, b"".join(parts))

    def ack_due(self) -> bytes | None:
        """The frame that acknowledges what has been dealt with since the last one."""
        if not self._unsaid and (self._dealt_to == self._ack_said or not self._dealt_to):
            return None
        others = [number for number in self._unsaid[:_SAID_MAX] if number > self._dealt_to]
        del self._unsaid[:_SAID_MAX]
        if not others and (self._dealt_to == self._ack_said or not self._dealt_to):
            return None
        self._ack_said = self._dealt_to
        return frame(Kind.ACK, *(number.to_bytes(_NUMBER, "big") for number in (self._dealt_to, *others)))
