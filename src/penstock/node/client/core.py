"""A client of a broker: asks, publishes, receives, and finds its way back when the connection is lost."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal, Protocol, TypeAlias

import numpy as np

from penstock.errors import AccessError, FilterError, NetworkError, PenstockError, WireError
from penstock.filters.parsing import as_predicate
from penstock.node.client.intake import Intake
from penstock.node.client.line import Line
from penstock.node.client.notices import Notice
from penstock.node.client.outlet import Outlet
from penstock.node.opening import Way
from penstock.node.world import World
from penstock.wire.blocks import Block, Header
from penstock.wire.greetings import Welcome
from penstock.wire.requests import (
    BEFORE_MAX,
    Answer,
    Ask,
    Before,
    Behind,
    Bye,
    Denied,
    Done,
    Notify,
    Offer,
    Rejected,
    Request,
    Traced,
    Unoffer,
    Unwant,
    Want,
    write_request,
)
from penstock.wire.sessions import Custody, Session, Stage

_RESTATED: Final = 2**62 - 1
"""The number of the last request with which a client says anew what it wants."""

_WITHDRAWN_MAX: Final = 64
"""Advertisements that are remembered after they were withdrawn, the last ones."""

_REPORTED_S: Final = 240.0
"""Seconds for which it is reported what was acknowledged under them, as brokers answer for it by default."""

_BYE_SECONDS_MAX: Final = 2.0
"""A broker has so long to answer a goodbye."""

_KEYLESS: Final = "events came without saying for which subscriptions"

OnDone: TypeAlias = Callable[[], object]
OnKey: TypeAlias = Callable[[str], object]
OnJson: TypeAlias = Callable[[bytes], object]
OnFailed: TypeAlias = Callable[[Exception], object]
"""Of two that are given, one is called, once, as soon as it is known which."""


def _nothing(*_told: object) -> None:
    """Nobody waits."""


class Sink(Protocol):
    """Where the events of a subscription go."""

    def put(self, data: bytes, header: Header, number: int, late: bool, custody: Custody) -> None:
        """Take an event: its bytes, and what its block says of it; hold the custody to have it waited for."""

    def end(self, error: Exception | None = None) -> None:
        """Nothing more will come."""


class ClientCore:
    """A client's logic. Raises what `check_open` does from whatever needs a broker."""

    def __init__(
        self,
        world: World,
        ways: Sequence[Way],
        *,
        name: str,
        token: str = "",
        when_slow: Literal["pause", "drop"] = "pause",
        reconnect: bool = True,
        timeout: float = 10.0,
        on_notice: Callable[[Notice], None] | None = None,
    ) -> None:
        self.name = name
        self.line = Line(
            self,
            world,
            ways,
            name=name,
            token=token,
            when_slow=when_slow,
            reconnect=reconnect,
            timeout=timeout,
            on_notice=on_notice,
        )
        self.outlet = Outlet(world, self.line.flush)
        self.advertised: dict[int, str] = {}
        """Filters by their keys, as far as the broker has taken them."""
        self.wanted: dict[int, str] = {}
        """Filters of subscriptions by their keys."""
        self._withdrawn: dict[int, str] = {}
        """Advertisements that were withdrawn: what was acknowledged under them is still reported."""
        self._made: dict[int, list[tuple[float, str]]] = {}
        """Since when each subscription has been what it is, and what it was before, the last first."""
        self._sinks: dict[int, Sink] = {}
        self._world = world
        self._timeout = timeout
        self._requests = 0
        self._asked: dict[int, tuple[Request, OnJson, OnFailed]] = {}
        self._keys = 0
        self._turn = 0
        """How often a session has begun."""
        self._granted = "true"
        """What may be advertised, which is advertised if nothing else is."""
        self._granting: list[tuple[OnKey, OnFailed]] = []
        """Who waits for that to be advertised."""
        self._reports: dict[str, bytes] = {}
        self._intake = Intake()
        self._closing: list[OnDone] = []

    # The connection

    def open(self, on_open: OnDone, on_failed: OnFailed) -> None:
        """Connect to the first broker that answers; else the error is a NetworkError or AccessError.

        Neither is called if `close` comes before there is an answer.
        """
        self.line.open(on_open, on_failed)

    def check_open(self) -> None:
        """Raise why there is no going on, if it is over."""
        if self.line.is_closed:
            raise self.line.error or NetworkError("the client is closed")

    def begin(self, session: Session, welcome: Welcome, silent: float) -> int:
        """A new session: say everything anew, and publish again what was not acknowledged.

        Nothing was heard for so many seconds, in which events may have been missed.
        """
        self.outlet.frame_bytes = welcome.frame_bytes
        self._granted = welcome.granted
        self._turn += 1
        for key, text in self.advertised.items():
            self._say(self._offer(0, key, text))
        for key, text in self._withdrawn.items():
            acked = self.outlet.acked(str(key))
            if acked and acked[0][0] < _REPORTED_S:
                self._say(self._offer(0, key, text))
                self._say(Unoffer(0, key))
        # What comes before all is said may have come for some subscriptions only.
        self._intake.is_restating = bool(self.wanted)
        last = next(reversed(self.wanted), None)
        if last is None:
            # Who wants nothing misses nothing; no broker will say so.
            self.line.is_behind(0.0)
        now = self._world.time()
        for key, text in self.wanted.items():
            (made_at, _text), *before = self._made[key]
            age = max(0.0, now - made_at)
            were = tuple(Before(max(0.0, now - at), was) for at, was in before)
            self._say(Want(_RESTATED if key == last else 0, key, text, silent, age, were, self.line.unheard))
        for request, _on_done, _on_failed in self._asked.values():
            if isinstance(request, Offer):
                request = self._offer(request.request, request.key, request.filter)
            self._say(request)
        return self.outlet.use(session, self._turn)

    def _offer(self, number: int, key: int, text: str) -> Offer:
        """An advertisement, with what brokers have acknowledged of what was published under it."""
        return Offer(number, key, text, self._turn, self.outlet.acked(str(key)))

    def _say(self, request: Request) -> None:
        self.line.session.push_message(write_request(request))

    # Requests

    def ask(self, make: Callable[[int], Request], on_done: OnJson, on_failed: OnFailed) -> int:
        """Ask something of the broker; again, if the session ends before the answer.

        Returns its number, for `forget`; others that return a number do the same, 0 where nothing was asked.
        """
        self.check_open()
        self._requests += 1
        number = self._requests
        request = make(number)
        self._asked[number] = request, on_done, on_failed
        self._say(request)
        self.line.flush()
        return number

    def forget(self, number: int) -> None:
        """Nobody waits for this answer any longer."""
        self._asked.pop(number, None)

    def status(self, on_json: OnJson, on_failed: OnFailed) -> int:
        """Ask what the broker says of itself."""
        return self.ask(Ask, on_json, on_failed)

    def answered(self, answer: Answer) -> None:
        """The broker has answered something, or says something by itself."""
        if isinstance(answer, Done | Denied):
            self._intake.is_restating &= answer.request != _RESTATED
            _request, on_done, on_failed = self._asked.pop(answer.request, (None, None, None))
            if isinstance(answer, Done):
                if on_done is not None:
                    on_done(answer.json)
            elif on_failed is not None:
                on_failed(_error_of(answer))
            else:
                self.line.notify("rejected", answer.reason)
        elif isinstance(answer, Notify):
            self.line.notify(answer.kind, answer.text, answer.count)
        elif isinstance(answer, Behind):
            self.line.is_behind(answer.seconds, answer.unheard)
        elif isinstance(answer, Traced):
            if answer.trace in self._reports:
                self._reports[answer.trace] = answer.json
        else:
            self._rejected(answer)

    def _rejected(self, answer: Rejected) -> None:
        self.outlet.reject(str(answer.key), answer.numbers, answer.reason)
        self.line.notify("rejected", answer.reason, len(answer.numbers))

    def new_key(self) -> int:
        """A key for an advertisement or a subscription."""
        self._keys += 1
        return self._keys

    # Advertisements

    def advertise(self, key: int, text: str, on_done: OnDone, on_failed: OnFailed) -> int:
        """Say what will be published under a key."""

        def done(_json: bytes) -> None:
            self.advertised[key] = text
            on_done()

        return self.ask(lambda number: self._offer(number, key, text), done, on_failed)

    def advertise_granted(self, on_key: OnKey, on_failed: OnFailed) -> None:
        """Advertise all that may be, once for all who ask meanwhile."""
        self.check_open()
        text = as_predicate(self._granted).to_sql()
        self._granting.append((on_key, on_failed))
        if len(self._granting) > 1:
            return
        key = self.new_key()

        def done() -> None:
            waiting, self._granting = self._granting, []
            for told, _on_failed in waiting:
                told(str(key))

        def failed(error: Exception) -> None:
            if isinstance(error, AccessError):
                error = AccessError(f"advertise what you publish, with advertise(filter): {error}")
            waiting, self._granting = self._granting, []
            for _on_key, told in waiting:
                told(error)

        self.advertise(key, text, done, failed)

    def withdraw(self, key: int, on_done: OnDone, on_failed: OnFailed) -> int:
        """Publish no more under a key."""
        self._drop_asked(Offer, key)
        if not self._end_offer(key):
            on_done()
            return 0
        return self.ask(lambda number: Unoffer(number, key), lambda _json: on_done(), on_failed)

    def take_back(self, key: int) -> None:
        """Withdraw an advertisement that was asked for, and that nobody waits for any longer."""
        self._end_offer(key)
        self._drop_asked(Offer, key)
        self._say(Unoffer(0, key))
        self.line.flush()

    def _end_offer(self, key: int) -> bool:
        """An advertisement is withdrawn; return whether there is one."""
        text = self.advertised.pop(key, None)
        if text is None:
            return False
        self._withdrawn[key] = text
        if len(self._withdrawn) > _WITHDRAWN_MAX:
            del self._withdrawn[next(iter(self._withdrawn))]
        return True

    # Subscriptions

    def subscribe(self, key: int, text: str, sink: Sink, on_done: OnDone, on_failed: OnFailed) -> int:
        """Want events that match a filter."""
        self.check_open()
        # Events may come before the answer.
        self.wanted[key], self._sinks[key] = text, sink
        self._made[key] = [(self._world.time(), text)]

        def failed(error: Exception) -> None:
            self.unsubscribe(key)
            on_failed(error)

        return self.ask(lambda number: Want(number, key, text), lambda _json: on_done(), failed)

    def change(self, key: int, text: str, on_done: OnDone, on_failed: OnFailed) -> int:
        """Have another filter under the same key."""
        asked_at = self._world.time()

        def done(_json: bytes) -> None:
            if key in self.wanted:
                self.wanted[key] = text
                self._made[key] = [(asked_at, text), *self._made[key]][:BEFORE_MAX]
            on_done()

        return self.ask(lambda number: Want(number, key, text), done, on_failed)

    def unsubscribe(self, key: int) -> None:
        """Want no more."""
        if self._let_go(key):
            self._say(Unwant(0, key))
            self.line.flush()

    def end_subscription(self, key: int, on_done: OnDone, on_failed: OnFailed) -> int:
        """Want no more, and tell when the broker knows, as far as there is one."""
        if self.line.is_connected and self._let_go(key):
            return self.ask(lambda number: Unwant(number, key), lambda _json: on_done(), on_failed)
        self.unsubscribe(key)
        on_done()
        return 0

    def _let_go(self, key: int) -> bool:
        """End a subscription here; return whether the broker has to know."""
        self._sinks.pop(key, None)
        self._made.pop(key, None)
        is_wanted = self.wanted.pop(key, None) is not None
        self._drop_asked(Want, key)
        return is_wanted and not self.line.is_closed

    def _drop_asked(self, kind: type[Want | Offer], key: int) -> None:
        """What is taken back before the broker has answered is not asked again in a new session."""
        asked = [n for n, (one, *_) in self._asked.items() if isinstance(one, kind) and one.key == key]
        for _request, _on_done, on_failed in [self._asked.pop(number) for number in asked]:
            on_failed(NetworkError("this was taken back before the broker had answered"))

    # Traces

    def trace(self, key: str, event: bytes, on_report: OnJson, on_failed: OnFailed) -> None:
        """Publish a marked event; tell the way that it took, as JSON."""
        mark = f"{self._world.mark():016x}"

        def settled(error: Exception | None) -> None:
            report = self._reports.pop(mark)
            if error is None and not report:
                # It comes before the acknowledgement, or not at all.
                error = AccessError("the broker traced nothing: that needs the right to monitor")
            if error is None:
                on_report(report)
            else:
                on_failed(error)

        self._reports[mark] = b""
        try:
            self.outlet.put_traced(key, event, mark, settled)
        except PenstockError:
            del self._reports[mark]
            raise

    # Receiving

    def receive(self, number: int, block: Block) -> None:
        """Hand out the events of a block, but for those that came before for the same subscriptions."""
        session, line = self.line.session, self.line

        def dealt_with(_succeeded: bool) -> None:
            session.dealt_with(number)
            line.acknowledge_soon()

        custody = Custody(dealt_with)
        if block.number is None:
            self._hand_out(block, custody)
        elif block.key_list is None:
            raise WireError(_KEYLESS)
        else:
            self._hand_out_one(block, block.number, block.key_list, custody)
        custody.release()
        if not custody.is_done:
            session.reach(number, Stage.TAKEN)
            line.acknowledge_soon()

    def _hand_out_one(self, block: Block, number: int, keys: Sequence[int], custody: Custody) -> None:
        intake, header = self._intake, block.header
        is_new, is_late = intake.take(header.origin, number)
        if intake.is_restating or not is_new:
            keys = [key for key in keys if intake.is_due(header.origin, number, key, is_new=is_new)]
        data = bytes(block.data)
        for key in keys:
            sink = self._sinks.get(key)
            if sink is not None:
                sink.put(data, header, number, is_late, custody)

    def _hand_out(self, block: Block, custody: Custody) -> None:
        header = block.header
        new, is_late = self._intake.take(header.origin, block.numbers)
        if block.keys is None or block.key_offsets is None:
            raise WireError(_KEYLESS)
        sinks = self._sinks
        data, offsets = bytes(block.data), block.offsets.tolist()
        numbers, late = block.numbers.tolist(), is_late.tolist()
        # An event comes up once for each subscription that it is for.
        rows = np.repeat(np.arange(len(block)), np.diff(block.key_offsets))
        pairs: Iterable[tuple[int, int]] = zip(block.keys.tolist(), rows.tolist(), strict=True)
        if self._intake.is_restating or not new.all():
            is_due, origin, fresh = self._intake.is_due, header.origin, new.tolist()
            pairs = [(key, at) for key, at in pairs if is_due(origin, numbers[at], key, is_new=fresh[at])]
        for key, at in pairs:
            sink = sinks.get(key)
            if sink is not None:
                sink.put(data[offsets[at] : offsets[at + 1]], header, numbers[at], late[at], custody)

    # The end

    def fail(self, error: Exception) -> None:
        """It is over: everybody who waits is told."""
        self.outlet.fail(error)
        for sink in list(self._sinks.values()):
            sink.end(error)
        self._fail_requests(error)

    def _fail_requests(self, error: Exception) -> None:
        asked, self._asked = self._asked, {}
        for _request, _on_done, on_failed in asked.values():
            on_failed(error)

    def close(self, on_closed: OnDone = _nothing) -> None:
        """Say goodbye and end. What waits for an acknowledgement is told that it will not come."""
        self._closing.append(on_closed)
        if len(self._closing) > 1:
            return
        if self.line.is_closed:
            self._finish()
            return
        self.outlet.flush()
        if not self.line.is_connected:
            self._finish()
            return
        has_left = False

        def leave(*_answer: object) -> None:
            nonlocal has_left
            if not has_left:
                has_left = True
                limit.cancel()
                self._finish()

        limit = self._world.call_later(min(self._timeout, _BYE_SECONDS_MAX), leave)
        self.ask(Bye, leave, leave)

    def _finish(self) -> None:
        self.line.is_closed = True
        self._fail_requests(self.line.error or NetworkError("the client is closed"))
        for sink in list(self._sinks.values()):
            sink.end(self.line.error)
        self.outlet.fail(NetworkError("the client was closed before this was acknowledged"))
        self.line.close(self._closed)

    def _closed(self) -> None:
        closing, self._closing = self._closing, []
        for on_closed in closing:
            on_closed()


def _error_of(denied: Denied) -> PenstockError:
    if denied.code == "access":
        return AccessError(denied.reason)
    return FilterError(denied.reason) if denied.code == "filter" else NetworkError(denied.reason)
