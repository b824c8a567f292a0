"""What becomes of events that come: held until they can be routed, passed on, sent again after a failure.

When a link fails for good, those who sent what was on it are told so (Returned), up to the broker of the
publisher, which sends it again by the ways that there are then. Clients drop what they have had.
"""

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from penstock.errors import EventError, LimitError, WireError
from penstock.node.asking import check_key
from penstock.node.links import Link, LinkPhase
from penstock.node.logs import LOG
from penstock.wire.blocks import Block, Header
from penstock.wire.codec import Returned, TraceReport
from penstock.wire.requests import Traced, write_answer
from penstock.wire.sessions import Custody, Stage

if TYPE_CHECKING:
    from penstock.node.runtime import Runtime

ATTEMPTS_MAX: Final = 5
"""Times that events are sent again before they are given up."""


_AGE_MAX: Final = 1e9
"""Seconds: events of clients are not older."""

_SOON_S: Final = 0.5
"""Seconds after which a sender is told how far its events have come, if they are not dealt with."""


class _Metered(NamedTuple):
    """Events beyond a client's quota, which wait until a time."""

    came_at: float
    due: float
    link: Link
    number: int
    block: Block


class _Frame:
    """Events on their way, from when they were passed on until everybody has dealt with them."""

    __slots__ = ("attempts", "block", "custody", "is_returned", "link", "number")

    def __init__(self, link: Link, number: int, block: Block) -> None:
        self.link = link
        self.number = number
        self.block = block
        self.attempts = 0
        """Times that they were sent again."""
        self.is_returned = False
        """Whether the neighbour that they came from knows that it has to send them another way."""
        self.custody: Custody


