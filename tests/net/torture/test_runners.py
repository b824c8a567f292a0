"""Clients run apart from the others, stand still when they are told to, and end."""

import asyncio
import threading

import pytest

from patience import HANGS
from penstock.net.torture.runners import Apart, Here


async def thread_and_loop() -> tuple[int, int]:
    return threading.get_ident(), id(asyncio.get_running_loop())


def test_what_runs_apart_runs_in_a_loop_of_its_own() -> None:
    async def story() -> None:
        here, apart, other = await thread_and_loop(), Apart(), Apart()
        assert await Here().call(thread_and_loop()) == here
        found = [await runner.call(thread_and_loop()) for runner in (apart, apart, other)]
        assert found[0] == found[1]
        assert len({here, *found}) == 3
        await apart.close()
        await other.close()

    asyncio.run(asyncio.wait_for(story(), HANGS))


def test_errors_come_back_and_what_is_given_up_ends() -> None:
    async def story() -> None:
        apart, ended = Apart(), threading.Event()

        async def fail() -> None:
            raise ValueError("no")

        async def wait() -> None:
            try:
                await asyncio.sleep(HANGS)
            finally:
                ended.set()

        with pytest.raises(ValueError, match="no"):
            await apart.call(fail())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(apart.call(wait()), 0.1)
        assert await asyncio.to_thread(ended.wait, HANGS)
        await apart.close()

    asyncio.run(story())


def test_who_stands_still_does_nothing_while_the_others_go_on() -> None:
    async def story() -> None:
        apart, done = Apart(), threading.Event()

        async def work() -> None:
            done.set()

        apart.stand_still(0.3)
        working = asyncio.ensure_future(apart.call(work()))
        await asyncio.sleep(0.1)
        assert not done.is_set()
        await working
        assert done.is_set()
        # All ends at once, whoever stands still.
        apart.stand_still(10 * HANGS)
        await apart.close()

    asyncio.run(asyncio.wait_for(story(), HANGS))
