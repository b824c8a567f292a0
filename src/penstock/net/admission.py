"""Who is let in: every connection passes here, before anything else that it sends is looked at."""

import hmac

from penstock.broker.grants import EVERYTHING
from penstock.broker.quotas import Quotas
from penstock.errors import AccessError
from penstock.net.config import BrokerConfig
from penstock.net.files import read_secret
from penstock.net.tokens import Identity, TokenChecker, read_key
from penstock.wire.greetings import Hello, Welcome


class Admission:
    """Checks tokens of clients, and certificates or the shared secret of brokers."""

    def __init__(self, config: BrokerConfig) -> None:
        self._limits = Quotas(
            subscriptions=config.limits.subscriptions_per_client,
            advertisements=config.limits.advertisements_per_client,
            bytes_per_second=config.limits.bytes_per_second,
            events_per_second=config.limits.events_per_second,
        )
        tokens = config.tokens
        self._checker: TokenChecker | None = None
        self._required = tokens.is_on and tokens.required
        key_file = tokens.secret_file or tokens.public_key_file
        if key_file is not None:
            self._checker = TokenChecker(
                key=read_key(key_file),
                algorithm=tokens.algorithm,
                audience=tokens.audience,
                issuer=tokens.issuer,
            )
        self._secret = None if config.peer_secret_file is None else read_secret(config.peer_secret_file)
        self._has_ca = config.tls.ca is not None

    @property
    def nobody(self) -> Identity:
        """Whoever comes without a token where none is asked for."""
        return Identity(subject="", grants=EVERYTHING, quotas=self._limits)

    def proof(self, step: str, session: str, name: str) -> str:
        """What shows another broker that this one knows the secret, which itself is never sent.

        Each session has another, and each side its own, so that who hears one cannot answer with it.
        """
        if self._secret is None:
            return ""
        said = "\0".join((step, session, name)).encode()
        return hmac.new(self._secret.encode(), said, "sha256").hexdigest()

    @property
    def asks_for_tokens(self) -> bool:
        """Whether nobody gets in without a token."""
        return self._required

    def identify(self, token: str) -> Identity:
        """Who shows this token, and what they may do. Raises AccessError."""
        if self._checker is None or (not token and not self._required):
            return self.nobody
        if not token:
            raise AccessError("this broker asks for a token")
        known = self._checker.check(token)
        return Identity(
            subject=known.subject,
            grants=known.grants,
            quotas=known.quotas.tightest(self._limits),
            expires_at=known.expires_at,
        )

    def check_broker(self, hello: Hello, names: frozenset[str], *, is_tls: bool) -> None:
        """Whether a broker may be a neighbour. Raises AccessError.

        By a certificate of our authority that has its name, or by the secret that brokers share. Where
        neither is set up, any may, unless clients have to show tokens: who calls itself a broker must not be
        let in for that.
        """
        proof = self.proof("hello", hello.session, hello.name)
        if self._secret is not None and hmac.compare_digest(hello.token.encode(), proof.encode()):
            return
        if is_tls and self._has_ca:
            if hello.name in names:
                return
            raise AccessError(f"the certificate is not one of a broker called {hello.name!r:.80}")
        if self._secret is not None:
            raise AccessError("the secret that brokers share is another here")
        if self._required:
            raise AccessError("brokers need a certificate or a shared secret here, as clients need tokens")

    def check_answer(self, welcome: Welcome, session: str, names: frozenset[str], *, is_tls: bool) -> None:
        """Whether the broker that answers is the one that it says. Raises AccessError.

        It has to know the secret, if there is one; else its certificate, which was good for its address, has
        to be good for its name too, as it has to be when that broker connects to us.
        """
        if self._secret is not None:
            proof = self.proof("welcome", session, welcome.broker)
            if not hmac.compare_digest(welcome.proof.encode(), proof.encode()):
                raise AccessError("the broker that answers does not know the secret that brokers share")
        elif is_tls and welcome.broker not in names:
            raise AccessError(f"the certificate is not one of a broker called {welcome.broker!r:.80}")
