"""`penstock top`: brokers as they are, in tables that are drawn again and again."""

import argparse
import asyncio
import sys
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final, Literal

from penstock.cli.arguments import EXIT_BAD_INPUT, EXIT_FAILED
from penstock.cli.connecting import in_a_loop
from penstock.cli.json_lines import json_line
from penstock.cli.streams import Output
from penstock.cli.watching import Look, Status, Watches
from penstock.errors import printable

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, Group, RenderResult
    from rich.table import Table

_WIDTH: Final = 120
"""Columns of a pipe, which has no width of its own."""

_BETWEEN: Final = 3
"""Columns between those of a table."""

_NAME_MIN: Final = 16
"""Columns that a name has at least; a longer one goes on in the next line where there is no more room."""

_CLIENTS_SHOWN: Final = 20
"""Clients of all brokers that are listed: those that have most to do."""

_NOTHING: Final = "–"
_NAMES: Final = ("broker", "peer", "client", "subject")
_SIZES: Final = ("subs", "filters", "trees", "links", "clients")

Counted = Mapping[str, Any]


def run(options: argparse.Namespace) -> int:
    """Look at brokers once, or until a signal."""
    try:
        return in_a_loop(_watch(options))
    except KeyboardInterrupt:
        if options.once:
            raise
        # There is no other end.
        return 0


async def _watch(options: argparse.Namespace) -> int:
    watches = Watches(options)
    try:
        if options.json:
            return await _print_lines(watches, options)
        return await _print_tables(watches, options)
    finally:
        await watches.close()


async def _print_lines(watches: Watches, options: argparse.Namespace) -> int:
    with Output() as output:
        while True:
            looks = await watches.look()
            await output.write(b"".join(map(json_line, looks)))
            if options.once:
                return _status_of(looks)
            await asyncio.sleep(options.interval)


async def _print_tables(watches: Watches, options: argparse.Namespace) -> int:
    from rich.console import Console
    from rich.live import Live

    console = Console() if sys.stdout.isatty() else Console(width=_WIDTH)
    if options.once:
        looks = await watches.look()
        _write(console, tables([(look, None) for look in looks], total=True, width=console.width))
        return _status_of(looks)
    live = Live(console=console, screen=True, auto_refresh=False) if console.is_terminal else None
    with live or nullcontext():
        while True:
            await watches.look()
            looks_now = [(watch.now, watch.before) for watch in watches.all]
            seen = tables(looks_now, total=False, width=console.width)
            if live is not None:
                live.update(Cut(seen), refresh=True)
            else:
                _write(console, seen)
            await asyncio.sleep(options.interval)


def _write(console: "Console", seen: "Group") -> None:
    """Print without rich, which ends the program with status 1 when the reader has gone."""
    with console.capture() as text:
        console.print(seen)
    sys.stdout.write(text.get())
    sys.stdout.flush()


def _status_of(looks: list[Look]) -> int:
    """A broker that is down is a failure; one that only refuses wants another token."""
    missing = [look for look in looks if look.status is None]
    if not missing:
        return 0
    return EXIT_BAD_INPUT if all(look.refused for look in missing) else EXIT_FAILED


def tables(looks: list[tuple[Look, Look | None]], *, total: bool, width: int = _WIDTH) -> "Group":
    """Brokers, links and clients. Each look is with the one before it; `total`: counts instead of rates."""
    from rich.console import Group
    from rich.text import Text

    unit = "" if total else "/s"
    flow = [f"in{unit}", f"out{unit}"]
    brokers: list[list[str]] = []
    links: list[list[str]] = []
    busy: list[tuple[int, list[str]]] = []
    reasons: list[str] = []
    for look, before in looks:
        if look.status is None:
            brokers.append([look.url, "refused" if look.refused else "down"])
            reasons.append(f"{look.url} {'refuses' if look.refused else 'is down'}: {look.error}")
            continue
        was = before.status if before is not None else None
        flowing = Flow(look.status, was, total=total)
        brokers.append(_broker(look.status, was, flowing))
        links += _links(look.status, was, flowing)
        reasons += _unlinked(look.status)
        reasons += _disagreeing(look.status)
        busy += _clients(look.status, was, flowing)
    busy.sort(key=lambda client: client[0], reverse=True)
    clients = [row for _size, row in busy[:_CLIENTS_SHOWN]]
    delivered = f"delivered{unit}"
    # The second list: what is left out where there is no room, in this order.
    parts = [
        _table(
            "brokers",
            ["broker", "state", "up", *flow, delivered, "queued", *_SIZES],
            brokers,
            ["trees", "filters", "subs", "links", "clients", "up", "queued", *flow, delivered],
            width,
        ),
        _table(
            "links",
            ["broker", "peer", "state", *flow, "queued", "unacked"],
            links,
            ["unacked", "queued", *flow],
            width,
        ),
        _table(
            "clients",
            ["broker", "client", "subject", "state", "subs", "ads", *flow, "queued"],
            clients,
            ["ads", "subs", "subject", "queued", *flow],
            width,
        ),
    ]
    if len(busy) > _CLIENTS_SHOWN:
        parts[-1].caption = f"and {len(busy) - _CLIENTS_SHOWN:,} more"
    texts = (Text(printable(reason)) for reason in reasons)
    return Group(*texts, *(part for part in parts if part.row_count))


