"""TLS contexts: who gets through a handshake and who does not, and which file is to blame."""

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme

import penstock
from net_cases import Raw, config, run, serving
from penstock.errors import InputError
from penstock.net.config import TLSConfig
from penstock.net.tls import certificate_names, client_context, peer_context, server_context


class Files:
    """Two authorities, and a broker's certificate and key from each, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca, self.cert, self.key = self._make("ours", "localhost", "127.0.0.1")
        self.other_ca, self.other_cert, self.other_key = self._make("theirs", "localhost")

    def _make(self, name: str, *hosts: str) -> tuple[Path, Path, Path]:
        authority = trustme.CA(organization_name=name)
        issued = authority.issue_cert(*hosts)
        paths = tuple(self.folder / f"{name}-{what}.pem" for what in ("ca", "cert", "key"))
        authority.cert_pem.write_to_path(str(paths[0]))
        issued.private_key_pem.write_to_path(str(paths[2]))
        for pem in issued.cert_chain_pems:
            pem.write_to_path(str(paths[1]), append=True)
        return paths[0], paths[1], paths[2]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("tls"))


def shake(
    server: ssl.SSLContext, client: ssl.SSLContext, host: str = "localhost"
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """A handshake in memory: the server's side and the client's, or the error of whichever gives up first."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        server.wrap_bio(up, down, server_side=True),
        client.wrap_bio(down, up, server_hostname=host),
    )
    for _ in range(10):
        for end in reversed(ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return ends


def test_a_client_that_knows_the_authority_gets_through(files: Files) -> None:
    server, client = shake(server_context(files.cert, files.key), client_context(files.ca))
    assert certificate_names(client) == {"localhost", "127.0.0.1"}
    assert certificate_names(server) == frozenset()
    assert certificate_names(None) == frozenset()
    assert client.version() == "TLSv1.3"


def test_a_broker_of_another_authority_or_name_is_not_trusted(files: Files) -> None:
    for server, host in (
        (server_context(files.other_cert, files.other_key), "localhost"),
        (server_context(files.cert, files.key), "elsewhere"),
    ):
        with pytest.raises(ssl.SSLCertVerificationError):
            shake(server, client_context(files.ca), host)
    # The system's own authorities know neither.
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(server_context(files.cert, files.key), client_context())


def test_brokers_check_each_other(files: Files) -> None:
    listener = server_context(files.cert, files.key, files.ca, verify_clients=True)
    server, _client = shake(listener, peer_context(files.cert, files.key, files.ca))
    assert "localhost" in certificate_names(server)
    with pytest.raises(ssl.SSLError):
        shake(listener, client_context(files.ca))
    with pytest.raises(ssl.SSLError):
        shake(listener, peer_context(files.other_cert, files.other_key, files.ca))


def test_a_listener_for_both_takes_clients_without_a_certificate_and_no_bad_ones(files: Files) -> None:
    listener = server_context(files.cert, files.key, files.ca)
    server, _client = shake(listener, client_context(files.ca))
    assert certificate_names(server) == frozenset()
    server, _client = shake(listener, peer_context(files.cert, files.key, files.ca))
    assert "localhost" in certificate_names(server)
    with pytest.raises(ssl.SSLError):
        shake(listener, peer_context(files.other_cert, files.other_key, files.ca))


@pytest.mark.parametrize("side", ["server", "client"])
def test_old_versions_are_not_spoken(files: Files, side: str) -> None:
    contexts = {"server": server_context(files.cert, files.key), "client": client_context(files.ca)}
    assert contexts[side].minimum_version is ssl.TLSVersion.TLSv1_2
    assert contexts[side].options & ssl.OP_NO_COMPRESSION
    contexts[side].maximum_version = ssl.TLSVersion.TLSv1_2
    _server, client = shake(contexts["server"], contexts["client"])
    assert client.version() == "TLSv1.2"


Make = Callable[[Files, Path], object]

MISTAKES: list[tuple[str, Make]] = [
    ("bad: no such file or directory", lambda f, bad: server_context(bad, f.key)),
    ("bad: no such file or directory", lambda f, bad: server_context(f.cert, bad)),
    ("bad: no such file or directory", lambda f, bad: server_context(f.cert, f.key, bad)),
    ("bad: no such file or directory", lambda f, bad: client_context(bad)),
    ("tls.*: is a directory", lambda f, _bad: client_context(f.folder)),
    ("ours-key.pem: no certificates in PEM", lambda f, _bad: server_context(f.key, f.key)),
    ("ours-cert.pem: not a private key in PEM", lambda f, _bad: server_context(f.cert, f.cert)),
    (
        "theirs-key.pem: not the key of the certificate in .*ours-cert",
        lambda f, _bad: server_context(f.cert, f.other_key),
    ),
    ("ours-key.pem: no certificates in PEM", lambda f, _bad: client_context(f.key)),
    ("ours-key.pem: no certificates in PEM", lambda f, _bad: server_context(f.cert, f.key, f.key)),
    (
        "only with a file of those that sign them",
        lambda f, _bad: server_context(f.cert, f.key, verify_clients=True),
    ),
    ("a certificate and its key go together", lambda f, _bad: client_context(f.ca, cert=f.cert)),
    ("a certificate and its key go together", lambda f, _bad: client_context(f.ca, key=f.key)),
]


@pytest.mark.parametrize(("message", "make"), MISTAKES)
def test_the_file_that_is_wrong_is_named(files: Files, tmp_path: Path, message: str, make: Make) -> None:
    with pytest.raises(InputError, match=message):
        make(files, tmp_path / "bad")


@pytest.mark.parametrize(
    "content", [b"", b"nonsense", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
def test_a_file_with_something_else_in_it_is_named(files: Files, tmp_path: Path, content: bytes) -> None:
    bad = tmp_path / "bad.pem"
    bad.write_bytes(content)
    makes: list[Callable[[], object]] = [
        lambda: server_context(bad, files.key),
        lambda: server_context(files.cert, bad),
        lambda: server_context(files.cert, files.key, bad),
        lambda: client_context(bad),
    ]
    for make in makes:
        with pytest.raises(InputError, match=r"bad\.pem: "):
            make()


def test_an_encrypted_key_is_refused_and_nobody_is_asked_for_a_password(files: Files, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    private = serialization.load_pem_private_key(files.key.read_bytes(), None)
    locked = tmp_path / "locked.pem"
    locked.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"password"),
        )
    )
    with pytest.raises(InputError, match=r"locked\.pem: the key is encrypted"):
        server_context(files.cert, locked)


def test_a_handshake_that_comes_to_nothing_leaves_nothing(files: Files) -> None:
    async def main() -> None:
        tls = TLSConfig(cert=str(files.cert), key=str(files.key))
        async with serving(config(listen=["penstocks://127.0.0.1:0"], tls=tls)) as (server,):
            async with await Raw.open(server) as raw:
                raw.say(b"GET / HTTP/1.0\r\n\r\n")
                assert await raw.hear_all() == []
            async with await Raw.open(server):
                # Who has come this far is a stranger; who never gets there must not be waited for.
                async with penstock.connect(server.urls[0], tls=client_context(files.ca)) as net:
                    assert net.broker == "b"
                assert not server.node.hub._strangers

    run(main)
