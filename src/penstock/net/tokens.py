"""Who somebody is, and what that one may do: JSON Web Tokens (RFC 7519), made and checked.

    {"sub": "alice", "exp": 1767225600,
     "penstock": {"subscribe": ["origin = 'JFK'"], "advertise": ["true"], "monitor": false,
                  "quotas": {"subscriptions": 100, "bytes_per_second": 1000000}}}

What a token does not grant is not granted: one without the claim `penstock` may do nothing. Everything in it
that is not understood is refused, because it may have been meant to forbid something. The algorithm is the
broker's to say, never the token's; and a key is looked at once, before any token, so that a public key is
never taken for a secret (RFC 8725, sections 2.1 and 3.1).
"""

import math
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import msgspec
from msgspec import Meta

from penstock.broker.grants import Grants
from penstock.broker.quotas import NO_QUOTAS, Quotas
from penstock.errors import AccessError, InputError, LimitError, MissingExtraError, PenstockError
from penstock.model.limits import INTEGER_MAX
from penstock.model.names import check_id
from penstock.node.identity import Identity

if TYPE_CHECKING:
    from types import ModuleType

TOKEN_BYTES_MAX: Final = 8 * 2**10
"""Bytes of a token: looked at before anything is known of who sends it, and half of the first frame."""

KEY_BYTES_MAX: Final = 64 * 2**10
"""Bytes of a file with a key: the largest RSA keys in use have a fifth of it."""

RSA_BITS_MIN: Final = 2_048
"""RFC 7518, section 3.3."""

LEEWAY_S: Final = 5.0
"""Seconds by which the clocks of who made a token and of the broker may differ."""

EXPIRES_MAX: Final = 253_402_300_800.0
"""The end of the year 9999. What is later is a mistake of milliseconds for seconds, or meant to overflow."""

SECRETS: Final = {"HS256": 32, "HS384": 48, "HS512": 64}
"""Algorithms with a secret that both sides know, and how many bytes it has at least (RFC 7518, 3.2)."""

KEY_PAIRS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
"""Algorithms with a private key that signs and a public key that checks."""

ALGORITHMS: Final = (*SECRETS, *KEY_PAIRS)


_Number = Annotated[int, Meta(ge=0, le=INTEGER_MAX)]


