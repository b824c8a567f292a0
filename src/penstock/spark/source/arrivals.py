"""The subscriber beside a stream: takes events, writes them to the log, and then acknowledges them.

It lives in a thread of the process that Spark keeps at the driver for a stream's offsets. The broker is told
that an event is dealt with when it is on disk, and sends no more than its window before that.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from penstock.errors import NetworkError, PenstockError
from penstock.net.client.subscriptions import Received, Subscription
from penstock.node.client.notices import Notice
from penstock.spark.source.connection import connecting
from penstock.spark.source.log import Entry, Log
from penstock.spark.source.news import tell
from penstock.spark.source.options import Options

_LOG: Final = logging.getLogger(__name__)

TOGETHER_MAX: Final = 65_536
"""Events of one file of the log."""

_LINGER_S: Final = 0.02
"""For so long it is waited for others after an event: each file costs a sync of the disk."""

_MISSED: Final = frozenset({"missed", "paused", "dropped"})
"""What a client is told when events may not have come."""

_CONNECTED: Final = {"disconnected": False, "reconnected": True, "missed": True}
"""What it is told of the connection."""


class Arrivals:
    """Takes events into a log, in a thread of its own."""

    def __init__(self, log: Log, options: Options) -> None:
        self.log = log
        self._options = options
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._ready = threading.Event()
        self._error: BaseException | None = None
        self._is_connected = False
        self._missed = 0
        # A publisher that lost its broker may send again what was already here before a restart.
        self._known = log.known()
        self._thread = threading.Thread(target=self._run, name="penstock-arrivals", daemon=True)

    def start(self) -> None:
        """Subscribe; return when the broker knows. Raises what went wrong."""
        self._thread.start()
        self._ready.wait()
        self.check()

    def check(self) -> None:
        """Raise what has gone wrong since."""
        if isinstance(self._error, PenstockError | OSError):
            raise self._error
        if self._error is not None:
            raise NetworkError(f"events can no longer be taken: {self._error!r:.300}") from self._error

    def wait(self, seconds: float, is_enough: Callable[[], bool]) -> None:
        """Wait for so long, or until there is enough."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not is_enough():
            self.check()
            time.sleep(0.01)

    def stop(self) -> None:
        """Take no more."""
        loop, task = self._loop, self._task
        if loop is not None and task is not None and self._thread.is_alive():
            loop.call_soon_threadsafe(task.cancel)
        self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._take())
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            self._error = error
        finally:
            self._ready.set()

    async def _take(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        options = self._options
        async with connecting(options, "source", reconnect=True, on_notice=self._noticed) as net:
            # Not entered: on leaving, what waits would be let go as if it were dealt with.
            subscription = await net.subscribe(options.filter, ack="manual")
            self._is_connected = True
            tell(self.log.folder, is_connected=True, missed=self._missed)
            self._ready.set()
            while True:
                taken = await together(subscription, TOGETHER_MAX)
                while self.log.nbytes > options.max_log_bytes:
                    await asyncio.sleep(_LINGER_S)
                now = time.time_ns()
                new = [Entry(one.data, one.origin, one.number, now) for one in taken if self._is_new(one)]
                # Aside: while the disk works, the connection is to be kept alive.
                await asyncio.to_thread(self.log.append, new)
                for one in taken:
                    one.ack_nowait()

    def _is_new(self, event: Received) -> bool:
        return (event.origin, event.number) not in self._known

    def _noticed(self, notice: Notice) -> None:
        self._missed += notice.kind in _MISSED
        if notice.kind in _CONNECTED:
            self._is_connected = _CONNECTED[notice.kind]
        if notice.kind in _CONNECTED or notice.kind in _MISSED:
            tell(self.log.folder, is_connected=self._is_connected, missed=self._missed)
        if notice.kind not in _MISSED:
            return
        if self._options.missed == "fail" and self._task is not None:
            self._error = NetworkError(
                f"events may have been missed, and option('missed') is 'fail': {notice.text}"
            )
            self._task.cancel()
        else:
            _LOG.warning("events may have been missed: %s", notice.text)


async def together(subscription: Subscription, most: int) -> list[Received]:
    """The next event, and those that come with it."""
    try:
        taken = [await anext(subscription)]
    except StopAsyncIteration:
        raise NetworkError("the subscription has ended") from None
    await asyncio.sleep(_LINGER_S)
    while subscription.pending and len(taken) < most:
        taken.append(await anext(subscription))
    return taken
