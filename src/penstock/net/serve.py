"""Brokers in this process, from their start until somebody ends them."""

import asyncio
import errno
import logging
import os
import ssl
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, Final, Protocol, TypeAlias

from penstock.errors import NetworkError, PenstockError
from penstock.net.checks import cautions
from penstock.net.collecting import collecting_what_is_new
from penstock.net.config import BrokerConfig
from penstock.net.signals import heeded

_LOG: Final = logging.getLogger(__name__)

CLOSE_S: Final = 5.0
"""Seconds that closing may take, which waits for nobody else and so takes none."""

_SWITCH_S: Final = 0.0002
"""Seconds for which one thread may keep another from running Python; 0.005 where nobody says so."""

_HINTS: Final = {
    errno.EADDRINUSE: "; another program listens there: end it, or give another port",
    errno.EACCES: "; ports below 1024 are often for the administrator only",
    errno.EADDRNOTAVAIL: "; that is no address of this machine",
}


class Serving(Protocol):
    """What is run: `penstock.net.server.Server`."""

    async def start(self) -> None:
        """Listen; return when clients can connect."""

    @property
    def urls(self) -> Sequence[str]:
        """Where it listens, with the real ports."""

    @property
    def gateway_url(self) -> str | None:
        """Where its gateway listens, if it has one."""

    async def drain(self) -> None:
        """Take nothing more, and deliver what has been taken."""

    async def close(self) -> None:
        """Close all at once. May be called at any time, also after a start that failed."""


_Broker: TypeAlias = tuple[BrokerConfig, Serving]


def run(configs: Sequence[BrokerConfig]) -> int:
    """Serve in a loop of its own, uvloop's where it is installed, which is faster."""
    _allow_many_connections()
    # Filters are parsed in a thread; the loop is not to wait for it for longer than this.
    sys.setswitchinterval(_SWITCH_S)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(serve(configs))


def _allow_many_connections() -> None:
    """Have as many sockets open as the system allows, which is often more than it gives at first."""
    try:
        import resource
    except ImportError:
        return  # there is no such bound
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes the fastest loop that there is; None is asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def serve(
    configs: Sequence[BrokerConfig], *, make_server: Callable[[BrokerConfig], Serving] | None = None
) -> int:
    """Run brokers until SIGTERM or SIGINT; return the exit status.

    Each says on standard output where it listens, once it does. After the signal they drain, each for as long
    as its settings say; a second signal closes them at once.
    """
    if make_server is None:
        make_server = import_module("penstock.net.server").Server
    signals = _Signals()
    with heeded(signals.come):
        made: list[_Broker] = []
        up: list[_Broker] = []
        try:
            if await _unless(signals.first, _start(configs, make_server, made, up)):
                with collecting_what_is_new(asyncio.get_running_loop().call_soon_threadsafe):
                    await signals.first.wait()
            _LOG.info("draining")
            await _unless(signals.second, _each(_drain, up))
        finally:
            await _each(_close, made)
    return 0


class _Signals:
    """The first signal, and the second."""

    def __init__(self) -> None:
        self.first = asyncio.Event()
        self.second = asyncio.Event()

    def come(self) -> None:
        """There is one."""
        (self.second if self.first.is_set() else self.first).set()


async def _unless(event: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Do something unless, or until, something else happens; return whether it was done."""
    doing, waiting = asyncio.ensure_future(work), asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({doing, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            doing.result()
        return doing.done()
    finally:
        doing.cancel()
        waiting.cancel()
        await asyncio.gather(doing, waiting, return_exceptions=True)


async def _start(
    configs: Sequence[BrokerConfig],
    make_server: Callable[[BrokerConfig], Serving],
    made: list[_Broker],
    up: list[_Broker],
) -> None:
    """Start brokers one after the other; say which are there, and which are up, also when one cannot be."""
    for config in configs:
        for line in cautions(config):
            _LOG.warning("%s", line)
        try:
            server = make_server(config)
            made.append((config, server))
            await server.start()
            up.append((config, server))
        except PenstockError:
            raise
        except OSError as error:
            raise NetworkError(f"{config.name}: {_why(config, error)}") from error
        for url in server.urls:
            sys.stdout.write(f"{config.name} listening on {url}\n")
        if server.gateway_url:
            sys.stdout.write(f"{config.name} gateway on {server.gateway_url}\n")
        sys.stdout.flush()


def _why(config: BrokerConfig, error: OSError) -> str:
    """Why a broker cannot start, in words."""
    if isinstance(error, ssl.SSLError):
        return f"its certificates cannot be used: {error}"
    what = error.strerror or str(error)
    if error.errno is not None and error.errno in errno.errorcode:
        # What the loops say of an address differs; what the system says does not.
        what = os.strerror(error.errno)
    what = what.lower()
    if error.filename is not None:
        return f"{error.filename}: {what}"
    where = [*config.listen, *filter(None, [config.gateway.listen])]
    return f"cannot listen on {' or '.join(where)}: {what}{_HINTS.get(error.errno or 0, '')}"


async def _each(
    act: Callable[[BrokerConfig, Serving], Coroutine[Any, Any, None]],
    brokers: list[_Broker],
) -> None:
    """Do the same with all brokers at once."""
    await asyncio.gather(*(act(config, server) for config, server in brokers))


async def _drain(config: BrokerConfig, server: Serving) -> None:
    try:
        # It keeps to its time itself, and closes after that.
        async with asyncio.timeout(config.times.drain + CLOSE_S):
            await server.drain()
    except TimeoutError:
        _LOG.warning("%s: not all was delivered within %g s (times.drain)", config.name, config.times.drain)
    except Exception:
        # The others are drained all the same, and all are closed.
        _LOG.exception("%s: draining failed", config.name)


async def _close(config: BrokerConfig, server: Serving) -> None:
    try:
        async with asyncio.timeout(CLOSE_S):
            await server.close()
    except TimeoutError:
        _LOG.warning("%s: did not close within %g s", config.name, CLOSE_S)
    except Exception:
        _LOG.exception("%s: closing failed", config.name)
