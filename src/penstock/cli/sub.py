"""`penstock sub`: events as they come, a JSON line each."""

import argparse
import asyncio
from typing import Final

from penstock.cli.arguments import EXIT_FAILED
from penstock.cli.connecting import connected, filter_of, in_a_loop, note
from penstock.cli.json_lines import json_line
from penstock.cli.streams import Output
from penstock.composites.expression import Composite
from penstock.composites.language import parse
from penstock.errors import FilterError, InputError
from penstock.filters.predicate import Predicate
from penstock.model.nesting import nested_json
from penstock.net.client.composites import CompositeSubscription
from penstock.net.client.subscriptions import Received, Subscription

_DROPPED: Final = {
    "state": "more partial matches than are kept (STATE_MAX): matches may be missed",
    "detections": "an event completed more matches than are told (DETECTIONS_MAX)",
    "late": "events came later than the composite waits for (late by), and were left out",
    "untimed": "events have no time where the composite says 'by time', and were left out",
}
"""What is left out of what a composite finds, in words."""

_WRITE_MAX: Final = 2**16
"""Bytes that are written at once, where so many events have come already."""


def run(options: argparse.Namespace) -> int:
    """Print events until there are enough, until it has been long enough, or until a signal."""
    try:
        return in_a_loop(_subscribe(options))
    except KeyboardInterrupt:
        # There is no other end for who wants all of them.
        return 0


async def _subscribe(options: argparse.Namespace) -> int:
    composite = _composite_of(options)
    predicate = None if composite is not None else _any_of(options.filters)
    with Output() as output:
        async with connected(options) as client:
            try:
                async with asyncio.timeout(options.timeout):
                    # It ends with the client: before that, one would wait for a broker that may be away.
                    if composite is not None:
                        found = await client.subscribe_composite(composite)
                        if not options.quiet:
                            note(f"subscribed at {client.broker}: {found.composite}")
                        await _print_found(found, output, options)
                    elif predicate is not None:
                        subscription = await client.subscribe(predicate)
                        if not options.quiet:
                            note(f"subscribed at {client.broker}: {subscription.filter}")
                        await _print(subscription, output, options)
            except TimeoutError:
                return 0 if options.count is None else EXIT_FAILED
    return 0


def _composite_of(options: argparse.Namespace) -> Composite | None:
    """The composite that was given in place of filters."""
    if options.composite is None:
        return None
    if options.meta:
        raise InputError("--meta says where one event comes from: it does not go with --composite")
    try:
        return parse(options.composite)
    except FilterError as error:
        raise InputError(f"--composite: {error}") from None


def _any_of(texts: list[str]) -> Predicate:
    """One predicate for several filters, so that an event comes once, however many of them it matches."""
    predicates = [
        filter_of("FILTER" if len(texts) == 1 else f"filter {at}", text) for at, text in enumerate(texts, 1)
    ]
    predicate = Predicate(f for predicate in predicates for f in predicate.filters)
    if not predicate.satisfiable:
        raise InputError("no event can match this: penstock parse shows what the filter says")
    return predicate


async def _print(subscription: Subscription, output: Output, options: argparse.Namespace) -> None:
    left = options.count
    lines = bytearray()
    async for received in subscription:
        lines += _line(received, with_meta=options.meta)
        left = None if left is None else left - 1
        # What has come together is written together, and nothing is kept back when there is no more.
        if left == 0 or not subscription.pending or len(lines) >= _WRITE_MAX:
            await output.write(bytes(lines))
            lines.clear()
        if left == 0:
            return


async def _print_found(found: CompositeSubscription, output: Output, options: argparse.Namespace) -> None:
    left = options.count
    told: set[str] = set()
    async for detected in found:
        await output.write(json_line(nested_json(detected)))
        for why in found.dropped.keys() - told:
            told.add(why)
            note(f"{_DROPPED[why]}; this is said once")
        left = None if left is None else left - 1
        if left == 0:
            return


def _line(received: Received, *, with_meta: bool) -> bytes:
    attributes = nested_json(received.event.attributes)
    if not with_meta:
        return json_line(attributes)
    meta = {
        "event": attributes,
        "origin": received.origin,
        "number": received.number,
        "hops": received.hops,
        "late": received.late,
    }
    return json_line(meta)
