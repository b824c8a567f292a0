"""`penstock trace`: the way that a marked event takes, broker by broker."""

import argparse
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from penstock.cli.connecting import advertised, connected, filter_of, in_a_loop, note
from penstock.cli.events import EventOptions, families_given, json_event
from penstock.cli.files import placed
from penstock.cli.json_lines import json_line
from penstock.errors import InputError, printable
from penstock.model.events import Event
from penstock.node.client.notices import Notice

Report = Mapping[str, Any]


def run(options: argparse.Namespace) -> int:
    """Publish a marked event, and print where it went."""
    return in_a_loop(_trace(options))


async def _trace(options: argparse.Namespace) -> int:
    predicate = filter_of("--advertise", options.advertise or "true")
    event = _event(options)
    if not predicate.matches(event):
        raise InputError(f"the event is not as advertised: {options.advertise}")
    async with connected(options, _on_notice) as client:
        advertisement = await advertised(client, options.advertise, predicate)
        report = await client.trace(event, advertisement=advertisement)
    if options.json:
        sys.stdout.buffer.write(json_line(report))
    else:
        # UTF-8 whatever the terminal's locale, as what other commands print.
        sys.stdout.buffer.write("".join(f"{line}\n" for line in tree(report)).encode())
    return 0


def _on_notice(notice: Notice) -> None:
    # That the event was not accepted is an error anyway.
    if notice.kind != "rejected":
        note(notice.text)


def _event(options: argparse.Namespace) -> Event:
    families = families_given(options.family)
    with placed("EVENT"):
        return json_event(options.event.encode(errors="surrogateescape"), EventOptions(families=families))


def tree(report: Report) -> Iterator[str]:
    """A line for each broker that the event came to, indented by the way that it took."""
    yield _told(report, None)
    yield from _branches(report, "")
    brokers, clients = _totals(report)
    yield f"{_many(brokers, 'broker')}, {_many(clients, 'client')}"


def _branches(report: Report, indent: str) -> Iterator[str]:
    sent: list[Report] = report["sent_to"]
    for at, way in enumerate(sent, 1):
        is_last = at == len(sent)
        lead, below = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
        further: Report | None = way["report"]
        if further is None:
            yield f"{indent}{lead}{printable(str(way['link']))}  sent there, no report came back"
            continue
        yield f"{indent}{lead}{_told(further, report)}"
        yield from _branches(further, indent + below)


def _told(report: Report, before: Report | None) -> str:
    """One broker: how long the event took from the one before it, and how many clients it was given to."""
    words = [printable(str(report["broker"]))]
    if before is not None:
        # Clocks of two machines have nothing to do with each other; of one they are the same.
        taken = (report["received_at"] - before["received_at"]) * 1_000
        if taken >= 0:
            words.append(f"+{taken:.2f} ms")
    if report["delivered"]:
        words.append(f"delivered to {_many(report['delivered'], 'client')}")
    return "  ".join(words)


def _totals(report: Report) -> tuple[int, int]:
    """How many brokers the event came to, and how many clients."""
    brokers, clients = 1, report["delivered"]
    for way in report["sent_to"]:
        if way["report"] is not None:
            more_brokers, more_clients = _totals(way["report"])
            brokers, clients = brokers + more_brokers, clients + more_clients
    return brokers, clients


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
