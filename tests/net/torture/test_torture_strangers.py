"""What hostile clients send is costly or wrong, and each of their ways ends in time."""

import asyncio
import time

import pytest

from patience import HANGS
from penstock import parse
from penstock.errors import PenstockError
from penstock.net.torture import strangers
from penstock.net.torture.proxy import LOOPBACK


def test_costly_filters_are_short_and_match_no_event_of_others() -> None:
    for text in strangers.costly_filters():
        assert len(text) < 800
        try:
            predicate = parse(text)
        except PenstockError:
            continue
        assert not predicate.matches({"x": 1, "y": 0.5, "s": "ant"})
        assert not predicate.matches({"probe": 3})


@pytest.mark.parametrize("amount", [0.0, 0.4, 0.9])
def test_a_hostile_client_sends_and_ends_when_its_time_is_up(amount: float) -> None:
    async def story() -> None:
        heard = 0

        async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal heard
            try:
                while data := await reader.read(65_536):
                    heard += len(data)
            except OSError:
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(listen, LOOPBACK, 0)
        began = time.monotonic()
        await strangers.attack(server.sockets[0].getsockname()[1], 0.5, amount)
        assert time.monotonic() - began >= 0.49
        assert heard > 0
        server.close()

    asyncio.run(asyncio.wait_for(story(), HANGS))


def test_who_finds_nobody_tries_until_its_time_is_up() -> None:
    for amount in (0.0, 0.4, 0.9):
        asyncio.run(strangers.attack(1, 0.1, amount))