class Passing:
    """Frames of events, from when they come until everybody further on has dealt with them."""

    def __init__(self, runtime: "Runtime") -> None:
        self._runtime = runtime
        self._times = runtime.times
        self._again: list[tuple[float, _Frame]] = []
        """Events of clients that have to be sent again, and when."""
        self._metered: list[_Metered] = []
        self._waits_until = 0.0

    def wait_until(self, time: float) -> None:
        """Neighbours may not have said before then what they want: events of clients wait."""
        self._waits_until = max(self._waits_until, time)

    @property
    def is_idle(self) -> bool:
        """Whether nothing has to be sent again, or waits."""
        return not self._again and not self._metered

    def on_events(self, link: Link, number: int, block: Block, now: float) -> None:
        """A frame of events has come."""
        runtime = self._runtime
        link.counts["events_in"] += len(block)
        runtime.counts["events_in"] += len(block)
        if link.is_client:
            check_key(block.header.tree)
            block = _from_client(block)
        if block.header.trace:
            if link.is_client and not link.may_monitor:
                custody = Custody(lambda _succeeded: link.session.dealt_with(number))
                runtime.reject(link, block, "access", "tracing needs the right to monitor", custody)
                custody.release()
                return
            runtime.tracing.begin(link.name, number, now)
        wait = 0.0 if link.meter is None else link.meter.take(len(block.data), len(block), now)
        if not wait and not link.metered_bytes:
            self._arrive(link, number, block, now)
            return
        # Events beyond the quota wait, in their order, and nothing else that the client sends: others wait
        # for what it acknowledges. They are not acknowledged, so no more than a window of them waits.
        self._metered.append(_Metered(now, now + wait, link, number, block))
        link.metered_bytes += len(block.data)

    def _arrive(self, link: Link, number: int, block: Block, now: float) -> None:
        """Pass on events, or hold them until their advertisement is known."""
        if link.is_client and self._is_young(link, block.header.tree, now):
            link.held.setdefault(block.header.tree, []).append((now, number, block))
        else:
            self._pass_on_first(link, number, block, now)

    def _is_young(self, link: Link, key: str, now: float) -> bool:
        """Whether others may not have asked yet for the events of an advertisement.

        Because it is new, or this broker is, or a neighbour has just come: all of them have to be told, and
        to answer. Or because the advertisement itself waits to be looked at.
        """
        if now < self._waits_until or key in link.awaited:
            return True
        if key in link.born and now - link.born[key] >= self._times.settle:
            del link.born[key]
        return key in link.held or (key in link.born and self._runtime.has_neighbours)

    def send_held(self, now: float) -> None:
        """Send off what waited for an advertisement to be known."""
        for link in list(self._runtime.links.values()):
            for key in list(link.held):
                held = link.held.pop(key)
                if self._is_young(link, key, now):
                    link.held[key] = held
                    continue
                for came_at, number, block in held:
                    if link.phase is not LinkPhase.GONE:
                        self._pass_on_first(link, number, _older(block, now - came_at), now)

    def _pass_on_first(self, link: Link, number: int, block: Block, now: float) -> None:
        frame = _Frame(link, number, block)
        frame.custody = custody = Custody(partial(self._dealt_with, frame), partial(self._failed, frame))
        self._pass_on(frame, now)
        custody.release()
        if not custody.is_done:
            link.undealt[number] = now, custody
            if custody.is_late:
                self._tell_stage(link, number, custody)

    def _pass_on(self, frame: _Frame, now: float) -> None:
        """Pass on events; what is wrong with them ends the link that they came by."""
        runtime, link = self._runtime, frame.link
        if frame.block.header.trace:
            # What is measured is the way, not the wait before it.
            runtime.tracing.begin(link.name, frame.number, now)
        try:
            source, block = (link.name, frame.block) if not frame.attempts else self._again_from(frame, now)
            if block is not None:
                effects = runtime.core.handle(block, source, now)
                runtime.carry_out(effects, now, frame.custody, (link, frame.number))
        except (WireError, EventError, LimitError) as error:
            self._cut_off(link, str(error), now)
        except Exception:
            # A mistake of ours must not keep others from being passed on, nor be repeated.
            LOG.exception("%s: events from %s led to an error", runtime.core.name, link.peer)
            self._cut_off(link, "internal error", now)

    def _again_from(self, frame: _Frame, now: float) -> tuple[str, Block | None]:
        """Where events come from that are sent again, and these with their age; None if they are gone."""
        link, header = frame.link, frame.block.header
        kept = self._runtime.history.unfinished((link, frame.number))
        if kept is not None:
            # What was admitted, whether its publisher has left, or advertises something else by now.
            age, admitted = max(0.0, now - kept.published_at), kept.block.header
            return "", kept.block.with_header(
                msgspec.structs.replace(admitted, rescued=header.rescued, age=age, trace="")
            )
        if link.phase is not LinkPhase.GONE:
            return link.name, frame.block
        self._runtime.lost["unkept"] += len(frame.block)
        return "", None

    def _cut_off(self, link: Link, reason: str, now: float) -> None:
        if link.connection is not None:
            link.connection.close("protocol", reason)
        self._runtime.end(link, now, failed=True)

    def _tell_stage(self, link: Link, number: int, custody: Custody) -> None:
        """Have whoever sent a frame know how far it has come, now and later."""

        def tell(stage: Stage) -> None:
            link.session.reach(number, stage)
            self._runtime.dirty[link] = None

        custody.watch(tell)

    def tell_stages(self, now: float) -> None:
        """Tell those who have waited for a while how far their events have come."""
        for link in self._runtime.links.values():
            for number, (since, custody) in list(link.undealt.items()):
                if now - since < _SOON_S:
                    break
                if not custody.is_watched:
                    self._tell_stage(link, number, custody)

    def _failed(self, frame: _Frame) -> None:
        """Somebody further on could not deal with events: they are sent another way, whoever else waits."""
        runtime, link, block = self._runtime, frame.link, frame.block
        if not link.is_client:
            self._return(frame)
        elif frame.attempts < ATTEMPTS_MAX:
            frame.attempts += 1
            header = msgspec.structs.replace(block.header, rescued=runtime.world.mark())
            frame.block = block.with_header(header)
            self._again.append((runtime.world.time() + self._times.settle, frame))
            runtime.counts["rescued"] += len(block)
        else:
            runtime.lost["retries"] += len(block)
            if link.phase is not LinkPhase.GONE:
                text = f"{len(block):,} events could not be passed on to everybody, and are given up"
                runtime.notify(link, "lost", text, len(block))
            frame.custody.mended()

    def _return(self, frame: _Frame) -> None:
        """Have the neighbour that events came from send them another way; it must know before the ack."""
        link = frame.link
        if frame.is_returned or link.phase is LinkPhase.GONE:
            frame.custody.mended()
            return
        frame.is_returned = True
        told = Custody(lambda _succeeded: frame.custody.mended())
        self._runtime.say(link, Returned(frame.number), told)
        told.release()

    def _dealt_with(self, frame: _Frame, _succeeded: bool) -> None:
        """Everybody further on has dealt with a frame of events, or is given up."""
        runtime, link, number = self._runtime, frame.link, frame.number
        session = link.session
        link.undealt.pop(number, None)
        runtime.history.finish((link, number), runtime.world.time())
        if link.phase is LinkPhase.GONE:
            return
        runtime.dirty[link] = None

        def acknowledge(_succeeded: bool = True) -> None:
            session.dealt_with(number)
            runtime.dirty[link] = None

        trace = frame.block.header.trace
        if not trace:
            acknowledge()
            return
        # The report must be there before the acknowledgement.
        custody = Custody(acknowledge)
        report = runtime.tracing.report(trace, (link.name, number))
        if link.is_client:
            session.push_message(write_answer(Traced(trace, report)), custody, urgent=True)
        else:
            runtime.say(link, TraceReport(trace, report), custody)
        custody.release()

    def send_again(self, now: float) -> None:
        """Send what failed, or had to wait, and is due."""
        again = [frame for due, frame in self._again if due <= now]
        if again:
            self._again = [(due, frame) for due, frame in self._again if due > now]
        for frame in again:
            self._pass_on(frame, now)
            frame.custody.mended()
        metered = [one for one in self._metered if one.due <= now]
        if metered:
            self._metered = [one for one in self._metered if one.due > now]
        for one in metered:
            one.link.metered_bytes -= len(one.block.data)
            # If its link is gone, nothing of this was accepted, and the client knows.
            if one.link.phase is not LinkPhase.GONE:
                self._arrive(one.link, one.number, _older(one.block, now - one.came_at), now)


def _from_client(block: Block) -> Block:
    """Events as a client may send them: whether they were sent before and when, and nothing of their way."""
    header = block.header
    if not header.hops and not header.age and not header.replay:
        return block
    age = header.age if 0 < header.age < _AGE_MAX else 0.0
    return block.with_header(
        Header(header.tree, header.origin, rescued=header.rescued, trace=header.trace, age=age)
    )


def _older(block: Block, seconds: float) -> Block:
    """Events that have waited for a while, if they have an age."""
    header = block.header
    if not header.age:
        return block
    return block.with_header(msgspec.structs.replace(header, age=header.age + seconds))
