"""What is wrong, or unwise, in a broker's settings, as far as their types do not say it."""

import re
from collections.abc import Callable, Collection, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from penstock.broker.protocols import protocol_named
from penstock.errors import InputError, PenstockError
from penstock.net.addresses import Address, parse_gateway_url, parse_url
from penstock.net.files import read_schema
from penstock.routing.schemes.catalog import SCHEMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.net.config import BrokerConfig

Mistake: TypeAlias = tuple[str, str]
"""The key of a setting, and what is wrong with it."""

NAME_LENGTH_MAX: Final = 64
"""Characters of a broker's name: it stands in every line that is logged, and in the labels of metrics."""

_NAME: Final = re.compile(r"\w[\w.-]*")


def mistakes(config: "BrokerConfig") -> Iterator[Mistake]:
    """What is wrong with settings that are of the right types each."""
    if not _NAME.fullmatch(config.name) or len(config.name) > NAME_LENGTH_MAX:
        yield "name", f"letters, digits, '_', '-' and '.' make a name, up to {NAME_LENGTH_MAX} of them"
    try:
        protocol_named(config.protocol)
    except PenstockError as error:
        yield "protocol", str(error)
    if ":" not in config.scheme:
        yield from _unknown("scheme", config.scheme, SCHEMES)
    yield from _address_mistakes(config)
    yield from _gateway_mistakes(config)
    yield from _size_mistakes(config)
    yield from _tls_mistakes(config)
    yield from _peer_name_mistakes(config)
    yield from _token_mistakes(config)
    yield from _file_mistakes(config)
    yield from open_to_all(config)


def shared_addresses(configs: "Sequence[BrokerConfig]") -> Iterator[Mistake]:
    """Names and addresses that several brokers of one file have."""
    names: dict[str, str] = {}
    owners: dict[tuple[str, int], str] = {}
    for at, config in enumerate(configs):
        if config.name in names:
            yield f"broker[{at}].name", f"{config.name!r} is the name of {names[config.name]} already"
        names[config.name] = f"broker[{at}]"
        places = [(f"listen[{i}]", parse_url(url)) for i, url in enumerate(config.listen)]
        if config.gateway.listen:
            places.append(("gateway.listen", parse_gateway_url(config.gateway.listen)))
        for key, address in places:
            place = (address.host, address.port)
            if address.port and place in owners:
                what = f"{address.host}:{address.port} is an address of {owners[place]} already"
                yield f"broker[{at}].{key}", f"{what}; give another port"
            owners[place] = config.name


def open_to_all(config: "BrokerConfig") -> Iterator[Mistake]:
    """Addresses that other machines reach, and where nobody says who they are; unless that is allowed."""
    if config.allow_anonymous or (config.tokens.is_on and config.tokens.required):
        return
    listed = [(f"listen[{at}]", url, parse_url) for at, url in enumerate(config.listen)]
    if config.tls.verify_clients:
        listed = [place for place in listed if not place[1].lower().startswith("penstocks:")]
    if config.gateway.listen:
        listed.append(("gateway.listen", config.gateway.listen, parse_gateway_url))
    for key, url, parse in listed:
        try:
            address = parse(url)
        except InputError:
            continue  # which is told elsewhere
        if not address.is_loopback:
            yield (
                key,
                f"{address} can be reached from other machines, and no token is required there: give "
                "tokens.secret_file (penstock token --new-secret FILE makes one), or allow_anonymous = true "
                "if everybody who reaches it may read and publish everything",
            )


def cautions(config: "BrokerConfig") -> list[str]:
    """What is left open to whoever reaches the broker from other machines, a line for each address."""
    tokens = [] if config.tokens.is_on and config.tokens.required else ["a token"]
    found = []
    for url in config.listen:
        address = parse_url(url)
        missing = ([] if address.tls else ["TLS"]) + ([] if config.tls.verify_clients else tokens)
        if not address.tls and config.peer_secret_file is None:
            missing.append("a peer secret")
        if missing and not address.is_loopback:
            found.append(_caution(config.name, address, missing))
    if config.gateway.listen:
        address = parse_gateway_url(config.gateway.listen)
        missing = ([] if address.tls else ["TLS"]) + tokens
        if missing and not address.is_loopback:
            found.append(_caution(config.name, address, missing))
    return found


def _caution(name: str, address: Address, missing: list[str]) -> str:
    without = " and ".join(filter(None, [", ".join(missing[:-1]), missing[-1]]))
    place = f"{name}: {address} can be reached from other machines without {without}"
    return f"{place}; penstock broker --example says what to set"


def _parsed(key: str, text: str, parse: Callable[[str], Address], found: list[Address]) -> Iterator[Mistake]:
    try:
        found.append(parse(text))
    except InputError as error:
        yield key, str(error)


def _unknown(what: str, name: str, known: Collection[str]) -> Iterator[Mistake]:
    if name not in known:
        near = get_close_matches(name, known, 1)
        instead = f"perhaps {near[0]}" if near else f"there are {', '.join(known)}"
        yield what, f"no {what} {name!r}; {instead}"