class _QuotaClaims(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    subscriptions: _Number = 0
    advertisements: _Number = 0
    bytes_per_second: _Number = 0
    events_per_second: _Number = 0


class _Claims(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    subscribe: tuple[str, ...] = ()
    advertise: tuple[str, ...] = ()
    monitor: bool = False
    quotas: _QuotaClaims = _QuotaClaims()


class TokenChecker:
    """Checks tokens: one algorithm, one key."""

    __slots__ = ("_algorithm", "_audience", "_issuer", "_jwt", "_key", "_leeway")

    def __init__(
        self,
        *,
        key: bytes,
        algorithm: str = "HS256",
        audience: str | None = None,
        issuer: str | None = None,
        leeway: float = LEEWAY_S,
    ) -> None:
        """`key` is a secret for HS…, else a public key in PEM; see `read_key`."""
        self._jwt = _import_jwt()
        self._key = _checking_key(algorithm, key)
        self._algorithm = algorithm
        self._audience = audience
        self._issuer = issuer
        self._leeway = leeway

    def check(self, token: str) -> Identity:
        """Who shows this token. AccessError if it is not taken."""
        if len(token) > TOKEN_BYTES_MAX or not token.isascii():
            raise AccessError(f"not a token: a JSON Web Token of at most {TOKEN_BYTES_MAX:,} bytes is needed")
        payload = self._verified(token)
        expires_at = _expiry(payload.get("exp")) + self._leeway
        try:
            subject = check_subject(payload.get("sub"))
            claims = msgspec.convert(payload.get("penstock", {}), _Claims)
            grants = Grants.of(subscribe=claims.subscribe, advertise=claims.advertise, monitor=claims.monitor)
            quotas = Quotas(**msgspec.structs.asdict(claims.quotas))
        except (PenstockError, msgspec.ValidationError) as error:
            raise AccessError(f"the token's claims are not understood: {error}") from None
        return Identity(subject=subject, grants=grants, quotas=quotas, expires_at=expires_at)

    def _verified(self, token: str) -> dict[str, Any]:
        """The payload of a token whose signature, times, audience and issuer are good."""
        try:
            payload = self._jwt.decode(
                token,
                self._key,
                algorithms=[self._algorithm],
                audience=self._audience,
                issuer=self._issuer,
                leeway=timedelta(seconds=self._leeway),
                options={"require": self._required()},
            )
        except Exception as error:
            # Whatever is wrong in here was sent by somebody unknown, and must not stop more than that one.
            self._refuse(error)
        if not isinstance(payload, dict):
            raise AccessError("the token is not a JSON object")
        return payload

    def _required(self) -> list[str]:
        wanted = ["exp", "sub"]
        wanted += ["aud"] if self._audience is not None else []
        return wanted + (["iss"] if self._issuer is not None else [])

    def _refuse(self, error: Exception) -> NoReturn:
        """Raise what is said of a bad token: never with what the libraries say, who know the key."""
        errors = self._jwt.exceptions
        reasons = {
            errors.ExpiredSignatureError: "the token has expired: get a new one",
            errors.ImmatureSignatureError: "the token is not valid yet: do the clocks differ?",
            errors.InvalidAlgorithmError: f"the token is not signed by {self._algorithm}, as it has to be",
            errors.InvalidSignatureError: "the token was not signed with the key that this broker knows",
            errors.InvalidAudienceError: "the token is for another audience",
            errors.InvalidIssuerError: "the token is by another issuer",
        }
        if isinstance(error, errors.MissingRequiredClaimError):
            raise AccessError(f"the token has no claim {error.claim!r}") from None
        said = next((text for kind, text in reasons.items() if isinstance(error, kind)), "not a good token")
        raise AccessError(said) from None


def make_token(
    key: bytes,
    subject: str,
    *,
    expires_in: float,
    algorithm: str = "HS256",
    subscribe: Sequence[str] = (),
    advertise: Sequence[str] = (),
    monitor: bool = False,
    quotas: Quotas = NO_QUOTAS,
    audience: str | None = None,
    issuer: str | None = None,
    now: float | None = None,
) -> str:
    """A token for somebody, who may do nothing but what is said here, for so many seconds.

    `key` is a secret for HS…, else a private key in PEM; grants are filters in SQL, `true` for everything.
    """
    jwt = _import_jwt()
    signing = _signing_key(algorithm, key)
    check_subject(subject)
    Grants.of(subscribe=subscribe, advertise=advertise)  # mistakes are told to who makes the token
    issued = time.time() if now is None else now
    if not (expires_in > 0 and issued + expires_in < EXPIRES_MAX):
        raise InputError("a token expires some time after now, and before the year 10000")
    claims = {
        "subscribe": list(subscribe),
        "advertise": list(advertise),
        "monitor": monitor,
        "quotas": {name: number for name, number in msgspec.structs.asdict(quotas).items() if number},
    }
    payload: dict[str, Any] = {
        "sub": subject,
        "iat": math.floor(issued),
        "exp": math.ceil(issued + expires_in),
        "penstock": {name: claim for name, claim in claims.items() if claim},
    }
    if audience is not None:
        payload["aud"] = audience
    if issuer is not None:
        payload["iss"] = issuer
    token: str = jwt.encode(payload, signing, algorithm=algorithm)
    if len(token) > TOKEN_BYTES_MAX:
        what = f"the token has {len(token):,} bytes; grant fewer, or shorter, filters"
        raise LimitError(what, "TOKEN_BYTES_MAX", TOKEN_BYTES_MAX)
    return token


def check_subject(subject: object) -> str:
    """Return who a token is for, or raise: text within the limit of ids that a line of a log can hold."""
    if not isinstance(subject, str):
        raise PenstockError(f"a subject is text, not {type(subject).__name__}")
    check_id(subject)
    if not subject.isprintable():
        raise PenstockError(f"the subject {subject!r:.80} has characters that cannot be printed")
    return subject


def read_key(path: str | Path) -> bytes:
    """A secret, or a key in PEM, from a file, without the white space around it."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(KEY_BYTES_MAX + 1)
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    if len(content) > KEY_BYTES_MAX:
        raise InputError(f"{path}: more than {KEY_BYTES_MAX:,} bytes, which is no key")
    key = content.strip()
    if not key:
        raise InputError(f"{path}: the file is empty, where a key was expected")
    return key


def _expiry(exp: object) -> float:
    """When a token expires. A text of digits, which some libraries take, is not a number."""
    if isinstance(exp, bool) or not isinstance(exp, int | float) or not 0 <= exp < EXPIRES_MAX:
        raise AccessError("the token's claim 'exp' is not in seconds since the epoch, before the year 10000")
    return float(exp)


def _import_jwt() -> "ModuleType":
    try:
        import cryptography  # noqa: F401 - PyJWT does without, and then knows fewer algorithms
        import jwt
    except ImportError:
        raise MissingExtraError("tokens need PyJWT: pip install 'penstock[server]'") from None
    return jwt


def _checking_key(algorithm: str, key: bytes) -> Any:
    """The key that checks tokens of an algorithm, or InputError if it is of another kind."""
    if algorithm in SECRETS:
        return _secret(algorithm, key)
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    return _key_pair(algorithm, key, "public", load_pem_public_key)


def _signing_key(algorithm: str, key: bytes) -> Any:
    """The key that signs tokens of an algorithm, or InputError if it is of another kind."""
    if algorithm in SECRETS:
        return _secret(algorithm, key)
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    return _key_pair(algorithm, key, "private", lambda pem: load_pem_private_key(pem, None))


def _secret(algorithm: str, key: bytes) -> bytes:
    if len(key) < SECRETS[algorithm]:
        raise InputError(
            f"the secret has {len(key)} bytes, and {algorithm} needs {SECRETS[algorithm]} at least: "
            "penstock token --new-secret FILE makes one"
        )
    try:
        prepared: bytes = _import_jwt().get_algorithm_by_name(algorithm).prepare_key(key)
    except Exception:
        # A public key is no secret: whoever has it, as all may, could sign tokens.
        raise InputError(
            f"a key of a pair, or a certificate, is no secret for {algorithm}: say an algorithm of its kind"
        ) from None
    return prepared


def _key_pair(algorithm: str, pem: bytes, half: str, load: Any) -> Any:
    if algorithm not in KEY_PAIRS:
        raise InputError(f"there is no algorithm {algorithm!r:.40}; say one of {', '.join(ALGORITHMS)}")
    try:
        loaded = load(pem)
        prepared = _import_jwt().get_algorithm_by_name(algorithm).prepare_key(loaded)
    except Exception:
        # Not what the library says, which may quote the key.
        raise InputError(f"{algorithm} needs a {half} key of its kind, in PEM and not encrypted") from None
    if algorithm[0] in "RP" and loaded.key_size < RSA_BITS_MIN:
        raise InputError(
            f"the RSA key has {loaded.key_size:,} bits, and {RSA_BITS_MIN:,} are needed at least"
        )
    return prepared
