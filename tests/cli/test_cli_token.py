"""`penstock token`: what it prints is taken by a broker, and what it writes is for its owner alone."""

import re
import stat
import sys
import time
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from penstock.broker.grants import NOTHING, Grants
from penstock.broker.quotas import Quotas
from penstock.cli.main import main
from penstock.net.tokens import ALGORITHMS, SECRETS, TokenChecker, read_key

Capture = pytest.CaptureFixture[str]

SIGN = ("--secret-file", "s", "--subject", "alice")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("s").write_text("s" * 64)
    return tmp_path


def run(capture: Capture, *arguments: str) -> str:
    assert main(["token", *arguments]) == 0
    out, err = capture.readouterr()
    assert err == ""
    return out


def failure(capture: Capture, *arguments: str) -> str:
    try:
        status = main(["token", *arguments])
    except SystemExit as ended:
        status = int(ended.code or 0)
    out, err = capture.readouterr()
    assert (status, out) == (2, "")
    return err


def test_a_token_says_what_the_arguments_say(capsys: Capture) -> None:
    out = run(
        capsys,
        *(*SIGN, "--subscribe", "origin = 'JFK'", "--subscribe", "delay > 60", "--advertise", "true"),
        *("--monitor", "--expires", "1h", "--audience", "us", "--issuer", "me", "--subscriptions", "9"),
        *("--advertisements", "8", "--bytes-per-second", "7", "--events-per-second", "6"),
    )
    assert out.count("\n") == 1
    identity = TokenChecker(key=read_key("s"), audience="us", issuer="me").check(out.strip())
    assert identity.subject == "alice"
    assert identity.grants == Grants.of(
        subscribe=["origin = 'JFK' or delay > 60"], advertise=["true"], monitor=True
    )
    assert identity.quotas == Quotas(
        subscriptions=9, advertisements=8, bytes_per_second=7, events_per_second=6
    )


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("15m", 900), ("1h", 3_600), ("30d", 2_592_000)])
def test_times_have_units(capsys: Capture, text: str, seconds: int) -> None:
    before = time.time()
    token = run(capsys, *SIGN, "--expires", text).strip()
    identity = TokenChecker(key=read_key("s"), leeway=0).check(token)
    assert identity.expires_at is not None
    assert before + seconds <= identity.expires_at <= time.time() + seconds + 1
    assert identity.grants == NOTHING


def test_a_new_secret_is_for_its_owner_alone_and_signs_by_every_algorithm_that_takes_one(
    capsys: Capture,
) -> None:
    assert run(capsys, "--new-secret", "new") == ""
    assert stat.S_IMODE(Path("new").stat().st_mode) == 0o600
    run(capsys, "--new-secret", "another")
    assert read_key("new") != read_key("another")
    for algorithm in SECRETS:
        token = run(capsys, "--secret-file", "new", "--subject", "alice", "--algorithm", algorithm).strip()
        assert TokenChecker(key=read_key("new"), algorithm=algorithm).check(token).subject == "alice"


def test_a_secret_is_not_overwritten_nor_written_through_a_link(capsys: Capture) -> None:
    Path("link").symlink_to("elsewhere")
    for name in ("s", "link"):
        assert failure(capsys, "--new-secret", name) == (
            f"penstock: {name}: is there already, and a secret is not overwritten\n"
        )
    assert Path("s").read_text() == "s" * 64
    assert not Path("elsewhere").exists()


def test_a_private_key_signs_what_its_public_key_checks(capsys: Capture) -> None:
    private = ed25519.Ed25519PrivateKey.generate()
    encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    Path("k").write_bytes(private.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain))
    public = private.public_key().public_bytes(encoding, serialization.PublicFormat.SubjectPublicKeyInfo)
    token = run(capsys, "--private-key-file", "k", "--algorithm", "EdDSA", "--subject", "alice").strip()
    assert TokenChecker(key=public, algorithm="EdDSA").check(token).subject == "alice"
    assert "is no secret for HS256" in failure(capsys, "--secret-file", "k", "--subject", "alice")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "one of the arguments --new-secret --secret-file --private-key-file is required"),
        (("--secret-file", "s"), "say who the token is for: --subject NAME"),
        (("--secret-file", "none", "--subject", "a"), "none: no such file"),
        (("--secret-file", "", "--subject", "a"), "is a directory"),
        ((*SIGN, "--subject", "a\nb"), "cannot be printed"),
        ((*SIGN, "--subscribe", "x >"), "grant 1 to subscribe: column 4: expected"),
        ((*SIGN, "--subscribe", "x = '\udcff'"), "grant 1 to subscribe"),
        ((*SIGN, "--algorithm", "RS256"), "--algorithm RS256 does not go with --secret-file"),
        ((*SIGN, "--algorithm", "none"), "--algorithm none does not go with --secret-file"),
        ((*SIGN, "--expires", "1"), "a time such as 90s, 15m, 1h or 30d is needed, not '1'"),
        ((*SIGN, "--expires", "0s"), "a time such as 90s"),
        ((*SIGN, "--expires", "-1h"), "expected one argument"),
        ((*SIGN, "--expires", "999999999d"), "before the year 10000"),
        ((*SIGN, "--subscriptions", "0"), "a whole number above 0"),
        (("--private-key-file", "s", "--subject", "a"), "say --algorithm as goes with --private-key-file"),
        (
            ("--private-key-file", "s", "--subject", "a", "--algorithm", "ES256"),
            "ES256 needs a private key of its kind",
        ),
        (("--new-secret", "n", "--subject", "a"), "--new-secret makes a secret and no token"),
        (("--new-secret", "no/where"), "no/where: cannot be written: no such file"),
        (("--new-secret", "n", "--secret-file", "s"), "not allowed with argument"),
    ],
)
def test_mistakes_are_told(capsys: Capture, arguments: tuple[str, ...], message: str) -> None:
    told = failure(capsys, *arguments)
    assert message in told
    assert "ssss" not in told


def test_without_the_extra_only_secrets_are_made(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jwt", None)
    assert run(capsys, "--new-secret", "new") == ""
    assert "pip install 'penstock[server]'" in failure(capsys, *SIGN)


def test_the_help_has_examples_and_its_algorithms_exist(capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        main(["token", "--help"])
    out = capsys.readouterr().out
    assert "penstock token --secret-file secret.txt --subject alice" in out
    assert set(re.findall(r"[A-Z]S\d+|EdDSA", out)) <= set(ALGORITHMS)
