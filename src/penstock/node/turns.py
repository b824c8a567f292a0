"""Whose filters a broker looks at next: requests of clients in their order, and subjects in turn.

A filter may take long to understand. So what is not plain is parsed and held against the grants elsewhere
(`World.compute`: in a thread of a live broker, at once under virtual time), one at a time, while events,
acknowledgements and plain requests go on. What a request costs in time of a processor is counted to whoever
sent it, over all connections of a subject. Who has used up an allowance waits before the next filter, and
longer for expensive ones; others are not held up by that, and neither is anything else that it sends. All
subjects together have expensive filters parsed for a tenth of the time at most (`REST_FACTOR`).

Requests that wait keep their order with all others of the same client, and are acknowledged when they are
served: so no more of them wait than a window of bytes. Events under an advertisement that waits wait for it
(`Link.awaited`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

from penstock.broker.grants import EVERYTHING
from penstock.errors import EventError, LimitError, WireError
from penstock.filters.predicate import Predicate
from penstock.model.schema import Schema
from penstock.node.asking import Prepared, has_plain_filters, prepared
from penstock.node.links import Link, LinkPhase, Waiting
from penstock.node.logs import LOG
from penstock.node.world import Spent, Timer, World
from penstock.wire.requests import Bye, Offer, Request, Unoffer, Want

ALLOWANCE: Final = 0.25
"""Seconds of a processor that a subject may be ahead of its share."""

DEAR: Final = 0.01
"""Seconds of a processor from which on a request is expensive: a hundred times an ordinary one."""

DEAR_FACTOR: Final = 9
"""After an expensive request its sender waits so many times as long; after others once as long."""

LONG: Final = 0.002
"""Seconds of a processor from which on what was computed is followed by a rest, whoever asked."""

REST_FACTOR: Final = 9
"""The rest is so many times as long as what was computed.

