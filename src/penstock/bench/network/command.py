"""`penstock bench network`: each party in turn, in the same run."""

import argparse
import sys
from collections.abc import Mapping
from functools import partial
from itertools import product
from typing import Final, get_args

from penstock.bench.network import report
from penstock.bench.network.party import CHAIN_MAX, Party, parties
from penstock.bench.network.trial import Choices, Row, measure
from penstock.bench.network.workload import Job, Plan, Workload
from penstock.errors import InputError

MOST_SUBSCRIPTIONS: Final = 100_000
"""What a broker takes from one client."""
MOST_SECONDS: Final = 300
MOST_RATE: Final = 1_000_000


def run(options: argparse.Namespace) -> int:
    """Measure those asked for, and print a table, or JSON; fail where deliveries were not as expected."""
    known = parties()
    chosen = choose(options.parties, known)
    if options.subscriptions > MOST_SUBSCRIPTIONS:
        raise InputError(
            f"--subscriptions {options.subscriptions}: at most {MOST_SUBSCRIPTIONS:,} are possible"
        )
    if options.seconds > MOST_SECONDS:
        raise InputError(f"--seconds {options.seconds}: at most {MOST_SECONDS} are possible")
    if options.rate > MOST_RATE:
        raise InputError(f"--rate {options.rate}: at most {MOST_RATE:,} are possible")
    choices = Choices(
        subscriptions=options.subscriptions,
        events=options.events,
        seconds=options.seconds,
        rate=options.rate,
        brokers=chains(options.brokers),
        seed=options.seed,
    )
    rows: list[Row] = []
    try:
        measure_all(chosen, choices, rows)
    finally:
        # Also when it is interrupted: what has been measured shall not be lost.
        if rows:
            rows = report.compared(rows)
            (report.write_json if options.json else report.show)(rows, choices, known)
    return int(any(row.agrees is False or row.failed for row in rows))


def choose(text: str, known: Mapping[str, Party]) -> list[Party]:
    """The parties named in a list with commas, each once."""
    names = [name for each in text.split(",") if (name := each.strip())]
    for name in names:
        if name not in known:
            raise InputError(f"--parties: there is no {name!r:.80}; there are {', '.join(known)}")
    if not names:
        raise InputError(f"--parties: name at least one of {', '.join(known)}")
    return [known[name] for name in dict.fromkeys(names)]


def chains(text: str) -> tuple[int, ...]:
    """The numbers of brokers in a list with commas, each once."""
    names = dict.fromkeys(name for each in text.split(",") if (name := each.strip()))
    if not names or not all(name.isdecimal() and 1 <= int(name) <= CHAIN_MAX for name in names):
        raise InputError(f"--brokers {text:.80}: numbers from 1 to {CHAIN_MAX}, with commas, as in 1,3")
    return tuple(map(int, names))


def measure_all(chosen: list[Party], choices: Choices, rows: list[Row]) -> None:
    """Measure the parties in turn, job by job, and add a row for each."""
    for job in get_args(Job):
        plan = Plan(job, choices.subscriptions, choices.seed)
        able = [party for party in chosen if job in party.jobs]
        if able:
            matches = Workload(plan).matches()
            for brokers, party in product(choices.brokers, able):
                if brokers <= party.brokers_max:
                    say = partial(_say, party.name)
                    rows.append(measure(party, plan, brokers, choices, matches, say))


def _say(party: str, what: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"{party}: {what}\n")
