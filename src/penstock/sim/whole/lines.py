"""The lines between processes: who can connect to whom, and what is done to all that goes over one."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Final, Protocol

from penstock.errors import NetworkError
from penstock.node.connection import FrameConnection
from penstock.sim.clock import Clock
from penstock.sim.whole.pipes import End, Line
from penstock.sim.whole.process import Process, Timer

NEAR: Final = 0.0005
"""Seconds that bytes take between processes of which nothing else is said."""


class Listening(Protocol):
    """A process that others connect to."""

    process: Process

    def accept(self) -> FrameConnection:
        """Somebody connects."""


class Lines:
    """All connections."""

    def __init__(self, clock: Clock, random: Random) -> None:
        self._clock = clock
        self._random = random
        self._lines: dict[frozenset[str], Line] = {}
        self._ends: dict[frozenset[str], list[End]] = {}
        self._listening: dict[str, Listening] = {}
        self._silent: set[str] = set()
        """Machines that are gone without a word."""

    def line(self, a: str, b: str) -> Line:
        """What lies between two processes."""
        pair = frozenset((a, b))
        found = self._lines.get(pair)
        if found is None:
            found = self._lines[pair] = Line(NEAR)
        return found

    def listen(self, name: str, listening: Listening) -> None:
        """A process takes connections from now on."""
        self._listening[name] = listening
        self._silent.discard(name)

    def refuse(self, name: str) -> None:
        """A process takes no connections any more; those that there are stay."""
        self._listening.pop(name, None)

    # Connecting

    def dial(
        self,
        caller: Process,
        callee: str,
        make: Callable[[], FrameConnection],
        on_failed: Callable[[Exception], None],
    ) -> Timer:
        """Try to connect: what comes of it is known after the way there and back."""
        call = _Call(caller, callee, make, on_failed)
        self._clock.at(self._clock.now + self.line(caller.name, callee).latency, self._ring, call)
        return call.timer

    def _ring(self, call: "_Call") -> None:
        line = self.line(call.caller.name, call.callee)
        if line.stalled or call.callee in self._silent:
            # Nobody says anything: whoever tries has to give up by itself.
            return
        self._clock.at(self._clock.now + line.latency, self._answer, call)

    def _answer(self, call: "_Call") -> None:
        if not call.is_on:
            return
        line = self.line(call.caller.name, call.callee)
        listening = self._listening.get(call.callee)
        if line.is_cut or listening is None:
            call.caller.take(call.on_failed, NetworkError(f"{call.callee}: connection refused"))
        else:
            call.caller.take(self._connect, call, listening, line)

    def _connect(self, call: "_Call", listening: Listening, line: Line) -> None:
        if not call.is_on:
            return
        ours = End(call.caller, line, self._clock, self._random)
        theirs = End(listening.process, line, self._clock, self._random)
        ours.other, theirs.other = theirs, ours
        ends = self._ends.setdefault(frozenset((call.caller.name, call.callee)), [])
        ends[:] = [end for end in ends if end.is_open]
        ends += (ours, theirs)
        # The system takes the connection, whether or not the process runs at the moment.
        listening.process.take(_accept, theirs, listening)
        ours.attach(call.make())

    # Faults

    def stall(self, a: str, b: str) -> None:
        """Nothing that one process says gets to the other; neither is told."""
        self.line(a, b).stalled.add(a)

    def flow(self, a: str, b: str) -> None:
        """It gets there again, with all that has waited."""
        self.line(a, b).stalled.discard(a)
        for end in self._of(a, b):
            if end.process.name == a:
                end.flow()

    def sever(self, a: str, b: str) -> None:
        """End all connections between two processes, in the middle of what is under way."""
        for end in list(self._of(a, b)):
            end.sever()
        self._ends.pop(frozenset((a, b)), None)

    def silence(self, name: str) -> None:
        """A machine is gone without a word."""
        self._silent.add(name)
        self._listening.pop(name, None)
        for end in self._all(name):
            if end.process.name == name:
                end.forget()

    def reset(self, name: str) -> None:
        """A machine is back: whoever still uses a connection to what ran there is told that there is none."""
        for end in list(self._all(name)):
            if end.process.name != name and end.other is not None and end.other.is_gone:
                end.hear_of_end()

    def hang_up(self, name: str) -> None:
        """A process is gone: the system ends its connections, after what was written."""
        self._listening.pop(name, None)
        for end in self._all(name):
            if end.process.name == name:
                end.vanish()
                # Should the process come back with its memory, it finds its side closed too.
                end.hear_of_end()

    def _of(self, a: str, b: str) -> list[End]:
        return self._ends.get(frozenset((a, b)), [])

    def _all(self, name: str) -> Iterator[End]:
        for pair, ends in self._ends.items():
            if name in pair:
                yield from ends


class _Call:
    """A try to connect."""

    __slots__ = ("_life", "callee", "caller", "make", "on_failed", "timer")

    def __init__(
        self,
        caller: Process,
        callee: str,
        make: Callable[[], FrameConnection],
        on_failed: Callable[[Exception], None],
    ) -> None:
        self.caller = caller
        self.callee = callee
        self.make = make
        self.on_failed = on_failed
        self.timer = Timer(0.0, on_failed, ())
        self._life = caller.life

    @property
    def is_on(self) -> bool:
        """Whether somebody still waits for what comes of it."""
        return not self.timer.is_off and self.caller.is_alive and self.caller.life == self._life


def _accept(end: End, listening: Listening) -> None:
    if end.is_open:
        end.attach(listening.accept())