def _address_mistakes(config: "BrokerConfig") -> Iterator[Mistake]:
    if not config.listen and not config.gateway.listen:
        yield "listen", "a broker without an address and without a gateway is of use to nobody"
    own: list[Address] = []
    for at, url in enumerate(config.listen):
        before = len(own)
        yield from _parsed(f"listen[{at}]", url, parse_url, own)
        if own[before:] and own[before].port and own[before] in own[:before]:
            yield f"listen[{at}]", f"{own[before]} is there twice"
    peers: list[Address] = []
    for at, url in enumerate(config.peers):
        key, before = f"peers[{at}]", len(peers)
        yield from _parsed(key, url, parse_url, peers)
        for peer in peers[before:]:
            if not peer.port:
                yield key, f"{url!r}: port 0 is for listening only; give the port that the peer listens on"
            if peer in peers[:before]:
                yield key, f"{peer} is there twice"
            if peer in own:
                yield key, f"{peer} is where the broker itself listens"
    tls = config.tls
    if any(address.tls for address in own) and tls.cert is None:
        yield "listen", "penstocks:// needs a certificate; give tls.cert and tls.key"
    if any(peer.tls for peer in peers) and (tls.cert is None or tls.ca is None):
        yield (
            "peers",
            "brokers on penstocks:// show each other certificates; give tls.cert, tls.key and tls.ca",
        )


def _gateway_mistakes(config: "BrokerConfig") -> Iterator[Mistake]:
    gateway = config.gateway
    found: list[Address] = []
    if gateway.listen:
        yield from _parsed("gateway.listen", gateway.listen, parse_gateway_url, found)
    if any(address.tls for address in found) and gateway.cert is None:
        yield "gateway.listen", "https:// needs a certificate; give gateway.cert and gateway.key"
    if gateway.key is not None and gateway.cert is None:
        yield "gateway.key", "is the key of a certificate; give gateway.cert"
    for at, origin in enumerate(gateway.origins):
        if origin != "*" and not re.fullmatch(r"https?://[^/\s]+", origin):
            what = f"{origin!r} is no origin; write scheme, host and port, such as https://example.org"
            yield f"gateway.origins[{at}]", f"{what}, or * for all"


def _size_mistakes(config: "BrokerConfig") -> Iterator[Mistake]:
    limits, times = config.limits, config.times
    if limits.peer_frame_bytes < limits.frame_bytes:
        what = f"what a client may send must fit into it; give at least frame_bytes, {limits.frame_bytes}"
        yield "limits.peer_frame_bytes", what
    if limits.unfinished_bytes < limits.peer_frame_bytes:
        what = f"one frame of a broker must fit into it; give at least {limits.peer_frame_bytes}"
        yield "limits.unfinished_bytes", what
    if times.ping >= times.lease:
        yield "times.ping", f"must be shorter than the lease, {times.lease:g}; a few times in it is right"
    if times.resume >= times.lease:
        yield "times.resume", f"must be shorter than the lease, {times.lease:g}"


def _tls_mistakes(config: "BrokerConfig") -> Iterator[Mistake]:
    tls = config.tls
    if tls.key is not None and tls.cert is None:
        yield "tls.key", "is the key of a certificate; give tls.cert"
    if tls.verify_clients and tls.ca is None:
        yield "tls.verify_clients", "somebody must vouch for clients; give tls.ca"


def _peer_name_mistakes(config: "BrokerConfig") -> Iterator[Mistake]:
    for at, name in enumerate(config.peer_names):
        if name != "*" and not _NAME.fullmatch(name):
            yield f"peer_names[{at}]", f"{name!r:.80} is no broker's name; write one, or * for any"
    if "*" in config.peer_names and config.tls.verify_clients and config.peer_secret_file is None:
        what = "* lets every client with a certificate join as a broker; list the brokers' names"
        yield "peer_names", f"{what}, or give peer_secret_file"


def _token_mistakes(config: "BrokerConfig") -> Iterator[Mistake]:
    tokens = config.tokens
    shared = tokens.algorithm.startswith("HS")
    if shared and tokens.public_key_file is not None:
        yield "tokens.public_key_file", f"{tokens.algorithm} needs secret_file, or give another algorithm"
    elif not shared and tokens.secret_file is not None:
        yield "tokens.secret_file", f"{tokens.algorithm} needs public_key_file, or give another algorithm"
    if not tokens.is_on:
        for key, given in (
            ("algorithm", not shared),
            ("audience", tokens.audience is not None),
            ("issuer", tokens.issuer is not None),
        ):
            if given:
                yield (
                    f"tokens.{key}",
                    "there is no key to check tokens with; give secret_file or public_key_file",
                )


def _file_mistakes(config: "BrokerConfig") -> Iterator[Mistake]:
    paths = {
        "tls.cert": config.tls.cert,
        "tls.key": config.tls.key,
        "tls.ca": config.tls.ca,
        "tokens.secret_file": config.tokens.secret_file,
        "tokens.public_key_file": config.tokens.public_key_file,
        "gateway.cert": config.gateway.cert,
        "gateway.key": config.gateway.key,
        "peer_secret_file": config.peer_secret_file,
        "schema": config.schema,
    }
    for key, path in paths.items():
        if path is not None and not Path(path).is_file():
            yield key, f"{path}: {'is no file' if Path(path).exists() else 'there is no such file'}"
    if config.schema is not None and Path(config.schema).is_file():
        try:
            read_schema(config.schema)
        except InputError as error:
            yield "schema", str(error)
