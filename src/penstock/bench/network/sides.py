"""The publisher and the subscriber: a process each, told through a pipe what to do next.

How many deliveries the subscriber has had stands in memory that both share; see `pacing`. Times are those
of the monotonic clock, which is one for all processes of a machine.
"""

import asyncio
import contextlib
import signal
import time
from array import array
from collections.abc import Callable, Coroutine
from ctypes import c_int64
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.bench.network import pacing
from penstock.bench.network.party import Party, parties
from penstock.bench.network.workload import Oracle, Plan, Workload
from penstock.errors import PenstockError
from penstock.net.serve import loop_factory

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_POLL: Final = 0.005
_COUNT_EVERY: Final = 0.001
_SETTLE: Final = 0.2
"""Seconds in which deliveries that should not be may still come."""


class Saturate(msgspec.Struct, frozen=True):
    """Publish events from `first` up to `last`, as fast as they are delivered, for this time at most."""

    first: int
    last: int
    seconds: float


class Pace(msgspec.Struct, frozen=True):
    """Publish so many events at this rate, for so many seconds at most."""

    first: int
    count: int
    rate: float
    seconds: float


class Collect(msgspec.Struct, frozen=True):
    """Hand over deliveries: when there were so many in all, or none came for `patience` seconds."""

    deliveries: int
    patience: float


class Task(msgspec.Struct, frozen=True):
    """What both sides have to know from the start."""

    url: str
    """Where the publisher connects."""
    far_url: str
    """Where the subscriber does."""
    plan: Plan
    matches: NDArray[np.int64]
    """How many subscriptions each event of the pool matches."""
    counter: Any
    """How many deliveries the subscriber has had; see `shared_counter`."""


class Ready(msgspec.Struct, frozen=True):
    """A side is connected, the subscriber has subscribed; that took so long."""

    seconds: float


class Published(msgspec.Struct, frozen=True):
    """Events up to `last` were published between these times."""

    last: int
    started: int
    ended: int


class Collected(msgspec.Struct, frozen=True):
    """The deliveries since the last time: number of the event, time of arrival, time since it was sent."""

    seqs: NDArray[np.int64]
    arrivals: NDArray[np.int64]
    delays: NDArray[np.int64]


class Failed(msgspec.Struct, frozen=True):
    """What went wrong."""

    text: str


Command: TypeAlias = Saturate | Pace | Collect
Answer = TypeVar("Answer", Ready, Published, Collected)
Work: TypeAlias = Callable[["Connection", Party, "Task"], Coroutine[Any, Any, None]]


class Side:
    """One of the two processes, seen from the one that measures."""

    def __init__(self, what: str, work: Work, party: Party, task: Task) -> None:
        context = get_context("spawn")
        self._what = f"{party.name}'s {what}"
        self._pipe, theirs = context.Pipe()
        arguments = (theirs, work, party.name, task)
        self._process = context.Process(target=_run, args=arguments, daemon=True)
        self._process.start()
        theirs.close()

    def send(self, command: Command) -> None:
        """Tell it what to do."""
        # Where it has ended, the answer says why.
        with contextlib.suppress(OSError):
            self._pipe.send(command)

    def answer(self, kind: type[Answer], seconds: float) -> Answer:
        """What it has to say; an error where that is not so, or takes longer."""
        try:
            if not self._pipe.poll(seconds):
                raise PenstockError(f"{self._what} has not answered for {seconds:.0f} seconds")
            found = self._pipe.recv()
        except (EOFError, OSError):
            raise PenstockError(f"{self._what} has ended") from None
        if isinstance(found, kind):
            return found
        text = found.text if isinstance(found, Failed) else repr(found)
        raise PenstockError(f"{self._what}: {text:.500}")

    def stop(self) -> None:
        """End the process."""
        self._pipe.close()
        self._process.join(3)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def shared_counter() -> Any:
    """A number that several processes see; one of them writes it."""
    return get_context("spawn").RawValue(c_int64, 0)


