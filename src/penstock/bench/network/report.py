"""What was measured, as a table or for machines."""

import sys
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from penstock.bench import measures, printing
from penstock.bench.network.pacing import BLOCK
from penstock.bench.network.party import Party
from penstock.bench.network.trial import Choices, Row
from penstock.bench.network.workload import EVENT_BYTES

_WIDTH: Final = 166


def compared(rows: Iterable[Row]) -> list[Row]:
    """The rows with each figure's ratio to Penstock's in the same job, through as many brokers."""
    rows = list(rows)
    ours = {(row.job, row.brokers): row for row in rows if row.party == "penstock"}
    return [
        row
        if (base := ours.get((row.job, row.brokers))) is None
        else msgspec.structs.replace(
            row,
            ratio=_ratio(row.events_per_second, base.events_per_second),
            p50_ratio=_ratio(row.p50_ms, base.p50_ms),
            p99_ratio=_ratio(row.p99_ms, base.p99_ms),
        )
        for row in rows
    ]


def _ratio(value: float | None, base: float | None) -> float | None:
    return value / base if value is not None and base else None


def document(rows: list[Row], choices: Choices, parties: Mapping[str, Party]) -> dict[str, object]:
    """All that was measured, for machines."""
    plain = [{**msgspec.to_builtins(row), "agrees": row.agrees} for row in rows]
    return {
        "machine": measures.facts(),
        "choices": msgspec.to_builtins(choices),
        "rows": plain,
        "notes": notes(rows, choices, parties),
    }


def notes(rows: list[Row], choices: Choices, parties: Mapping[str, Party]) -> list[str]:
    """What has to be known to read the figures."""
    said = [
        f"{choices.subscriptions:,} subscriptions of one client; events of about {EVENT_BYTES} bytes, each "
        "of which matches about one. Brokers, publisher and subscriber are a process each, on the loopback "
        "interface; several brokers are a chain, with the publisher at one end and the subscriber at the "
        "other.",
        f"Saturated: at most {choices.events:,} events and {choices.seconds:g} s, in blocks of up to "
        f"{BLOCK}; what is under way is bounded by what came in the last half second. Events count once "
        "they have arrived.",
        f"p50 and p99: from when an event should have left to its arrival, at {choices.rate:,} events/s for "
        "all; none where the saturated rate is lower. Each ratio is to penstock's figure through as many "
        "brokers.",
    ]
    named = dict.fromkeys((row.party, row.version) for row in rows if not row.problem)
    said += [f"{name} {version}: {parties[name].batching}." for name, version in named]
    if any(parties[name].once for name, _ in named):
        said.append(
            "rabbitmq delivers an event once where several bindings of a queue match; the others deliver it "
            "to each subscription, and so more often."
        )
    if any(row.party == "nats" and row.brokers > 1 and not row.problem for row in rows):
        said.append("nats, several brokers: each server is a leaf node of the one before.")
    if any(row.job == "ranges" for row in rows):
        said.append(
            "ranges: intervals of numbers, and prefixes of strings, for which the others have no filters."
        )
    return said


def show(rows: list[Row], choices: Choices, parties: Mapping[str, Party]) -> None:
    """Print the table and the notes."""
    figures = (
        *("brokers", "subscribe s", "events", "events/s", "ratio"),
        *("p50 ms", "ratio", "p99 ms", "ratio", "deliveries"),
    )
    table = printing.table("penstock bench network", ("job", "party"), figures)
    table.add_column("")
    for row in rows:
        table.add_row(row.job, row.party, *_figures(row), _verdict(row))
    console = printing.console(_WIDTH)
    console.print(", ".join(f"{name} {value}" for name, value in measures.facts().items()))
    console.print(table)
    for row in rows:
        if row.failed:
            which = row.party if row.brokers == 1 else f"{row.party}, {row.brokers} brokers"
            console.print(f"{which}, {row.job}: {row.problem}", markup=False)
    for note in notes(rows, choices, parties):
        console.print(note, markup=False)


def write_json(rows: list[Row], choices: Choices, parties: Mapping[str, Party]) -> None:
    """Print all as JSON."""
    sys.stdout.write(msgspec.json.encode(document(rows, choices, parties)).decode() + "\n")


def _figures(row: Row) -> list[str]:
    if row.problem:
        return [f"{row.brokers}", *[""] * 9]
    return [
        f"{row.brokers}",
        _number(row.subscribe_seconds, ",.1f"),
        f"{row.events:,}",
        _number(row.events_per_second, ",.0f"),
        _number(row.ratio, ",.3g", " ×"),
        _number(row.p50_ms, ",.2f"),
        _number(row.p50_ratio, ",.3g", " ×"),
        _number(row.p99_ms, ",.2f"),
        _number(row.p99_ratio, ",.3g", " ×"),
        f"{row.delivered:,}",
    ]


def _number(value: float | None, form: str, unit: str = "") -> str:
    return "" if value is None else f"{value:{form}}{unit}"


def _verdict(row: Row) -> str:
    if row.problem:
        return "failed, see below" if row.failed else row.problem
    return "as expected" if row.agrees else f"{row.wrong:,} wrong, {row.expected:,} expected"