The loop and what is computed share an interpreter. So all subjects together have it busy with expensive
filters for a tenth of the time at most."""

REST_MAX: Final = 0.45
"""Seconds that a rest lasts at the most: no filter within the limits takes longer than 50 ms."""

_SLICE: Final = 64
"""Requests that are served before anything else has its turn."""

_ACCOUNTS_MAX: Final = 10_000
"""Subjects whose use is remembered; those who owe nothing are forgotten first."""


class Broker(Protocol):
    """Who serves requests."""

    def serve(self, link: Link, number: int, request: Request, found: Prepared | None, now: float) -> None:
        """Do what a client asks for, and answer; `found`: what its filter is, if that has been found out."""

    def cut_off(self, link: Link, reason: str, now: float) -> None:
        """End a link that has made a mistake."""

    def decided(self, link: Link, now: float) -> None:
        """An advertisement that events waited for is decided."""

    def flush(self) -> None:
        """Write what waits."""


@dataclass(eq=False)
class _Account:
    """What a subject has used, and its links with requests that wait, in turn."""

    until: float = 0.0
    """When all that it has used is made up for."""
    links: dict[Link, None] = field(default_factory=dict)

    @property
    def ready_at(self) -> float:
        return self.until - ALLOWANCE


class Turns:
    """Requests of clients, from when they come until they are served."""

    def __init__(
        self,
        broker: Broker,
        world: World,
        prepare: Callable[[Predicate], object] = lambda _predicate: None,
        schema: Schema | None = None,
    ) -> None:
        """`prepare`: called where filters are parsed, with each that will be matched.

        `schema`: what filters have to fit, if anything; that is found out where they are parsed.
        """
        self._schema = schema
        self._broker = broker
        self._prepare = prepare
        self._world = world
        self._accounts: dict[str, _Account] = {}
        self._order: dict[str, None] = {}
        """The subjects with requests that wait, whose turn is next first."""
        self._is_computing = False
        self._is_serving = False
        self._rests_until = float("-inf")
        self._timer: Timer | None = None

    def take(self, link: Link, number: int, request: Request, size: int, now: float) -> None:
        """A client asks for something. Raises what serving it does, if that is at once."""
        if isinstance(request, Bye):
            # It goes, and with it all that it has asked for.
            self.forget(link)
        if not link.requests and not self._has_to_wait(link, request, now):
            self._serve(link, Waiting(number, request, size), None, now)
            return
        link.requests.append(Waiting(number, request, size))
        link.request_bytes += size
        if isinstance(request, Offer | Unoffer):
            link.awaited[str(request.key)] += 1
        self._account(link.payer).links[link] = None
        self._order.setdefault(link.payer)
        self._go_on()

    def forget(self, link: Link) -> None:
        """Let go of what a link has asked for and not been served."""
        link.requests.clear()
        link.awaited.clear()
        link.request_bytes = 0
        self._leave(link)

    def stop(self) -> None:
        """Nothing more is to happen by itself."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _has_to_wait(self, link: Link, request: Request, now: float) -> bool:
        if not isinstance(request, Want | Offer):
            return False
        account = self._accounts.get(link.payer)
        return (account is not None and account.ready_at > now) or not self._is_plain(request)

    def _is_plain(self, request: Want | Offer) -> bool:
        """Whether it is understood at once, where it is served."""
        return self._schema is None and has_plain_filters(request)

    def _account(self, payer: str) -> _Account:
        account = self._accounts.get(payer)
        if account is None:
            if len(self._accounts) >= _ACCOUNTS_MAX:
                now = self._world.time()
                for other, known in list(self._accounts.items()):
                    if known.until <= now and not known.links:
                        del self._accounts[other]
            account = self._accounts[payer] = _Account()
        return account

    def _leave(self, link: Link) -> None:
        account = self._accounts.get(link.payer)
        if account is not None:
            account.links.pop(link, None)
            if not account.links:
                self._order.pop(link.payer, None)

    # Serving

    def _go_on(self) -> None:
        """Serve those whose turn it is, until one is being computed, or all have to wait, or for a while."""
        if self._is_serving:
            return
        self.stop()
        self._is_serving = True
        try:
            for _ in range(_SLICE):
                now = self._world.time()
                link = None if self._is_computing or now < self._rests_until else self._next(now)
                if link is None:
                    break
                self._begin(link)
        finally:
            self._is_serving = False
        if self._order and not self._is_computing:
            now = self._world.time()
            ready_at = min(self._accounts[payer].ready_at for payer in self._order)
            ready_at = max(ready_at, self._rests_until)
            self._timer = self._world.call_later(max(0.0, ready_at - now), self._go_on_later)

    def _go_on_later(self) -> None:
        self._timer = None
        self._go_on()
        self._broker.flush()

    def _next(self, now: float) -> Link | None:
        """The link whose request is served next: subjects take turns, and so do the links of one."""
        for payer in self._order:
            account = self._accounts[payer]
            if account.ready_at <= now:
                del self._order[payer]
                self._order[payer] = None
                link = next(iter(account.links))
                del account.links[link]
                account.links[link] = None
                return link
        return None

    def _begin(self, link: Link) -> None:
        waiting = link.requests[0]
        request = waiting.request
        grants = EVERYTHING if link.identity is None else link.identity.grants
        if not isinstance(request, Want | Offer) or self._is_plain(request):
            self._finish(link, waiting, None)
        elif not grants.has_any("subscribe" if isinstance(request, Want) else "advertise"):
            # It is refused without a look at its filter.
            self._finish(link, waiting, None)
        else:
            self._is_computing = True
            self._world.compute(
                partial(prepared, request, grants, self._prepare, self._schema),
                partial(self._computed, link, waiting, link.payer),
            )

    def _computed(self, link: Link, waiting: Waiting, payer: str, found: Prepared, spent: Spent) -> None:
        """What a filter is has been found out."""
        self._is_computing = False
        self._charge(payer, spent.seconds)
        if spent.seconds > LONG:
            rest = REST_FACTOR * spent.seconds - spent.rested
            self._rests_until = self._world.time() + min(rest, REST_MAX)
        if link.phase is not LinkPhase.GONE and link.requests and link.requests[0] is waiting:
            self._finish(link, waiting, found)
        if not self._is_serving:
            self._go_on()
            self._broker.flush()

    def _finish(self, link: Link, waiting: Waiting, found: Prepared | None) -> None:
        """Serve the first request of those of a link that wait."""
        link.requests.popleft()
        link.request_bytes -= waiting.size
        if not link.requests:
            self._leave(link)
        now = self._world.time()
        request = waiting.request
        try:
            self._serve(link, waiting, found, now)
            if isinstance(request, Offer | Unoffer):
                self._decide(link, str(request.key), now)
        except (WireError, EventError, LimitError) as error:
            self._broker.cut_off(link, str(error), now)
        except Exception:
            # A mistake of ours must not keep others from being served, nor be repeated by whoever led to it.
            LOG.exception("a request of %s led to an error", link.peer)
            self._broker.cut_off(link, "internal error", now)

    def _decide(self, link: Link, key: str, now: float) -> None:
        link.awaited[key] -= 1
        if link.awaited[key] <= 0:
            del link.awaited[key]
            self._broker.decided(link, now)

    def _serve(self, link: Link, waiting: Waiting, found: Prepared | None, now: float) -> None:
        begun = self._world.cpu_time()
        try:
            self._broker.serve(link, waiting.number, waiting.request, found, now)
        finally:
            if isinstance(waiting.request, Want | Offer):
                self._charge(link.payer, self._world.cpu_time() - begun)

    def _charge(self, payer: str, spent: float) -> None:
        """Count what a request has cost."""
        if spent > 0:
            account = self._account(payer)
            wait = spent * (DEAR_FACTOR if spent > DEAR else 1)
            account.until = max(account.until, self._world.time()) + wait
