"""Who is let in: every connection passes here, before anything else that it sends is looked at."""

import hmac
from typing import Protocol

from penstock.broker.grants import EVERYTHING
from penstock.broker.quotas import NO_QUOTAS, Quotas
from penstock.errors import AccessError
from penstock.node.identity import Identity
from penstock.wire.greetings import Hello, Welcome


class Checker(Protocol):
    """Knows whose a token is."""

    def check(self, token: str) -> Identity:
        """Who shows this token. Raises AccessError."""


class Admission:
    """Checks tokens of clients, and certificates or the shared secret of brokers.

    `quotas` are those of every client. `required`: nobody gets in without a token. `has_ca`: certificates of
    brokers are checked against an authority of ours.
    """

    def __init__(
        self,
        quotas: Quotas = NO_QUOTAS,
        *,
        checker: Checker | None = None,
        required: bool = False,
        secret: str | None = None,
        has_ca: bool = False,
    ) -> None:
        self._limits = quotas
        self._checker = checker
        self._required = required
        self._secret = secret
        self._has_ca = has_ca

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
