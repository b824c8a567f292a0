"""`penstock pub` and `penstock advertise`: events of arguments or of standard input, published."""

import argparse
import asyncio
import os
import stat
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from penstock.cli.connecting import advertised, connected, filter_of, in_a_loop, note, say
from penstock.cli.events import EventOptions, families_given, json_event
from penstock.cli.files import LINE_LENGTH_MAX, Advance, PlacedError, placed
from penstock.cli.progress import progress
from penstock.cli.streams import InputLines, Line, Output
from penstock.errors import EventError, NetworkError
from penstock.filters.asked import times_in
from penstock.filters.parsing import parse
from penstock.filters.predicate import Predicate
from penstock.model.events import Event, with_times
from penstock.net.client.client import Advertisement, Client
from penstock.node.client.notices import Notice
from penstock.node.client.outlet import Ack, RejectedError

_EVERYTHING: Final = parse("true")

_FILE_HINT: Final = "; to publish the lines of a file: penstock pub < FILE"
"""For an argument that looks like the name of one."""


def run(options: argparse.Namespace) -> int:
    """Publish events, and end."""
    return in_a_loop(_publish(options))


def advertise(options: argparse.Namespace) -> int:
    """Hold an advertisement, and publish under it what comes."""
    return in_a_loop(_hold(options))


async def _publish(options: argparse.Namespace) -> int:
    predicate = filter_of("--advertise", options.advertise or "true")
    counts = Counts()
    reading = Reading(options, predicate, counts)
    # A mistake in an argument is told before anything is published.
    given = reading.arguments(options.events)
    async with connected(options, counts.on_notice) as client:
        advertisement = await advertised(client, options.advertise, predicate)
        publisher = Publisher(client, advertisement, counts, options)
        with _summary(counts, options, "published and acknowledged"):
            if options.events:
                await publisher.publish(given)
            else:
                with _input_progress() as advance:
                    await _publish_input(reading, publisher, advance)
            await publisher.finish()
    return 0


async def _hold(options: argparse.Namespace) -> int:
    predicate = filter_of("FILTER", options.filter)
    counts = Counts()
    reading = Reading(options, predicate, counts)
    with Output() as output:

        async def tell() -> None:
            await output.write(b"%d\n" % counts.done)

        async with connected(options, counts.on_notice) as client:
            advertisement = await advertised(client, options.filter, predicate)
            if not options.quiet:
                note(f"advertised at {client.broker}: {advertisement.filter}")
            with _summary(counts, options, "published and acknowledged"):
                await _publish_input(reading, Publisher(client, advertisement, counts, options, tell))
                if options.hold:
                    await asyncio.Event().wait()
    return 0


async def _publish_input(
    reading: "Reading", publisher: "Publisher", advance: Advance = lambda _size: None
) -> None:
    """Publish the lines of standard input as they come; those together that have come together."""
    if sys.stdin.isatty():
        note("type events, a JSON object on a line each; Ctrl-D ends them")
    async for lines, size in InputLines():
        events: list[Event] = []
        try:
            reading.lines(lines, events)
        finally:
            # What stands before a mistake is published all the same.
            await publisher.publish(events)
        advance(size)


class Counts:
    """What became of the events."""

    def __init__(self) -> None:
        self.published = 0
        self.rejected = 0
        self.skipped = 0

    @property
    def done(self) -> int:
        """How many the broker has taken."""
        return self.published - self.rejected

    def on_notice(self, notice: Notice) -> None:
        """Tell what the client is told, and count what was not taken."""
        if notice.kind == "rejected":
            self.rejected += notice.count
        note(notice.text)

    def told(self, what: str) -> str:
        """All of it, in words."""
        words = [f"{self.done:,} event{'' if self.done == 1 else 's'} {what}"]
        words += [f"{self.rejected:,} refused by the broker"] if self.rejected else []
        words += [f"{self.skipped:,} skipped"] if self.skipped else []
        return ", ".join(words)


@contextmanager
def _summary(counts: Counts, options: argparse.Namespace, what: str) -> Iterator[None]:
    """Tell in the end what became of the events, however that comes about."""
    try:
        yield
    except BaseException:
        if counts.published and not options.quiet:
            say(counts.told(what))
        raise
    if not options.quiet:
        say(counts.told(what))


