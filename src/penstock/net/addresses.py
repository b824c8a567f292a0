"""Addresses of brokers and gateways, as people write them: penstock://host:port."""

import ipaddress
import re
from difflib import get_close_matches
from typing import Final, NoReturn

import msgspec

from penstock.errors import InputError

PORT_DEFAULT: Final = 7400
"""Where brokers listen, and are looked for."""

GATEWAY_PORT_DEFAULT: Final = 7480
"""Where gateways listen. Not the broker's port: a browser that speaks to it would only be refused."""

PORT_MAX: Final = 65_535

_BROKER: Final = {"penstock": False, "penstocks": True}
_GATEWAY: Final = {"http": False, "https": True}
"""The schemes, and whether they mean TLS."""

_PARTS: Final = re.compile(
    r"(?P<host>\[[^\[\]/]*\]|[^:\[\]/]*)(?::(?P<port>[^:/]*))?(?P<rest>/.*)?", re.DOTALL
)
_HOST: Final = re.compile(r"[\w-]+(\.[\w-]+)*\.?")
_HOST_LENGTH_MAX: Final = 253
"""Characters of a name in the DNS."""
_SHOWN_LENGTH_MAX: Final = 80


class Address(msgspec.Struct, frozen=True):
    """Where somebody listens. The host of IPv6 is without its brackets; port 0 is any free one."""

    scheme: str
    host: str
    port: int
    tls: bool

    def __str__(self) -> str:
        return f"{self.scheme}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it. Of a name other than localhost that is not known."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def with_port(self, port: int) -> "Address":
        """The same with another port: the real one, where any free one was asked for."""
        return msgspec.structs.replace(self, port=port)


def parse_url(text: str) -> Address:
    """The address of a broker: penstock:// (TCP) or penstocks:// (TLS), a host and a port (default: 7400)."""
    return _parse(text, _BROKER, PORT_DEFAULT, "a broker's address")


def parse_gateway_url(text: str) -> Address:
    """The address of a gateway: http:// or https://, a host and a port (default: 7480)."""
    return _parse(text, _GATEWAY, GATEWAY_PORT_DEFAULT, "a gateway's address")


def _parse(text: str, schemes: dict[str, bool], port: int, what: str) -> Address:
    plain, tls = schemes
    begins = f"{what} begins with {plain}:// or, for TLS, {tls}://"
    scheme, separator, rest = text.partition("://")
    if not separator:
        _refuse(text, f"{begins}; {_example(plain, text)}")
    scheme = scheme.lower()
    if scheme not in schemes:
        if schemes is _BROKER and scheme in _GATEWAY:
            _refuse(text, f"{begins}; this is a gateway's address, a broker's is {plain}://host:{port}")
        near = get_close_matches(scheme, schemes, 1)
        _refuse(text, f"{begins}{f'; perhaps {near[0]}://' if near else ''}")
    found = _PARTS.fullmatch(rest)
    if found is None:
        _refuse(text, _why_not_parts(scheme, rest))
    if found["rest"] not in (None, "/"):
        _refuse(text, f"nothing follows the port, but here is {found['rest'][:_SHOWN_LENGTH_MAX]!r}")
    if found["port"] is not None:
        port = _port(text, found["port"])
    return Address(scheme, _host(text, scheme, found["host"]), port, schemes[scheme])


def _example(plain: str, text: str) -> str:
    """What was perhaps meant by a text without a scheme."""
    if re.fullmatch(r"[\w.:\[\]-]+", text):
        return f"write {plain}://{text}"
    return f"such as {plain}://127.0.0.1"


def _why_not_parts(scheme: str, rest: str) -> str:
    if _is_ipv6(rest):
        return f"an IPv6 address stands in brackets: {scheme}://[{rest}]"
    return f"after {scheme}:// come a host and, after a colon, a port; an IPv6 address stands in brackets"


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _port(text: str, port: str) -> int:
    if not (port.isascii() and port.isdigit()):
        _refuse(text, f"a port is a number from 0 to {PORT_MAX}, not {port[:_SHOWN_LENGTH_MAX]!r}")
    # Many digits are not converted at all: that takes long, and they are too many in any case.
    if len(port.lstrip("0")) > len(str(PORT_MAX)) or int(port) > PORT_MAX:
        _refuse(text, f"a port is at most {PORT_MAX}, not {port[:_SHOWN_LENGTH_MAX]}")
    return int(port)


def _host(text: str, scheme: str, host: str) -> str:
    if host.startswith("["):
        inner, percent, zone = host[1:-1].partition("%")
        if not _is_ipv6(host[1:-1]):
            _refuse(text, f"{host[1:-1]!r} is no IPv6 address, and only those stand in brackets")
        # A zone is a name that the system gives, in which letters may differ by their case.
        return f"{inner.lower()}{percent}{zone}"
    host = host.lower()
    if not host:
        _refuse(text, f"a host is missing; {scheme}://127.0.0.1 is this machine, 0.0.0.0 all its addresses")
    if "@" in host:
        _refuse(text, "an address has no user or password; who a client is says its token")
    if not _HOST.fullmatch(host) or len(host) > _HOST_LENGTH_MAX:
        _refuse(text, f"{host[:_SHOWN_LENGTH_MAX]!r} is no name of a host")
    if re.fullmatch(r"[\d.]+", host):
        try:
            ipaddress.IPv4Address(host)
        except ValueError:
            _refuse(text, f"{host!r} is no IPv4 address: four numbers from 0 to 255")
    return host


def _refuse(text: str, why: str) -> NoReturn:
    raise InputError(f"{text[:_SHOWN_LENGTH_MAX]!r}: {why}")