class Cut:
    """As much as a terminal has lines for, and how much there is besides."""

    def __init__(self, whole: "Group") -> None:
        self._whole = whole

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        from rich.segment import Segment

        height = console.size.height
        lines = console.render_lines(self._whole, options.update(height=None), pad=False)
        while lines and not "".join(segment.text for segment in lines[-1]).strip():
            lines.pop()
        kept = lines if len(lines) <= height else lines[: height - 1]
        for at, line in enumerate(kept):
            if at:
                yield Segment.line()
            yield from line
        if len(kept) < len(lines):
            more = f"and {len(lines) - len(kept):,} more lines, for a higher terminal or --once"
            yield Segment.line()
            yield Segment(more[: options.max_width])


class Flow:
    """Tells counts of events, or how fast they have grown since the broker was asked before."""

    def __init__(self, status: Status, was: Status | None, *, total: bool) -> None:
        self._total = total
        # By the broker's own clock; below 0 if it has begun anew.
        self._took = 0.0 if was is None else status["uptime_s"] - was["uptime_s"]

    def __call__(self, name: str, now: Counted, before: Counted | None) -> str:
        """The count of this name."""
        count: int = now[name]
        if self._total:
            return f"{count:,}"
        if before is None or self._took <= 0 or count < before[name]:
            return _NOTHING
        return f"{(count - before[name]) / self._took:,.0f}"


def _broker(status: Status, was: Status | None, flow: Flow) -> list[str]:
    counts, before = status["counts"], None if was is None else was["counts"]
    queued = sum(link["queue_bytes"] for link in (*status["links"], *status["clients"]))
    table = status["table"]
    return [
        status["name"],
        "draining" if status["draining"] else "up",
        _duration(status["uptime_s"]),
        *(flow(name, counts, before) for name in ("events_in", "events_out", "delivered")),
        _size(queued),
        *(f"{table[name]:,}" for name in ("subscriptions", "filters", "trees")),
        *(f"{len(status[name]):,}" for name in ("links", "clients")),
    ]


def _links(status: Status, was: Status | None, flow: Flow) -> Iterator[list[str]]:
    """The links that there are, and the peers to which there is none."""
    before = {} if was is None else {link["peer"]: link for link in was["links"]}
    for link in status["links"]:
        flows = (flow(name, link, before.get(link["peer"])) for name in ("events_in", "events_out"))
        yield [
            status["name"],
            link["peer"],
            link["state"],
            *flows,
            _size(link["queue_bytes"]),
            f"{link['unacked_frames']:,}",
        ]
    for peer in _missing(status):
        yield [status["name"], peer["name"] or peer["url"], "down"]


def _unlinked(status: Status) -> Iterator[str]:
    """Why there is no link to a peer."""
    for peer in _missing(status):
        why = peer["error"].removeprefix(f"{peer['url']}: ")
        yield f"{status['name']} has no link to {peer['url']}: {why}"


def _disagreeing(status: Status) -> Iterator[str]:
    """How many subscriptions and events disagree, by problem."""
    counts = (status.get("disagreements") or {}).get("counts") or {}
    if counts:
        told = ", ".join(f"{count:,} {problem}" for problem, count in sorted(counts.items()))
        yield f"{status['name']}: subscriptions and events disagree: {told} (--json says which)"


def _missing(status: Status) -> list[Counted]:
    """The peers that a broker was told of, and has no link to."""
    linked = {link["peer"] for link in status["links"]}
    return [peer for peer in status.get("peers", ()) if peer["name"] not in linked]


def _clients(status: Status, was: Status | None, flow: Flow) -> Iterator[tuple[int, list[str]]]:
    """The clients, with how much each has to do."""
    before = {} if was is None else {client["name"]: client for client in was["clients"]}
    for client in status["clients"]:
        flows = (flow(name, client, before.get(client["name"])) for name in ("events_in", "events_out"))
        yield (
            client["events_in"] + client["events_out"] + client["queue_bytes"],
            [
                status["name"],
                client["name"],
                client["subject"],
                "slow" if client["slow"] else client["state"],
                *(f"{client[name]:,}" for name in ("subscriptions", "advertisements")),
                *flows,
                _size(client["queue_bytes"]),
            ],
        )


def _table(title: str, headings: list[str], rows: list[list[str]], spare: list[str], width: int) -> "Table":
    """A table that fits a width: without those of the spare columns, the first ones first, that do not.

    The rows have texts that others have written: they are no markup, and no commands to a terminal.
    """
    from rich import box
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    cells = [[printable(cell) for cell in row] + [""] * (len(headings) - len(row)) for row in rows]
    sizes = {
        heading: max(cell_len(heading), *(cell_len(row[at]) for row in cells), 0)
        for at, heading in enumerate(headings)
    }
    kept = list(headings)
    for heading in spare:
        if sum(sizes[one] + _BETWEEN for one in kept) + 1 <= width:
            break
        kept.remove(heading)
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", caption_justify="left")
    for heading in kept:
        if heading in _NAMES:
            table.add_column(heading, overflow="fold", min_width=min(sizes[heading], _NAME_MIN))
            continue
        justify: Literal["left", "right"] = "left" if heading == "state" else "right"
        table.add_column(heading, no_wrap=True, min_width=sizes[heading], justify=justify)
    for row in cells:
        table.add_row(*(Text(cell) for heading, cell in zip(headings, row, strict=True) if heading in kept))
    return table


def _size(count: int) -> str:
    from rich.filesize import decimal

    return decimal(count)


def _duration(seconds: float) -> str:
    """A time in its two largest units."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d{hours:02}h"
    if hours:
        return f"{hours}h{minutes:02}m"
    return f"{minutes}m{rest:02}s" if minutes else f"{rest}s"
