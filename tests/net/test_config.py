"""A broker's settings: defaults, files, what lies over them, and what is said of mistakes."""

import re
import tomllib
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InputError
from penstock.net import config as settings
from penstock.net.checks import cautions
from penstock.net.config import BrokerConfig, example, load_broker, load_network
from penstock.net.server import Server
from penstock.node.settings import Limits, Times
from penstock.routing.schemes.catalog import SCHEMES

PEM = ("b1.pem", "b1.key", "ca.pem", "secret", "public.pem")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in PEM:
        (tmp_path / name).write_text("")
    return tmp_path


def load(text: str, **overrides: Any) -> BrokerConfig:
    Path("b.toml").write_text(text)
    return load_broker("b.toml", overrides)


def network(text: str) -> list[BrokerConfig]:
    Path("n.toml").write_text(text)
    return load_network("n.toml")


def fields(kind: type[msgspec.Struct], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The settings by their keys, and their types."""
    for name, type_ in get_type_hints(kind).items():
        if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
            yield from fields(type_, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", type_


def keys(given: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in given.items():
        if isinstance(value, dict):
            yield from keys(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


# The example.

UNCOMMENTED = re.sub(r"^#(?=[a-z])", "", example(), flags=re.MULTILINE)


def test_the_example_is_a_file_as_it_stands() -> None:
    assert load(example()) == BrokerConfig(name="b1")


def test_the_example_shows_the_defaults() -> None:
    assert load(UNCOMMENTED) == BrokerConfig(name="b1")


def test_the_example_has_every_setting() -> None:
    assert set(keys(tomllib.loads(UNCOMMENTED))) == {key for key, _type in fields(BrokerConfig)}


@pytest.mark.parametrize(
    "page",
    [
        *("docs/OPERATIONS.md", "docs/NETWORK.md", "docs/PROTOCOLS.md"),
        *(
            "src/penstock/net/broker.toml",
            "src/penstock/node/settings.py",
            "src/penstock/broker/protocols.py",
        ),
    ],
)
def test_whatever_describes_keep_says_how_long_events_are_kept(page: str) -> None:
    text = re.sub(r"[\s#]+", " ", (Path(__file__).parents[2] / page).read_text())
    assert "and for up to three times `keep` while there is room" in text


def test_events_are_kept_for_as_long_as_is_said() -> None:
    assert Times().kept_at_most == 3 * Times().keep
    # Where it takes longer to notice a failure, that counts.
    assert Times(keep=5.0).kept_at_most == 5.0 + 3 * Times().ping + Times().resume


def test_the_example_names_every_scheme_and_algorithm() -> None:
    for name in (*SCHEMES, *get_args(settings.Algorithm)):
        assert re.search(rf"\b{name}\b", example()), name


def test_the_network_of_the_example_is_one() -> None:
    text = re.sub(r"^# {4,5}", "", example().partition("table for each:\n#\n")[2], flags=re.MULTILINE)
    first, second = network(text.replace("#\n", "\n"))
    assert (first.name, second.name, second.peers) == ("b1", "b2", first.listen)
    assert (first.scheme, first.limits.clients) == (second.scheme, second.limits.clients) == ("merging", 100)


def test_an_empty_text_switches_off_whatever_may_be_off() -> None:
    optional = {key for key, type_ in fields(BrokerConfig) if types.NoneType in get_args(type_)}
    assert set(settings._OPTIONAL) == optional
    paths = {key for key in optional if settings._OPTIONAL[key]}
    assert optional - paths == {"tokens.audience", "tokens.issuer"}


# Files, and what lies over them.


def test_nothing_but_a_name_is_needed() -> None:
    config = load_broker(None, {"name": "b1"})
    assert config == BrokerConfig(name="b1")
    assert config.listen == ["penstock://127.0.0.1:7400"]
    assert config.gateway.listen == "http://127.0.0.1:7480"
    assert (config.limits, config.times) == (Limits(), Times())
    assert not config.tokens.is_on


def test_what_a_file_says_is_so() -> None:
    config = load(
        'name = "b.2"\nscheme = "merging"\nadvertisements = false\n'
        '[gateway]\nlisten = ""\n[limits]\nclients = 5\n[times]\nlease = 60\n'
        '[tokens]\nsecret_file = "secret"\nissuer = "me"\nrequired = false\n'
    )
    assert (config.name, config.scheme, config.advertisements) == ("b.2", "merging", False)
    assert config.gateway.listen == ""
    assert config.limits == Limits(clients=5)
    assert config.times == Times(lease=60.0)
    assert (config.tokens.issuer, config.tokens.required, config.tokens.is_on) == ("me", False, True)


def test_what_lies_over_a_file_wins() -> None:
    text = (
        'name = "b1"\nallow_anonymous = true\nlisten = ["penstock://a", "penstock://b"]\n'
        '[tls]\ncert = "b1.pem"\nkey = "b1.key"\n'
    )
    config = load(text, name="b2", listen=["penstock://c"], tls={"key": ""})
    assert (config.name, config.listen) == ("b2", ["penstock://c"])
    assert config.tls.key is None
    assert config.tls.cert is not None


def test_paths_of_a_file_are_relative_to_it_and_those_of_flags_to_here(folder: Path) -> None:
    (folder / "deep").mkdir()
    (folder / "deep" / "own.pem").write_text("")
    Path("deep/b.toml").write_text('name = "b1"\n[tls]\ncert = "own.pem"\nca = "../ca.pem"\n')
    config = load_broker("deep/b.toml", {"tls": {"key": "b1.key"}})
    assert config.tls.cert is not None
    assert config.tls.ca is not None
    assert Path(config.tls.cert).samefile("deep/own.pem")
    assert Path(config.tls.ca).samefile("ca.pem")
    assert config.tls.key == "b1.key"
    absolute = load(f'name = "b1"\npeer_secret_file = "{folder / "secret"}"\n')
    assert absolute.peer_secret_file == str(folder / "secret")


def test_paths_of_home_are_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder))
    assert load('name = "b1"\npeer_secret_file = "~/secret"').peer_secret_file == str(folder / "secret")


numbers = st.integers(-(2**70), 2**70) | st.floats()


@pytest.mark.property
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "limits": st.dictionaries(st.sampled_from(Limits.__struct_fields__), numbers),
            "times": st.dictionaries(st.sampled_from(Times.__struct_fields__), numbers),
            "listen": st.lists(st.text(max_size=20) | st.integers(0, 10**6).map("penstock://b:{}".format)),
            "scheme": st.text(max_size=9) | st.sampled_from(sorted(SCHEMES)),
            "tokens": st.dictionaries(st.sampled_from(["required", "issuer", "algorithm", "odd"]), st.text()),
        },
    )
)
def test_any_settings_are_taken_or_refused_in_one_line(given: dict[str, Any]) -> None:
    try:
        config = load_broker(None, {"name": "b1"} | given)
    except InputError as error:
        assert str(error).startswith("command line: ")
        assert len(str(error).splitlines()) == 1
    else:
        assert config.limits.clients >= 1
        assert min(config.limits.bytes_per_second, config.limits.events_per_second) >= 0
        assert all(0 < seconds <= 86_400 for seconds in msgspec.structs.astuple(config.times))
        assert config.scheme in SCHEMES


# Mistakes.

MISTAKES = [
    ("nam = 'b1'", "name: is missing; give the broker one"),
    ("name = 'b1'\npeer = []", "peer: there is no such field; perhaps peers"),
    (
        "name = 'b1'\n[limits]\nframe-bytes = 5",
        "limits.frame-bytes: there is no such field; perhaps frame_bytes",
    ),
    ("name = 'b1'\n[limit]", "limit: there is no such field; perhaps limits"),
    ("name = ''", "name: letters, digits"),
    ("name = 'b 1'", "name: letters, digits"),
    (f"name = '{'b' * 65}'", "name: letters, digits"),
    ("name = 5", "name: expected `str`, got `int`, given 5"),
    ("listen = 'penstock://b'", r"listen: expected `array`, got `str`; write \[\"penstock://b\"\]"),
    ("listen = []\ngateway = {listen = ''}", "listen: a broker without an address"),
    ("listen = ['penstock://b:65536']", r"listen\[0\]: 'penstock://b:65536': a port is at most 65535"),
    ("listen = ['penstock://b', 'http://b']", r"listen\[1\]: 'http://b': a broker's address begins with"),
    ("listen = ['penstock://b', 'penstock://B:7400']", r"listen\[1\]: penstock://b:7400 is there twice"),
    ("listen = ['penstocks://b']", "listen: penstocks:// needs a certificate"),
    ("peers = ['b2']", r"peers\[0\]: 'b2': .*; write penstock://b2"),
    ("peers = ['penstock://b:0']", r"peers\[0\]: 'penstock://b:0': port 0 is for listening only"),
    ("peers = ['penstock://b', 'penstock://b']", r"peers\[1\]: penstock://b:7400 is there twice"),
    ("peers = ['penstock://127.0.0.1']", r"peers\[0\]: penstock://127.0.0.1:7400 is where the broker itself"),
    ("peers = ['penstocks://b']\n[tls]\ncert = 'b1.pem'", "peers: brokers on penstocks:// show each other"),
    ("scheme = 'mergin'", "scheme: no scheme 'mergin'; perhaps merging"),
    ("scheme = 'best'", "scheme: no scheme 'best'; there are flooding, simple"),
    ("[gateway]\nlisten = 'htp://b'", "gateway.listen: 'htp://b': .*perhaps http://"),
    ("[gateway]\nlisten = 'https://b'", "gateway.listen: https:// needs a certificate"),
    ("[gateway]\nkey = 'b1.key'", "gateway.key: is the key of a certificate"),
    ("[gateway]\norigins = ['*', 'b']", r"gateway.origins\[1\]: 'b' is no origin"),
    ("[limits]\nclients = -1", "limits.clients: expected `int` >= 1, given -1"),
    ("[limits]\nevents_per_second = -5", "limits.events_per_second: expected `int` >= 0, given -5"),
    ("[limits]\nframe_bytes = 1_000", "limits.frame_bytes: expected `int` >= 65536"),
    ("[limits]\npeer_frame_bytes = 100_000", "limits.peer_frame_bytes: .* at least frame_bytes, 16777216"),
    ("[times]\ndrain = 0", "times.drain: expected `float` > 0"),
    ("[times]\ndrain = inf", "times.drain: expected `float` <= 86400"),
    ("[times]\ndrain = nan", "times.drain: expected `float`"),
    ("[times]\nping = 30", "times.ping: must be shorter than the lease, 30"),
    ("[times]\nlease = 2\nping = 1", "times.resume: must be shorter than the lease, 2"),
    ("[tls]\ncert = 'gone.pem'", "tls.cert: gone.pem: there is no such file"),
    ("[tls]\ncert = '.'", "tls.cert: .: is no file"),
    ("[tls]\nkey = 'b1.key'", "tls.key: is the key of a certificate"),
    ("[tls]\nverify_clients = true", "tls.verify_clients: somebody must vouch for clients"),
    ("[tokens]\nalgorithm = 'none'", "tokens.algorithm: invalid enum value 'none'; there are ES256, "),
    (
        "[tokens]\nalgorithm = 'ES256'\nsecret_file = 'secret'",
        "tokens.secret_file: ES256 needs public_key_file",
    ),
    ("[tokens]\npublic_key_file = 'public.pem'", "tokens.public_key_file: HS256 needs secret_file"),
    ("[tokens]\nrequired = true", "tokens.required: there is no key to check tokens with"),
    ("[tokens]\nissuer = 'me'", "tokens.issuer: there is no key to check tokens with"),
    ("[[tokens]]\nissuer = 'me'", r"tokens: expected `object`, got `array`; .* begins with \[tokens\]"),
    ("[[broker]]", r"broker: \[\[broker\]\] tables are for penstock network"),
    ("[tls", "not TOML: "),
]


@pytest.mark.parametrize(("text", "said"), MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_is_told_with_file_and_key(text: str, said: str) -> None:
    with pytest.raises(InputError, match=f"^b.toml: {said}") as caught:
        load(text if text.startswith("nam") else f"name = 'b1'\n{text}")
    assert len(str(caught.value).splitlines()) == 1


def test_a_mistake_of_the_command_line_is_told_as_one() -> None:
    with pytest.raises(InputError, match=r"^command line: scheme: no scheme"):
        load("name = 'b1'", scheme="odd")
    with pytest.raises(InputError, match=r"^command line: listen\[0\]: "):
        load("name = 'b1'", listen=["odd"])
    with pytest.raises(InputError, match=r"^command line: tls.cert: odd: there is no such file"):
        load("name = 'b1'\n[tls]\nkey = 'b1.key'", tls={"cert": "odd"})
    with pytest.raises(InputError, match=r"^b.toml: scheme: "):
        load("name = 'b1'\nscheme = 'odd'", listen=["penstock://b"])
    with pytest.raises(InputError, match=r"^command line: name: is missing; .*--name"):
        load_broker(None, {})


def test_a_file_that_cannot_be_read_is_told_of() -> None:
    with pytest.raises(InputError, match=r"^gone.toml: no such file or directory$"):
        load_broker("gone.toml", {})
    with pytest.raises(InputError, match=r"^\.: is a directory$"):
        load_network(".")
    Path("b.toml").write_bytes(b"name = '\xff'")
    with pytest.raises(InputError, match=r"^b.toml: not UTF-8: "):
        load_broker("b.toml", {})


def test_a_key_without_words_for_tokens_does_not_ask_for_any() -> None:
    assert load("name = 'b1'\n[tokens]\nsecret_file = 'secret'").tokens.required
    assert not load("name = 'b1'\n[tokens]\nrequired = false").tokens.is_on


# Networks.

TWO = """
[[broker]]
name = "b1"
listen = ["penstock://127.0.0.1:7401"]
[[broker]]
name = "b2"
listen = ["penstock://127.0.0.1:7402"]
"""


def test_brokers_of_a_network_share_their_defaults() -> None:
    common = '[defaults]\nscheme = "lazy"\n[defaults.limits]\nclients = 7\n[defaults.tls]\ncert = "b1.pem"\n'
    first, second = network(f"{common}{TWO}[broker.limits]\nevents_per_second = 9\n")
    assert (first.scheme, second.scheme) == ("lazy", "lazy")
    assert first.limits == Limits(clients=7)
    assert second.limits == Limits(clients=7, events_per_second=9)
    assert first.tls == second.tls


def test_only_the_first_broker_of_a_network_has_the_default_gateway() -> None:
    first, second = network(TWO)
    assert (first.gateway.listen, second.gateway.listen) == ("http://127.0.0.1:7480", "")
    given = network(f'{TWO}[broker.gateway]\nlisten = "http://127.0.0.1:7482"\n')
    assert given[1].gateway.listen == "http://127.0.0.1:7482"
    shared = network(f'[defaults.gateway]\nlisten = "http://127.0.0.1:0"\n{TWO}')
    assert [config.gateway.listen for config in shared] == ["http://127.0.0.1:0"] * 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"broker: begin each broker with \[\[broker\]\]"),
        ("[broker]\nname = 'b1'", r"broker: begin each broker with \[\[broker\]\]"),
        ("broker = [1]", r"broker: begin each broker with \[\[broker\]\]"),
        ("name = 'b1'", r"name: belongs into \[defaults\]"),
        (f"defaults = 1\n{TWO}", r"defaults: begin them with \[defaults\]"),
        (f"[defaults]\nname = 'b'\n{TWO}", "defaults.name: each broker has a name of its own"),
        (f"[defaults]\nschem = 'b'\n{TWO}", "defaults.schem: there is no such field; perhaps scheme"),
        (f"[defaults]\nscheme = 'odd'\n{TWO}", "defaults.scheme: no scheme 'odd'"),
        (TWO.replace('"b2"', '"b1"'), r"broker\[1\].name: 'b1' is the name of broker\[0\] already"),
        (TWO.replace("7402", "7401"), r"broker\[1\].listen\[0\]: 127.0.0.1:7401 is an address of b1 already"),
        (TWO.replace('name = "b2"', ""), r"broker\[1\].name: is missing"),
        (f"{TWO}gateway = 5", r"broker\[1\].gateway: expected `object`, got `int`"),
        (f"{TWO}scheme = 'odd'", r"broker\[1\].scheme: no scheme 'odd'"),
        (
            f"{TWO}gateway = {{listen = 'http://127.0.0.1:7480'}}",
            r"broker\[1\].gateway.listen: 127.0.0.1:7480 is an address of b1 already",
        ),
    ],
)
def test_a_mistake_in_a_network_is_told_with_its_table(text: str, said: str) -> None:
    with pytest.raises(InputError, match=f"^n.toml: {said}"):
        network(text)


def test_any_free_port_may_be_asked_for_twice() -> None:
    both = network(re.sub(r"740\d", "0", TWO))
    assert both[0].listen == both[1].listen


# What is unwise.


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", []),
        ("listen = ['penstock://[::1]', 'penstock://localhost']", []),
        (
            "listen = ['penstock://0.0.0.0', 'penstock://localhost']",
            ["b1: penstock://0.0.0.0:7400 can be reached from other machines without TLS, a token and "],
        ),
        (
            "listen = ['penstock://b']\npeer_secret_file = 'secret'\n[tokens]\nsecret_file = 'secret'",
            ["b1: penstock://b:7400 can be reached from other machines without TLS; "],
        ),
        (
            "listen = ['penstocks://b']\n[tls]\ncert = 'b1.pem'",
            ["b1: penstocks://b:7400 can be reached from other machines without a token; "],
        ),
        ("listen = ['penstocks://b']\n[tls]\ncert = 'b1.pem'\n[tokens]\nsecret_file = 'secret'", []),
        ("listen = ['penstocks://b']\n[tls]\ncert = 'b1.pem'\nca = 'ca.pem'\nverify_clients = true", []),
        (
            "listen = ['penstocks://b']\n[tls]\ncert = 'b1.pem'\n"
            "[tokens]\nsecret_file = 'secret'\nrequired = false",
            ["b1: penstocks://b:7400 can be reached from other machines without a token; "],
        ),
        (
            "[gateway]\nlisten = 'http://0.0.0.0:80'",
            ["b1: http://0.0.0.0:80 can be reached from other machines without TLS and a token; "],
        ),
    ],
)
def test_what_is_open_to_other_machines_is_cautioned_about(text: str, said: list[str]) -> None:
    found = cautions(load(f"name = 'b1'\nallow_anonymous = true\n{text}"))
    assert len(found) == len(said)
    for line, beginning in zip(found, said, strict=True):
        assert line.startswith(beginning)


OPEN = "can be reached from other machines, and no token is required there: give tokens.secret_file"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("listen = ['penstock://localhost', 'penstock://0.0.0.0']", "listen[1]: penstock://0.0.0.0:7400"),
        ("listen = ['penstocks://b']\n[tls]\ncert = 'b1.pem'", "listen[0]: penstocks://b:7400"),
        (
            "listen = ['penstocks://b', 'penstock://b:1']\n"
            "[tls]\ncert = 'b1.pem'\nca = 'ca.pem'\nverify_clients = true",
            "listen[1]: penstock://b:1",
        ),
        ("[gateway]\nlisten = 'http://[::]'", "gateway.listen: http://[::]:7480"),
        (
            "[gateway]\nlisten = 'http://0.0.0.0'\n[tokens]\nsecret_file = 'secret'\nrequired = false",
            "gateway.listen: http://0.0.0.0:7480",
        ),
    ],
)
def test_a_broker_that_is_open_to_everybody_is_refused(text: str, place: str) -> None:
    with pytest.raises(InputError) as caught:
        load(f"name = 'b1'\n{text}")
    assert f"{place} {OPEN}" in str(caught.value)
    assert "allow_anonymous = true" in str(caught.value)


def test_a_broker_beyond_this_machine_is_taken_with_tokens_or_certificates() -> None:
    load("name = 'b1'\nlisten = ['penstock://0.0.0.0']\n[tokens]\nsecret_file = 'secret'")
    load(
        "name = 'b1'\nlisten = ['penstocks://b']\n"
        "[tls]\ncert = 'b1.pem'\nca = 'ca.pem'\nverify_clients = true"
    )


def test_a_server_refuses_to_be_open_however_its_settings_were_made() -> None:
    with pytest.raises(InputError, match="b1: listen"):
        Server(BrokerConfig(name="b1", listen=["penstock://0.0.0.0:0"]))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("peer_names = ['b 2']", "peer_names[0]: 'b 2' is no broker's name"),
        (
            "peer_names = ['*']\n[tls]\ncert = 'b1.pem'\nca = 'ca.pem'\nverify_clients = true",
            "peer_names: * lets every client with a certificate join as a broker",
        ),
    ],
)
def test_names_of_brokers_that_let_clients_join_are_refused(text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        load(f"name = 'b1'\n{text}")
    assert said in str(caught.value)
