"""Tokens: what is granted comes out as it went in, and nothing that was tampered with is taken."""

import base64
import hashlib
import hmac
import json
import sys
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.broker.grants import EVERYTHING, NOTHING, Grants
from penstock.broker.quotas import NO_QUOTAS, Quotas
from penstock.errors import AccessError, FilterError, InputError, LimitError, MissingExtraError, PenstockError
from penstock.filters.expression import Expression, normalise
from penstock.net.tokens import (
    ALGORITHMS,
    EXPIRES_MAX,
    KEY_PAIRS,
    LEEWAY_S,
    SECRETS,
    TOKEN_BYTES_MAX,
    TokenChecker,
    make_token,
    read_key,
)
from strategies import mixed

SECRET = b"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
OTHER = b"x" * 64

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


def pem(private: PrivateKey) -> tuple[bytes, bytes]:
    """A private key and its public one."""
    plain = serialization.NoEncryption()
    return (
        private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain),
        private.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        ),
    )


RSA = pem(rsa.generate_private_key(65_537, 2_048))
PAIRS = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), RSA),
    "ES256": pem(ec.generate_private_key(ec.SECP256R1())),
    "ES384": pem(ec.generate_private_key(ec.SECP384R1())),
    "ES512": pem(ec.generate_private_key(ec.SECP521R1())),
    "EdDSA": pem(ed25519.Ed25519PrivateKey.generate()),
    **dict.fromkeys(SECRETS, (SECRET, SECRET)),
}


def segment(content: object) -> str:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def signed(header: object, payload: object, key: bytes = SECRET) -> str:
    """A token signed with HS256 by hand, whatever is in it."""
    body = f"{segment(header)}.{segment(payload)}"
    return f"{body}.{segment(hmac.new(key, body.encode(), hashlib.sha256).digest())}"


def with_claims(**claims: object) -> str:
    plain: dict[str, Any] = {"sub": "alice", "exp": time.time() + 60}
    known = {name: value for name, value in (plain | claims).items() if value is not None}
    return signed({"alg": "HS256", "typ": "JWT"}, known)


def checker(**more: Any) -> TokenChecker:
    return TokenChecker(**({"key": SECRET} | more))


def refusal(token: str, **more: Any) -> str:
    with pytest.raises(AccessError) as caught:
        checker(**more).check(token)
    assert SECRET.decode() not in str(caught.value)
    assert caught.value.__cause__ is None
    return str(caught.value)


# What goes in comes out.


@pytest.mark.property
@given(
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=20).filter(str.isprintable),
    st.lists(mixed(complete=False), max_size=3),
    st.lists(mixed(complete=False), max_size=3),
    st.booleans(),
    st.integers(0, 2**63 - 1),
)
def test_a_token_grants_what_it_was_made_with(
    subject: str, subscribe: list[Expression], advertise: list[Expression], monitor: bool, number: int
) -> None:
    texts = [[normalise(one).to_sql() for one in part] for part in (subscribe, advertise)]
    quotas = Quotas(subscriptions=number, events_per_second=number)
    try:
        token = make_token(
            SECRET,
            subject,
            expires_in=60,
            subscribe=texts[0],
            advertise=texts[1],
            monitor=monitor,
            quotas=quotas,
        )
    except LimitError:
        return
    identity = checker().check(token)
    assert identity.subject == subject
    assert identity.grants == Grants.of(subscribe=texts[0], advertise=texts[1], monitor=monitor)
    assert identity.quotas == quotas


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_algorithm_signs_and_checks(algorithm: str) -> None:
    private, public = PAIRS[algorithm]
    token = make_token(private, "alice", expires_in=60, algorithm=algorithm, subscribe=["true"])
    identity = TokenChecker(key=public, algorithm=algorithm).check(token)
    assert identity.grants == Grants.of(subscribe=["true"])


def test_a_token_says_when_it_ends() -> None:
    now = time.time()
    identity = checker().check(make_token(SECRET, "alice", expires_in=60, now=now))
    assert identity.expires_at is not None
    assert 60 + LEEWAY_S <= identity.expires_at - now <= 61 + LEEWAY_S
    assert (identity.grants, identity.quotas) == (NOTHING, NO_QUOTAS)


def test_the_claims_are_as_documented() -> None:
    claims = {"subscribe": ["true"], "advertise": ["true"], "monitor": True, "quotas": {"subscriptions": 9}}
    identity = checker().check(with_claims(penstock=claims))
    assert (identity.subject, identity.grants) == ("alice", EVERYTHING)
    assert identity.quotas == Quotas(subscriptions=9)


def test_a_token_of_somebody_else_with_the_same_key_may_do_nothing() -> None:
    assert checker().check(with_claims(scope="admin")).grants == NOTHING


# What is not taken.


@pytest.mark.property
@given(st.data())
def test_a_token_with_one_character_changed_is_not_taken(data: st.DataObject) -> None:
    token = make_token(SECRET, "alice", expires_in=60, subscribe=["x > 1"])
    at = data.draw(st.integers(0, len(token) - 1))
    letter = data.draw(st.sampled_from("abcXYZ019-_.= é\0"))
    changed = token[:at] + letter + token[at + 1 :]
    # The last character has two bits that say nothing.
    if changed[:-1] != token[:-1]:
        refusal(changed)


