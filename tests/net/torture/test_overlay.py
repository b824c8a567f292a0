"""Faults happen where they are meant to, and one that is mended leaves the others."""

import asyncio
import sys
from pathlib import Path

from penstock.net.torture.faults import Fault
from penstock.net.torture.networks import draw_network
from penstock.net.torture.overlay import Overlay
from penstock.net.torture.processes import BrokerProcess
from penstock.net.torture.proxy import Proxy


def chain_of_five(folder: Path) -> Overlay:
    """An overlay of which only the links are there."""
    overlay = Overlay(draw_network(1, 5, topology="chain"), folder)
    overlay.links = [Proxy(1) for _ in range(4)]
    return overlay


def test_one_fault_that_is_mended_leaves_the_others(tmp_path: Path) -> None:
    async def story() -> None:
        overlay = chain_of_five(tmp_path)
        first, *others = overlay.links
        long = asyncio.ensure_future(overlay.suffer(Fault("long", "link", 0, 0.0, 0.4)))
        storm = asyncio.ensure_future(overlay.suffer(Fault("storm", "network", 0, 0.0, 0.1)))
        await asyncio.sleep(0)
        assert all(link.is_cut for link in overlay.links)
        assert await storm == []
        assert first.is_cut
        assert not any(link.is_cut for link in others)
        assert await long == []
        assert not first.is_cut

    asyncio.run(story())


def test_a_split_cuts_the_links_between_its_parts_only(tmp_path: Path) -> None:
    async def story() -> None:
        overlay = chain_of_five(tmp_path)
        split = asyncio.ensure_future(overlay.suffer(Fault("split", "network", 0, 0.0, 0.1, side=(1, 2))))
        await asyncio.sleep(0)
        assert [link.is_cut for link in overlay.links] == [True, False, True, False]
        assert await split == []
        assert not any(link.is_cut for link in overlay.links)

    asyncio.run(story())


def test_faults_of_one_broker_happen_one_after_the_other(tmp_path: Path) -> None:
    polite = "import time; print('listening on x', flush=True); time.sleep(600)"

    async def story() -> None:
        overlay = chain_of_five(tmp_path)
        broker = BrokerProcess("b0", [sys.executable, "-c", polite], tmp_path)
        overlay.brokers = [broker]
        try:
            await broker.start()
            kinds = ("kill", "pause", "bounce", "pause")
            faults = [Fault(kind, "broker", 0, 0.0, 0.1) for kind in kinds]
            assert await asyncio.gather(*map(overlay.suffer, faults)) == [[]] * 4
            assert broker.pid is not None
            assert broker.log.read_text().count("listening") == 3
        finally:
            broker.kill()

    asyncio.run(story())


def test_what_was_flipped_is_not_flipped_again_when_another_fault_is_mended(tmp_path: Path) -> None:
    async def story() -> None:
        overlay = chain_of_five(tmp_path)
        flips: list[float] = []
        overlay.links[0].flip = lambda where, direction="both": flips.append(where)  # type: ignore[method-assign]
        flip = asyncio.ensure_future(overlay.suffer(Fault("flip", "link", 0, 0.0, 0.3, 0.25)))
        lag = asyncio.ensure_future(overlay.suffer(Fault("lag", "link", 0, 0.0, 0.1, 0.1)))
        await asyncio.gather(flip, lag)
        assert flips == [0.5]

    asyncio.run(story())
