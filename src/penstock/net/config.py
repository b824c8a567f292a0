"""What a broker is told: settings with their defaults and reasons, from TOML and from the command line.

`broker.toml` beside this file shows every setting; `penstock broker --example` prints it. An empty text in a
file stands for nothing, as TOML has no word for it: no gateway, no certificate.
"""

import tomllib
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import field

from penstock.errors import InputError
from penstock.mistakes import said
from penstock.net.checks import mistakes, shared_addresses
from penstock.node.settings import Limits, Settings, Times

COMMAND_LINE: Final = "command line"
"""What stands for the file in an error about a setting that came from a flag."""

LISTEN_DEFAULT: Final = "penstock://127.0.0.1:7400"
GATEWAY_DEFAULT: Final = "http://127.0.0.1:7480"

Algorithm: TypeAlias = Literal[
    "HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384",
    "ES512", "EdDSA",
]  # fmt: skip

_Placer: TypeAlias = Callable[[str], str]
"""Says of a setting's key where it was given: the file, the table, the key."""

_OPTIONAL: Final = {
    "gateway.cert": True,
    "gateway.key": True,
    "peer_secret_file": True,
    "schema": True,
    "tls.cert": True,
    "tls.key": True,
    "tls.ca": True,
    "tokens.secret_file": True,
    "tokens.public_key_file": True,
    "tokens.audience": False,
    "tokens.issuer": False,
}
"""The settings that an empty text switches off, and whether they are paths."""


class GatewayConfig(Settings, frozen=True, kw_only=True):
    """HTTP and WebSockets, for browsers and for programs in other languages."""

    listen: str = GATEWAY_DEFAULT
    """Only this machine, until somebody says otherwise; "" is no gateway."""
    origins: list[str] = field(default_factory=list)
    """None: a page of another site must not speak for whoever looks at it."""
    cert: str | None = None
    key: str | None = None
    """For https://. None: the default address is this machine's, where nothing goes over a wire."""


class TLSConfig(Settings, frozen=True, kw_only=True):
    """Certificates, as paths of PEM files, for penstocks://. None: then there is only penstock://."""

    cert: str | None = None
    """The broker's own, with what leads up to the authority."""
    key: str | None = None
    """Its key, where that is not in the same file."""
    ca: str | None = None
    """Who vouches for other brokers, and for clients if they are verified."""
    verify_clients: bool = False
    """Clients usually have a token, and no certificate. Brokers are always verified."""


class TokenConfig(Settings, frozen=True, kw_only=True):
    """Which JSON Web Tokens count. Without a key nobody needs one, and everybody may do everything."""

    algorithm: Algorithm = "HS256"
    """One only, as a token must not choose how it is checked. A shared secret is the least to set up."""
    secret_file: str | None = None
    """For HS256, HS384 and HS512."""
    public_key_file: str | None = None
    """For the others: PEM."""
    audience: str | None = None
    issuer: str | None = None
    """What a token must say that it is for, and from; None asks for nothing."""
    required: bool = True
    """Who has given a key wants to know who is there."""

    @property
    def is_on(self) -> bool:
        """Whether tokens are looked at."""
        return self.secret_file is not None or self.public_key_file is not None


class BrokerConfig(Settings, frozen=True, kw_only=True):
    """All of it. Only the name has no default: it must be another than that of every other broker."""

    name: str
    listen: list[str] = field(default_factory=lambda: [LISTEN_DEFAULT])
    """Only this machine, until somebody says otherwise. Port 0 is any free one."""
    peers: list[str] = field(default_factory=list)
    """Brokers that it connects to, again and again if need be. One of two is enough to name the other."""
    protocol: str = "trees"
    """What brokers say to each other: see `penstock.broker.protocols`. All of a network have the same."""
    scheme: str = "covering"
    """Small tables, exact, and cheap to keep up: see `penstock.routing.schemes`."""
    advertisements: bool = True
    """Subscriptions then go only where something is published that they may want."""
    gateway: GatewayConfig = field(default_factory=GatewayConfig)
    limits: Limits = field(default_factory=Limits)
    times: Times = field(default_factory=Times)
    tls: TLSConfig = field(default_factory=TLSConfig)
    tokens: TokenConfig = field(default_factory=TokenConfig)
    peer_names: list[str] = field(default_factory=list)
    """Brokers that may join, by their names: a certificate alone may be a client's. `*` is any name."""
    allow_anonymous: bool = False
    """Whether other machines may reach it without a token: then everybody there may read and publish."""
    peer_secret_file: str | None = None
    """A secret that brokers show each other where there is no mutual TLS. None: then any broker may join."""
    schema: str | None = None
    """A JSON Schema of events; subscriptions and advertisements that do not fit it are refused."""


