"""A short torture of real broker processes: what the long one does, in less than a minute."""

import asyncio
from pathlib import Path
from typing import Final, cast

import msgspec

import penstock
from patience import HANGS
from penstock.net.matching import warm
from penstock.net.torture.clients import Connect
from penstock.net.torture.faults import Fault
from penstock.net.torture.networks import Network, draw_network
from penstock.net.torture.overlay import Overlay
from penstock.net.torture.plan import draw_round
from penstock.net.torture.report import Options, Report
from penstock.net.torture.run import Torture
from penstock.net.torture.runners import Apart

SEED: Final = 11


def faults(network: Network) -> tuple[Fault, ...]:
    """Of each sort one: processes, links and clients fail, and strangers come."""
    dead, slow, frozen = network.subscribers[:3]
    killed, ended = network.clients[dead].homes[0], network.clients[network.publishers[0]].homes[0]
    others = [broker for broker in range(network.brokers) if broker not in (killed, ended)]
    return (
        Fault("kill", "broker", killed, 1.0, 0.5),
        Fault("manual", "broker", others[0], 1.0, 4.0),
        Fault("flip", "link", 2, 1.1, 0.5, 0.3),
        Fault("short", "link", 0, 1.2, 0.4),
        Fault("hostile", "broker", others[1], 1.2, 1.0, 0.1),
        Fault("hostile", "broker", others[2], 1.3, 1.0, 0.5),
        Fault("hostile", "broker", others[1], 1.4, 1.0, 0.9),
        Fault("stall", "link", 1, 1.5, 0.6),
        Fault("oneway", "link", 3, 1.5, 2.0, 0.7),
        Fault("freeze", "client", frozen, 1.5, 2.0),
        Fault("slow", "client", slow, 1.0, 3.0, 65_536.0),
        Fault("dead", "client", dead, 2.0, 3.0),
        Fault("pause", "broker", others[0], 3.0, 1.5),
        Fault("term", "broker", ended if ended != killed else others[3], 7.0, 0.2),
    )


def told(report: Report, torture: Torture, folder: Path) -> str:
    """All that helps to find out what went wrong."""
    wrong = [text for row in report.rows for text in row.wrong] + report.wrong
    logs = [f"{log.name}:\n{log.read_text(errors='replace')[-2000:]}" for log in sorted(folder.glob("*.log"))]
    rows = [f"{msgspec.to_builtins(row)}" for row in report.rows]
    return "\n".join([f"seed {SEED}", *wrong, *rows, *torture.records.notes, *logs])


def test_whatever_fails_every_event_comes_once(tmp_path: Path) -> None:
    # Here and once: brokers find it compiled.
    warm()
    network = draw_network(SEED, 7)
    plan = draw_round(network, 1, kinds=(), seconds=8, events=3000)
    # Bursts just before brokers end, so that they end with events under way.
    sizes = sorted(plan.bursts, key=lambda burst: len(burst.events))
    hit = {id(burst): at for burst, at in zip(sizes[-4:], (0.99, 0.99, 6.99, 6.99), strict=True)}
    bursts = [msgspec.structs.replace(burst, at=hit.get(id(burst), burst.at)) for burst in plan.bursts]
    plan = msgspec.structs.replace(plan, bursts=tuple(bursts), faults=faults(network))
    overlay = Overlay(network, tmp_path)
    options = Options(seed=SEED, rounds=1, seconds=8, events=3000)
    torture = Torture(options, overlay, cast(Connect, penstock.connect), network, [plan], Apart)

    async def suffer() -> Report:
        async with asyncio.timeout(HANGS):
            return await torture.run(lambda _text: None)

    try:
        report = asyncio.run(suffer())
    finally:
        overlay.end()
    assert report.is_right, told(report, torture, tmp_path)
    verdict = report.rows[0].verdict
    assert verdict.published >= 3000
    assert verdict.got > verdict.expected // 2
    assert report.rows[-1].verdict.got == report.rows[-1].verdict.expected > 0
