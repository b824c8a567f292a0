"""Addresses as people write them: what they mean, and what is said of those that mean nothing."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InputError
from penstock.net.addresses import Address, parse_gateway_url, parse_url

SCHEMES = {"penstock": False, "penstocks": True}
hosts = st.one_of(
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=6).map(str),
    st.from_regex(r"[a-z][a-z0-9-]{0,20}(\.[a-z][a-z0-9-]{0,20}){0,3}", fullmatch=True),
)


@pytest.mark.property
@given(st.sampled_from(sorted(SCHEMES)), hosts, st.integers(0, 65_535))
def test_an_address_is_read_as_it_is_written(scheme: str, host: str, port: int) -> None:
    address = Address(scheme, host, port, SCHEMES[scheme])
    assert parse_url(str(address)) == address
    assert parse_url(f"{address}/") == address
    assert parse_url(str(address).upper()) == address


@pytest.mark.property
@given(st.text(max_size=40) | st.text(max_size=40).map("penstock://{}".format))
def test_any_text_is_an_address_or_refused_in_one_line(text: str) -> None:
    try:
        address = parse_url(text)
    except InputError as error:
        assert len(str(error).splitlines()) == 1
    else:
        assert parse_url(str(address)) == address
        assert 0 <= address.port <= 65_535


@pytest.mark.property
@given(st.ip_addresses())
def test_loopback_is_what_the_addresses_say(
    ip: "ipaddress.IPv4Address | ipaddress.IPv6Address",
) -> None:
    assert Address("penstock", str(ip), 1, False).is_loopback == ip.is_loopback


@pytest.mark.parametrize(
    ("text", "host", "port", "tls"),
    [
        ("penstock://127.0.0.1", "127.0.0.1", 7400, False),
        ("penstocks://broker.example.org:7401", "broker.example.org", 7401, True),
        ("penstock://[::1]", "::1", 7400, False),
        ("penstock://[FE80::1%Eth0]:1", "fe80::1%Eth0", 1, False),
        ("Penstock://B1:007400/", "b1", 7400, False),
        ("penstock://größe:0", "größe", 0, False),
    ],
)
def test_addresses_have_a_host_and_a_port(text: str, host: str, port: int, tls: bool) -> None:
    found = parse_url(text)
    assert (found.host, found.port, found.tls) == (host, port, tls)
    assert found.scheme == ("penstocks" if tls else "penstock")


def test_gateways_speak_http_on_a_port_of_their_own() -> None:
    assert parse_gateway_url("http://127.0.0.1") == Address("http", "127.0.0.1", 7480, False)
    assert parse_gateway_url("https://[::]:443").tls
    with pytest.raises(InputError, match="a gateway's address begins with http:// or, for TLS, https://"):
        parse_gateway_url("penstock://127.0.0.1")


def test_an_address_can_be_given_the_real_port() -> None:
    assert str(parse_url("penstock://[::1]:0").with_port(5)) == "penstock://[::1]:5"


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.8.8.8", True), ("localhost", True), ("::1", True), ("0.0.0.0", False), ("b1", False)],  # noqa: S104
)
def test_loopback_is_known_of_addresses_and_localhost(host: str, loopback: bool) -> None:
    assert Address("penstock", host, 1, False).is_loopback is loopback


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "begins with penstock:// or, for TLS, penstocks://; such as penstock://127.0.0.1"),
        ("b1:7400", "write penstock://b1:7400"),
        ("http://b1:7400", "begins with penstock:// or"),
        ("http://b1:7480", "this is a gateway's address, a broker's is penstock://host:7400"),
        ("penstok://b1:7400", "perhaps penstock://"),
        ("penstock://", "a host is missing"),
        ("penstock://:7400", "a host is missing"),
        ("penstock://b1:", "a port is a number from 0 to 65535, not ''"),
        ("penstock://b1:74oo", "not '74oo'"),
        ("penstock://b1:-1", "not '-1'"),
        ("penstock://b1:65536", "a port is at most 65535, not 65536"),
        ("penstock://b1:" + "9" * 5000, "a port is at most 65535"),
        ("penstock://b1:٧٤٠٠", "a port is a number"),
        ("penstock://b1:7400/events", "nothing follows the port, but here is '/events'"),
        ("penstock://::1", r"stands in brackets: penstock://\[::1\]$"),
        ("penstock://::1:7400:b", "an IPv6 address stands in brackets"),
        ("penstock://[::1", "an IPv6 address stands in brackets"),
        ("penstock://[127.0.0.1]:1", "'127.0.0.1' is no IPv6 address"),
        ("penstock://alice@b1:7400", "no user or password"),
        ("penstock://b 1:7400", "'b 1' is no name of a host"),
        ("penstock://b..1", "is no name of a host"),
        ("penstock://256.0.0.1", "is no IPv4 address"),
        ("penstock://1.2.3", "is no IPv4 address"),
        ("penstock://b1?x=1", "is no name of a host"),
        (f"penstock://{'b' * 254}", "is no name of a host"),
    ],
)
def test_what_is_no_address_is_refused_with_what_to_write(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse_url(text)
