"""`penstock bench strangers`: rounds without and with hostile clients, in turn, against one broker."""

import argparse
import asyncio
import contextlib
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from penstock.bench import measures, printing
from penstock.bench.network.ours import Penstock
from penstock.bench.strangers.attack import AHEAD, Attack
from penstock.bench.strangers.crowd import Crowd, Delays
from penstock.errors import InputError
from penstock.net.serve import loop_factory

BAR: Final = 2.0
"""The p99 of the others with hostile clients is at most so many times that without."""

MOST_SECONDS: Final = 300
_WARM_SECONDS: Final = 1.0
_CALM_SECONDS: Final = 2.0
"""After an attack, the broker forgets what the hostile clients subscribed to."""
_WIDTH: Final = 120


class Choices(msgspec.Struct, frozen=True, kw_only=True):
    """How much to measure."""

    clients: int = 99
    hostile: int = 1
    rate: float = 5.0
    """Events a second of each client."""
    seconds: float = 8.0
    """Of a round."""
    rounds: int = 3


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """What the others have seen in a round; `filters`: how many the hostile clients were answered."""

    attack: bool
    filters: int
    delays: Delays


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """Medians over the rounds, and their ratios."""

    p99_without_ms: float
    p99_with_ms: float
    ratio: float
    subscribe_ratio: float
    met: bool


def run(options: argparse.Namespace, say: Callable[[str], None]) -> int:
    """Measure and print a table, or JSON; fail where the bar is not reached."""
    if options.seconds * options.rounds > MOST_SECONDS:
        raise InputError(f"--seconds times --rounds: at most {MOST_SECONDS} are possible")
    choices = Choices(
        clients=options.clients,
        hostile=options.hostile,
        rate=options.rate,
        seconds=options.seconds,
        rounds=options.rounds,
    )
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        rounds = runner.run(measure(choices, say))
    result = summed_up(rounds)
    if options.json:
        document = {
            "machine": measures.facts(),
            "choices": msgspec.to_builtins(choices),
            "rounds": msgspec.to_builtins(rounds),
            "result": msgspec.to_builtins(result),
        }
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
    else:
        show(rounds, result, choices)
    return int(not result.met or any(each.delays.lost for each in rounds))


async def measure(choices: Choices, say: Callable[[str], None]) -> list[Round]:
    """Start a broker, connect the clients, and do the rounds."""
    rounds: list[Round] = []
    with tempfile.TemporaryDirectory(prefix="penstock-bench-", ignore_cleanup_errors=True) as folder:
        with _on_a_core_of_its_own():
            broker = Penstock().start(Path(folder), 1)
        try:
            crowd = Crowd(broker.url, choices.clients, choices.rate)
            await crowd.open()
            await crowd.measure(_WARM_SECONDS)
            for number in range(1, choices.rounds + 1):
                say(f"round {number} of {choices.rounds}, without")
                rounds.append(Round(attack=False, filters=0, delays=await crowd.measure(choices.seconds)))
                say(f"round {number} of {choices.rounds}, with {choices.hostile} hostile clients")
                rounds.append(await _attacked(broker.url, crowd, choices))
                await asyncio.sleep(_CALM_SECONDS)
            await crowd.close()
        finally:
            broker.stop()
    return rounds


@contextlib.contextmanager
def _on_a_core_of_its_own() -> Iterator[None]:
    """Have what is started here run on one core, and this process on the others, where the system can.

    A core that broker and clients share is given to each for milliseconds at a time, and that is what would
    be measured.
    """
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(cores) < 2:
        yield
        return
    os.sched_setaffinity(0, cores[-1:])
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores[:-1])


async def _attacked(url: str, crowd: Crowd, choices: Choices) -> Round:
    attack = Attack(url, choices.hostile)
    await asyncio.to_thread(attack.start)
    try:
        # Long enough for each to have used up what it may be ahead.
        await crowd.measure(_WARM_SECONDS)
        before = attack.answered
        delays = await crowd.measure(choices.seconds)
        return Round(attack=True, filters=attack.answered - before, delays=delays)
    finally:
        await asyncio.to_thread(attack.stop)


def summed_up(rounds: list[Round]) -> Result:
    """The medians of the rounds without and with."""

    def median(attack: bool, of: Callable[[Delays], float]) -> float:
        return statistics.median(of(each.delays) for each in rounds if each.attack is attack)

    without, under = median(False, lambda d: d.p99_ms), median(True, lambda d: d.p99_ms)
    asked = [median(attack, lambda d: d.subscribe_p99_ms) for attack in (False, True)]
    return Result(
        p99_without_ms=without,
        p99_with_ms=under,
        ratio=under / without,
        subscribe_ratio=asked[1] / asked[0],
        met=under <= BAR * without,
    )


def show(rounds: list[Round], result: Result, choices: Choices) -> None:
    """Print the rounds, and what they come to."""
    figures = ("filters", "events", "p50 ms", "p99 ms", "max ms", "subscribe p50 ms", "subscribe p99 ms")
    table = printing.table("penstock bench strangers", ("round", "hostile clients"), figures)
    for number, each in enumerate(rounds):
        delays = each.delays
        table.add_row(
            str(number // 2 + 1),
            str(choices.hostile) if each.attack else "none",
            f"{each.filters:,}" if each.attack else "",
            f"{delays.events:,}",
            *(f"{ms:,.2f}" for ms in (delays.p50_ms, delays.p99_ms, delays.max_ms)),
            *(f"{ms:,.2f}" for ms in (delays.subscribe_p50_ms, delays.subscribe_p99_ms)),
        )
    console = printing.console(_WIDTH)
    console.print(", ".join(f"{name} {value}" for name, value in measures.facts().items()))
    console.print(table)
    verdict = "met" if result.met else "not met"
    console.print(
        f"p99 of events: {result.p99_without_ms:.2f} ms without, {result.p99_with_ms:.2f} ms with: "
        f"{result.ratio:.2f} times as long. At most {BAR:g} times is wanted: {verdict}."
    )
    console.print(f"p99 of subscribing: {result.subscribe_ratio:.2f} times as long.")
    console.print(
        f"{choices.clients} clients with {choices.rate:g} events/s each. A hostile client has {AHEAD} "
        "filters under way, and is counted as a subject of its own. The broker has a core of its own, where "
        "there are two. Medians of the rounds."
    )
    lost = sum(each.delays.lost for each in rounds)
    if lost:
        console.print(f"{lost:,} events did not come back.")