class Reading:
    """Reads events, which must be such as were advertised."""

    def __init__(self, options: argparse.Namespace, predicate: Predicate, counts: Counts) -> None:
        families = families_given(options.family)
        self._options = EventOptions(families=families, unsupported=options.unsupported)
        self._skips = options.on_error == "skip"
        # The broker checks it too, but knows no lines.
        self._advertised = None if predicate == _EVERYTHING else predicate
        self._counts = counts

    def arguments(self, texts: Sequence[str]) -> list[Event]:
        """The events of the command line."""
        events: list[Event] = []
        for at, text in enumerate(texts, 1):
            hint = "" if text.lstrip().startswith("{") and not _is_file(text) else _FILE_HINT
            # What is no Unicode came as bytes, and is refused as such.
            self._read(f"event {at}", text.encode(errors="surrogateescape"), events, hint)
        return events

    def lines(self, lines: Sequence[Line], events: list[Event]) -> None:
        """Add the events of lines. Raises PlacedError at a mistake, if those are not to be skipped."""
        for number, content in lines:
            self._read(f"standard input:{number}", content, events)

    def _read(self, place: str, content: bytes | None, events: list[Event], hint: str = "") -> None:
        try:
            with placed(place):
                event = self._event(content)
        except PlacedError as error:
            if not self._skips:
                raise PlacedError(f"{error}{hint}") from None
            say(f"skipped: {error}{hint}")
            event = None
        if event is None:
            self._counts.skipped += 1
        else:
            events.append(event)

    def _is_advertised(self, event: Event, advertised: Predicate) -> bool:
        if advertised.matches(event):
            return True
        # A broker with a schema may read text as times; it decides.
        read = with_times(event.attributes, times_in(advertised.filters))
        return read is not event.attributes and advertised.matches(Event.from_flat(dict(read)))

    def _event(self, content: bytes | None) -> Event:
        if content is None:
            raise EventError(f"a line is longer than {LINE_LENGTH_MAX:,} bytes")
        event = json_event(content, self._options)
        if self._advertised is not None and not self._is_advertised(event, self._advertised):
            raise EventError(f"the event is not as advertised: {self._advertised}"[:300])
        return event


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):
        # An event is often longer than a name may be.
        return False


class Publisher:
    """Publishes events in order, and waits for acknowledgements at once or only in the end."""

    def __init__(
        self,
        client: Client,
        advertisement: Advertisement,
        counts: Counts,
        options: argparse.Namespace,
        after: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._client = client
        self._advertisement = advertisement
        self._counts = counts
        self._waits = not getattr(options, "no_ack", False)
        self._ack: Ack = getattr(options, "ack", "accepted")
        self._skips = options.on_error == "skip"
        self._after = after
        self._last: asyncio.Future[None] | None = None

    async def publish(self, events: list[Event]) -> None:
        """Publish events. Raises RejectedError for those that the broker does not take, unless they may be
        skipped."""
        if not events:
            return
        if not self._waits:
            for event in events:
                await self._put(event)
            self._counts.published += len(events)
            return
        try:
            await self._client.publish_many(events, advertisement=self._advertisement, ack=self._ack)
        except RejectedError:
            # The others of them are taken, or are told of in the same way.
            await self._client.flush()
            self._counts.published += len(events)
            if not self._skips:
                raise
        else:
            self._counts.published += len(events)
        if self._after is not None:
            await self._after()

    async def _put(self, event: Event) -> None:
        try:
            self._last = self._put_now(event)
        except NetworkError:
            # Too much waits; or the client is closed, which the second try tells.
            await self._client.flush()
            self._last = self._put_now(event)

    def _put_now(self, event: Event) -> "asyncio.Future[None]":
        return self._client.publish_nowait(event, advertisement=self._advertisement, ack=self._ack)

    async def finish(self) -> None:
        """Wait for what has not been waited for."""
        await self._client.flush()
        if self._last is not None:
            try:
                await asyncio.shield(self._last)
            except RejectedError:
                if not self._skips:
                    raise


@contextmanager
def _input_progress() -> Iterator[Advance]:
    """A bar for standard input, unless somebody types there."""
    if sys.stdin.isatty():
        yield lambda _size: None
        return
    with progress("publishing", _input_size()) as advance:
        yield advance


def _input_size() -> int | None:
    """The bytes of standard input, where it is a file."""
    try:
        found = os.fstat(sys.stdin.fileno())
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None
