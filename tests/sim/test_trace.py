"""Traces: the same seed gives the same bytes, in any process; another seed gives others."""

import json
import os
import subprocess
import sys
from collections import Counter

from penstock.sim.plan import draw
from penstock.sim.play import play
from penstock.sim.trace import Trace

FAULTS = {"crash", "restart", "cut", "heal", "flap", "partition", "degrade"}
CALM = [seed for seed in range(60) if not {step.verb for step in draw(seed).steps} & FAULTS][:8]
FAULTY = [seed for seed in range(60) if {"crash", "cut"} & {step.verb for step in draw(seed).steps}][:8]

PROGRAM = """
import sys
from penstock.sim.plan import draw
from penstock.sim.play import play
from penstock.sim.trace import Trace

for seed in sys.argv[1:]:
    play(draw(int(seed)), trace=Trace(sys.stdout.buffer.write))
"""


def trace_of(seed: int) -> bytes:
    lines: list[bytes] = []
    play(draw(seed), trace=Trace(lines.append))
    return b"".join(lines)


def traces_elsewhere(seeds: list[int], hash_seed: int) -> bytes:
    """What another process writes, whose sets are in another order."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, seeds)],
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        check=True,
    ).stdout


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others() -> None:
    traces = [trace_of(seed) for seed in range(10)]
    assert traces == [trace_of(seed) for seed in range(10)]
    assert len(set(traces)) == len(traces)


def test_the_same_bytes_come_from_processes_that_order_sets_otherwise() -> None:
    assert len(CALM) == 8
    traces = [traces_elsewhere(CALM, hash_seed) for hash_seed in (0, 1)]
    assert traces[0] == traces[1] == b"".join(map(trace_of, CALM))


def test_so_they_do_where_there_are_faults() -> None:
    assert len(FAULTY) == 8
    traces = [traces_elsewhere(FAULTY, hash_seed) for hash_seed in (0, 1, 2)]
    assert traces[0] == traces[1] == traces[2]


def test_faults_and_what_they_lose_are_in_the_trace() -> None:
    kinds = Counter(json.loads(line)["kind"] for seed in FAULTY for line in trace_of(seed).splitlines())
    assert min(kinds[kind] for kind in ("Crash", "Restart", "Cut", "Heal", "Degrade", "Drop")) > 0


def test_a_trace_has_a_line_for_each_message_handled_and_each_delivery() -> None:
    for seed in range(10):
        lines: list[bytes] = []
        outcome = play(draw(seed), trace=Trace(lines.append))
        records = [json.loads(line) for line in lines]
        assert all(
            line == json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"
            for line, record in zip((line.decode() for line in lines), records, strict=True)
        )
        first, *rest = records
        plan = draw(seed)
        assert first == {
            "kind": "Run",
            "seed": seed,
            "protocol": plan.protocol,
            "scheme": None if plan.protocol == "flood" else plan.scheme,
            "advertisements": plan.advertisements,
        }
        delivered = [record for record in rest if record["kind"] == "Deliver"]
        others = {"Deliver", "Drop", "Crash", "Restart", "Cut", "Heal", "Degrade"}
        assert sum(record["kind"] not in others for record in rest) == outcome.handled
        assert len(delivered) >= sum(map(len, outcome.results))
        assert all({"at", "broker", "kind", "link"} <= record.keys() for record in rest)
        times = [record["at"] for record in rest]
        assert times == sorted(times)