@pytest.mark.property
@given(st.one_of(st.text(max_size=200), st.lists(st.binary(max_size=60), max_size=4)))
@example("")
@example("..")
@example(f"{segment({'alg': 'HS256'})}..")
@example(f"{segment(b'[' * 6_000)}.e30.e30")
@example(f"{segment(b'[1]')}.e30.e30")
@example(segment({"alg": ["HS256"]}) + ".e30.e30")
@example(segment({"alg": "HS256", "crit": ["x"], "x": 1}) + ".e30.e30")
@example(segment({"alg": "HS256", "b64": False, "crit": ["b64"]}) + ".e30.e30")
def test_nonsense_is_refused_and_nothing_else_happens(given_token: str | list[bytes]) -> None:
    token = given_token if isinstance(given_token, str) else ".".join(segment(part) for part in given_token)
    refusal(token)


@pytest.mark.parametrize("alg", ["none", "None", "NONE", "", None])
def test_a_token_without_a_signature_is_not_taken(alg: str | None) -> None:
    payload = {"sub": "alice", "exp": time.time() + 60}
    body = f"{segment({'alg': alg})}.{segment(payload)}"
    refusal(f"{body}.")
    refusal(signed({"alg": alg}, payload))


def test_a_token_signed_with_the_public_key_as_a_secret_is_not_taken() -> None:
    public = PAIRS["RS256"][1]
    payload = {"sub": "alice", "exp": time.time() + 60, "penstock": {"monitor": True}}
    for key in (public, public.strip()):
        token = signed({"alg": "HS256"}, payload, key)
        with pytest.raises(AccessError, match="not signed by RS256"):
            TokenChecker(key=public, algorithm="RS256").check(token)


@pytest.mark.parametrize("algorithm", KEY_PAIRS)
def test_a_key_of_a_pair_is_never_taken_for_a_secret(algorithm: str) -> None:
    for key in PAIRS[algorithm]:
        with pytest.raises(InputError, match="is no secret for HS256"):
            TokenChecker(key=key, algorithm="HS256")
        with pytest.raises(InputError, match="is no secret for HS256"):
            make_token(key, "alice", expires_in=60)


def test_a_token_signed_by_another_algorithm_of_the_same_key_is_not_taken() -> None:
    token = make_token(SECRET, "alice", expires_in=60, algorithm="HS512")
    assert refusal(token) == "the token is not signed by HS256, as it has to be"


@pytest.mark.parametrize("header", [{"jku": "https://x/"}, {"jwk": {"kty": "oct", "k": "eA"}}, {"kid": "x"}])
def test_the_key_is_never_the_one_that_the_token_names(header: dict[str, object]) -> None:
    token = signed({"alg": "HS256", **header}, {"sub": "alice", "exp": time.time() + 60}, OTHER)
    assert "was not signed with the key that this broker knows" in refusal(token)


@pytest.mark.parametrize("length", [TOKEN_BYTES_MAX + 1, 10**7])
def test_a_token_that_is_too_long_is_not_looked_at(length: int) -> None:
    assert "at most 8,192 bytes" in refusal("a" * length)
    assert "at most 8,192 bytes" in refusal("é" * (TOKEN_BYTES_MAX - 1))


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ({"exp": None}, "the token has no claim 'exp'"),
        ({"sub": None}, "the token has no claim 'sub'"),
        ({"exp": 1_000}, "the token has expired: get a new one"),
        ({"exp": "9999999999"}, "'exp' is not in seconds since the epoch"),
        ({"exp": EXPIRES_MAX}, "'exp' is not in seconds since the epoch"),
        ({"exp": float("inf")}, "not a good token"),
        ({"exp": float("nan")}, "not a good token"),
        ({"exp": [1]}, "not a good token"),
        ({"nbf": 9_999_999_999}, "the token is not valid yet"),
        ({"aud": "elsewhere"}, "the token is for another audience"),
        ({"sub": 5}, "not a good token"),
        ({"sub": ""}, "an id is empty"),
        ({"sub": "x" * 600}, "the limit is 512"),
        ({"sub": "alice\nroot logged in"}, "characters that cannot be printed"),
        ({"sub": "\x1b[2J"}, "characters that cannot be printed"),
        ({"penstock": []}, "the token's claims are not understood: Expected `object`"),
        ({"penstock": {"subscribe": "true"}}, "Expected `array`"),
        ({"penstock": {"subscribe": [None]}}, "Expected `str`"),
        ({"penstock": {"subscribe": ["x >"]}}, "grant 1 to subscribe: column 4"),
        ({"penstock": {"monitor": 1}}, "Expected `bool`"),
        ({"penstock": {"unless": "x > 1"}}, "unknown field `unless`"),
        ({"penstock": {"quotas": {"subscriptions": -1}}}, "Expected `int` >= 0"),
        ({"penstock": {"quotas": {"subscriptions": 2**70}}}, "Expected `int`"),
        ({"penstock": {"quotas": {"speed": 1}}}, "unknown field `speed`"),
    ],
)
def test_claims_that_are_not_good_are_told(claims: dict[str, object], message: str) -> None:
    assert message in refusal(with_claims(**claims))