def _run(pipe: "Connection", work: Work, name: str, task: Task) -> None:
    # Ctrl-C is the parent's to tell of; it then closes the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        # The quickest loop that there is, for all parties.
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(work(pipe, parties()[name], task))
    except Exception as error:
        with contextlib.suppress(OSError):
            pipe.send(Failed(f"{type(error).__name__}: {error}"))


async def publish_events(pipe: "Connection", party: Party, task: Task) -> None:
    """The publisher's process."""
    oracle = Oracle(task.matches, once=party.once)
    workload, counter = Workload(task.plan), task.counter
    made, _ = workload.event, workload.events  # made before the clock runs
    started = time.perf_counter()
    client = await party.publisher(task.url)
    pipe.send(Ready(time.perf_counter() - started))

    async def publish(first: int, times: list[int]) -> None:
        await client.publish([made(seq, sent) for seq, sent in enumerate(times, first)])

    try:
        while (command := await _next(pipe, lambda: False)) is not None:
            begun = time.monotonic_ns()
            if isinstance(command, Saturate):
                last = await pacing.saturate(
                    publish, command.first, command.last, command.seconds, oracle.until, lambda: counter.value
                )
            elif isinstance(command, Pace):
                last = await pacing.pace(publish, command.first, command.count, command.rate, command.seconds)
            else:
                raise PenstockError(f"a publisher cannot {command!r:.80}")
            await client.flush()
            pipe.send(Published(last, begun, time.monotonic_ns()))
    finally:
        await client.close()


async def receive_events(pipe: "Connection", party: Party, task: Task) -> None:
    """The subscriber's process."""
    workload, counter = Workload(task.plan), task.counter
    seqs, arrivals, delays = array("q"), array("q"), array("q")
    clock = time.monotonic_ns

    handed_over = 0

    def take(seq: int, sent: int) -> None:
        now = clock()
        seqs.append(seq)
        arrivals.append(now)
        delays.append(now - sent)

    def received() -> int:
        return handed_over + len(seqs)

    async def count() -> None:
        # Now and then: for each delivery it would cost more than some of them do.
        while True:
            counter.value = received()
            await asyncio.sleep(_COUNT_EVERY)

    _ = workload.filters  # made before the clock runs
    ready = asyncio.Event()
    started = time.perf_counter()
    counting = asyncio.create_task(count())
    receiving = asyncio.create_task(party.receive(task.far_url, workload, take, ready))
    await asyncio.wait((receiving, asyncio.create_task(ready.wait())), return_when=asyncio.FIRST_COMPLETED)
    if ready.is_set():
        pipe.send(Ready(time.perf_counter() - started))
    while (command := await _next(pipe, receiving.done)) is not None:
        if not isinstance(command, Collect):
            raise PenstockError(f"a subscriber cannot {command!r:.80}")
        await _settled(command, received, receiving.done)
        found = [np.array(each, dtype=np.int64) for each in (seqs, arrivals, delays)]
        handed_over += len(seqs)
        for each in (seqs, arrivals, delays):
            del each[:]
        pipe.send(Collected(*found))
    counting.cancel()
    if receiving.done():
        await receiving  # says why
        raise PenstockError("the broker has closed the connection")
    receiving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await receiving


async def _next(pipe: "Connection", over: Callable[[], bool]) -> Command | None:
    """The next command; None at the end."""
    try:
        while not pipe.poll():
            if over():
                return None
            await asyncio.sleep(_POLL)
        command: Command = pipe.recv()
    except (EOFError, OSError):
        return None
    return command


async def _settled(command: Collect, received: Callable[[], int], over: Callable[[], bool]) -> None:
    """Wait until all deliveries have come, and for those that are too many; or until no more come."""
    had, since = received(), time.monotonic()
    while had < command.deliveries and time.monotonic() - since < command.patience and not over():
        await asyncio.sleep(_POLL)
        if received() != had:
            had, since = received(), time.monotonic()
    await asyncio.sleep(_SETTLE)