def load_broker(path: str | Path | None = None, overrides: Mapping[str, Any] | None = None) -> BrokerConfig:
    """The settings of one broker: of a file, if there is one, with others over them.

    `overrides` is shaped as the file is, `{"tls": {"cert": "b1.pem"}}`; its paths are relative to where the
    program runs, those of the file to the file.
    """
    given: dict[str, Any] = {}
    source = COMMAND_LINE
    if path is not None:
        given, source = _read(path), str(path)
        if "broker" in given:
            raise InputError(
                f"{source}: broker: [[broker]] tables are for penstock network, which runs them all"
            )
        given = _resolved(given, Path(path).parent)
    over = _resolved(overrides or {}, Path())
    merged = _merged(given, over)
    if "name" not in merged:
        raise InputError(
            f"{source}: name: is missing; give the broker one that no other of its network has (--name NAME)"
        )

    def place(key: str) -> str:
        return f"{COMMAND_LINE if _has(over, key) else source}: {key}"

    return _checked(merged, place)


def load_network(path: str | Path) -> list[BrokerConfig]:
    """The brokers of a file: a [[broker]] table each, over what they have in common in [defaults].

    The gateway that is there by default is that of the first one: two cannot have the same address.
    """
    source = str(path)
    given = _read(path)
    tables = given.pop("broker", None)
    defaults = given.pop("defaults", {})
    for key in given:
        raise InputError(f"{source}: {key}: belongs into [defaults], or into a [[broker]] table")
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise InputError(f"{source}: broker: begin each broker with [[broker]], in two pairs of brackets")
    if not isinstance(defaults, dict):
        raise InputError(f"{source}: defaults: begin them with [defaults]")
    if "name" in defaults:
        raise InputError(
            f"{source}: defaults.name: each broker has a name of its own, in its [[broker]] table"
        )
    folder = Path(path).parent
    defaults = _resolved(defaults, folder)
    # A mistake in what they have in common is one, and is told where it is.
    _converted({"name": "any"} | defaults, lambda key: f"{source}: defaults.{key}")
    configs: list[BrokerConfig] = []
    for at, table in enumerate(tables):
        merged = _merged(defaults, _resolved(table, folder))
        if at > 0:
            merged = _merged({"gateway": {"listen": ""}}, merged)
        configs.append(_checked(merged, _placer(source, at, table, defaults)))
    for where, what in shared_addresses(configs):
        raise InputError(f"{source}: {where}: {what}")
    return configs


def example() -> str:
    """A file with all settings, explained, and their defaults."""
    return files("penstock.net").joinpath("broker.toml").read_text("utf-8")


def _read(path: str | Path) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(path).read_bytes().decode("utf-8"))
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: not TOML: {error}") from None
    except RecursionError:
        raise InputError(f"{path}: not TOML that has an end: too deeply nested") from None


def _resolved(given: Mapping[str, Any], folder: Path, prefix: str = "") -> dict[str, Any]:
    """The same with paths from a folder on, and None where an empty text stands for nothing."""
    found: dict[str, Any] = {}
    for key, value in given.items():
        place = f"{prefix}{key}"
        if isinstance(value, Mapping):
            found[key] = _resolved(value, folder, f"{place}.")
        elif place in _OPTIONAL and value == "":
            found[key] = None
        elif _OPTIONAL.get(place) and isinstance(value, str):
            found[key] = str(folder / Path(value).expanduser())
        else:
            found[key] = value
    return found


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Settings over others. Tables are laid over tables; anything else replaces what was there, lists too."""
    found = dict(under)
    for key, value in over.items():
        below = found.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            value = _merged(below, value)
        found[key] = value
    return found


def _has(given: Any, place: str) -> bool:
    """Whether a setting is there, by its place, such as tls.cert or listen[0]."""
    for key in place.partition("[")[0].split("."):
        if not isinstance(given, Mapping) or key not in given:
            return False
        given = given[key]
    return True


def _placer(source: str, at: int, table: dict[str, Any], defaults: dict[str, Any]) -> _Placer:
    def place(key: str) -> str:
        common = _has(defaults, key) and not _has(table, key)
        return f"{source}: {'defaults' if common else f'broker[{at}]'}.{key}"

    return place


def _checked(given: dict[str, Any], place: _Placer) -> BrokerConfig:
    config = _converted(given, place)
    tokens = given.get("tokens", {})
    if tokens.get("required") and not {"secret_file", "public_key_file"} & tokens.keys():
        # Who asks for tokens and gives no key would otherwise run an open broker.
        what = "there is no key to check tokens with; give secret_file or public_key_file"
        raise InputError(f"{place('tokens.required')}: {what}")
    for key, what in mistakes(config):
        raise InputError(f"{place(key)}: {what}")
    return config


def _converted(given: dict[str, Any], place: _Placer) -> BrokerConfig:
    try:
        return msgspec.convert(given, BrokerConfig)
    except msgspec.ValidationError as error:
        told = said(str(error), given, BrokerConfig).replace(" | null", "")
        key, _colon, what = told.partition(": ")
        raise InputError(f"{place(key)}: {what}") from None