def test_audience_and_issuer_are_asked_for_where_they_are_configured() -> None:
    wanted = {"audience": "penstock", "issuer": "us"}
    good = make_token(SECRET, "alice", expires_in=60, audience="penstock", issuer="us")
    assert checker(**wanted).check(good).subject == "alice"
    assert refusal(with_claims(iss="us"), **wanted) == "the token has no claim 'aud'"
    assert refusal(with_claims(aud="penstock"), **wanted) == "the token has no claim 'iss'"
    assert refusal(with_claims(aud="x", iss="us"), **wanted) == "the token is for another audience"
    assert refusal(with_claims(aud="penstock", iss="x"), **wanted) == "the token is by another issuer"


def test_clocks_may_differ_by_the_leeway_and_no_more() -> None:
    just_ended = with_claims(exp=time.time() - 2)
    assert checker(leeway=1_000).check(just_ended).subject == "alice"
    assert "expired" in refusal(just_ended, leeway=0)


# Keys.


@pytest.mark.parametrize(
    ("algorithm", "key", "message"),
    [
        (
            "HS256",
            b"short",
            "the secret has 5 bytes, and HS256 needs 32 at least: penstock token",
        ),
        ("HS512", b"x" * 63, "the secret has 63 bytes"),
        ("none", SECRET, "there is no algorithm 'none'; say one of HS256"),
        ("hs256", SECRET, "there is no algorithm 'hs256'"),
        ("RS256", SECRET, "RS256 needs a public key of its kind, in PEM"),
        ("RS256", RSA[0], "RS256 needs a public key of its kind, in PEM"),
        ("RS256", PAIRS["ES256"][1], "RS256 needs a public key of its kind, in PEM"),
        ("ES256", RSA[1], "ES256 needs a public key of its kind, in PEM"),
        ("ES256", PAIRS["ES384"][1], "ES256 needs a public key of its kind, in PEM"),
        ("EdDSA", PAIRS["ES384"][1], "EdDSA needs a public key of its kind, in PEM"),
    ],
)
def test_a_key_of_another_kind_is_refused_before_any_token(algorithm: str, key: bytes, message: str) -> None:
    with pytest.raises(InputError) as caught:
        TokenChecker(key=key, algorithm=algorithm)
    assert message in str(caught.value)
    assert key.decode() not in str(caught.value)


def test_an_rsa_key_that_is_too_small_is_refused() -> None:
    _private, public = pem(rsa.generate_private_key(65_537, 1_024))  # noqa: S505 - that is the point
    with pytest.raises(InputError, match="the RSA key has 1,024 bits"):
        TokenChecker(key=public, algorithm="RS256")


def test_a_public_key_does_not_sign() -> None:
    with pytest.raises(InputError, match="RS256 needs a private key of its kind"):
        make_token(RSA[1], "alice", expires_in=60, algorithm="RS256")


def test_a_key_is_read_without_the_white_space_around_it(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(b"\n" + SECRET + b" \r\n")
    assert read_key(path) == SECRET


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "no such file"), (b" \n", "the file is empty"), (b"x" * 70_000, "more than 65,536 bytes")],
)
def test_a_file_without_a_key_is_named(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "secret"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read_key(path)
    assert str(caught.value).startswith(str(path))


# Making tokens.


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"subscribe": ["x >"]}, FilterError, "grant 1 to subscribe: column 4"),
        ({"advertise": ["x = 1 or"]}, FilterError, "grant 1 to advertise"),
        ({"subject": "a\nb"}, PenstockError, "cannot be printed"),
        ({"subject": ""}, PenstockError, "empty"),
        ({"expires_in": 0}, InputError, "some time after now"),
        ({"expires_in": float("nan")}, InputError, "some time after now"),
        ({"expires_in": 1e300}, InputError, "before the year 10000"),
        ({"subscribe": [f"x = '{'y' * 9_000}'"]}, LimitError, "grant fewer, or shorter, filters.*8,192"),
    ],
)
def test_a_token_that_would_not_be_taken_is_not_made(
    arguments: dict[str, Any], kind: type[PenstockError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        make_token(SECRET, **{"subject": "alice", "expires_in": 60, **arguments})


def test_without_the_extra_the_command_that_installs_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jwt", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'penstock\[server\]'"):
        checker()
    with pytest.raises(MissingExtraError, match=r"pip install 'penstock\[server\]'"):
        make_token(SECRET, "alice", expires_in=60)


def test_other_libraries_read_our_tokens() -> None:
    token = make_token(SECRET, "alice", expires_in=60, subscribe=["x > 1"])
    payload = jwt.decode(token, SECRET, algorithms=["HS256"])
    assert payload["penstock"] == {"subscribe": ["x > 1"]}
