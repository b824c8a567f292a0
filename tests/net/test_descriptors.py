"""A process that runs out of file descriptors says so, and goes on."""

import asyncio
import contextlib
import resource
import socket

import httpx
import pytest

import penstock
from live_commands import running, until
from net_cases import Complaints
from penstock.net.addresses import parse_gateway_url, parse_url
from penstock.net.descriptors import RESERVED, Descriptors

LIMIT = 160


def test_a_broker_that_runs_out_of_descriptors_says_so_and_goes_on() -> None:
    with running(
        *("broker", "--name", "b", "--listen", "penstock://127.0.0.1:0", "--gateway", "http://127.0.0.1:0")
    ) as command:
        url = command.line().rpartition(" ")[2]
        gateway = command.line().rpartition(" ")[2]
        resource.prlimit(command.process.pid, resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
        places = [parse_url(url), parse_gateway_url(gateway)]
        with contextlib.ExitStack() as held:
            for at in range(4 * LIMIT):
                place = places[at % 2]
                held.enter_context(socket.create_connection((place.host, place.port)))
            # Both listeners turn them away; the gateway still answers.
            for _ in range(5):
                assert httpx.get(f"{gateway}/healthz").status_code == 200
        assert "nearly all of the 160 file descriptors of this process are in use" in command.told()

        async def works() -> None:
            async with await penstock.connect(url) as net:
                await net.publish({"x": 1})

        until(lambda: httpx.get(f"{gateway}/readyz").status_code == 200)
        asyncio.run(works())
        assert command.process.poll() is None


def test_the_last_descriptors_are_kept_and_that_is_logged_now_and_then(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = 0.0
    descriptors = Descriptors(lambda: 1_000, lambda: now)
    assert not descriptors.are_short(1_000 - RESERVED - 1)
    for at in range(1, 31):
        now = float(at)
        assert descriptors.are_short(1_000 - RESERVED)
    assert len(caplog.records) == 3


def test_where_there_is_no_limit_there_is_always_room() -> None:
    with Complaints() as complaints:
        assert not Descriptors(lambda: None).are_short(10**9)
    assert complaints.records == []
