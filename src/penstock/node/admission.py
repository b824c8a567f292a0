"""Who is let in: every connection passes here, before anything else that it sends is looked at."""

import hmac
from collections.abc import Collection
from typing import Protocol

from penstock.broker.grants import EVERYTHING
from penstock.broker.quotas import NO_QUOTAS, Quotas
from penstock.errors import AccessError
from penstock.node.identity import Identity
from penstock.node.settings import Limits
from penstock.wire.greetings import Hello, Welcome


def quotas_of(limits: Limits) -> Quotas:
    """What every client may do at the most, by the limits of its broker."""
    return Quotas(
        subscriptions=limits.subscriptions_per_client,
        advertisements=limits.advertisements_per_client,
        attributes=limits.attributes_per_client,
        bytes_per_second=limits.bytes_per_second,
        events_per_second=limits.events_per_second,
    )


class Checker(Protocol):
    """Knows whose a token is."""

    def check(self, token: str) -> Identity:
        """Who shows this token. Raises AccessError."""


class Admission:
    """Checks tokens of clients, and certificates, the shared secret and names of brokers.

    `quotas` are those of every client. `required`: nobody gets in without a token. `has_ca`: certificates of
    brokers are checked against an authority of ours. `peers`: the names of brokers that may join; with `*`
    among them, any that its certificate or the secret vouches for.
    """

    def __init__(
        self,
        quotas: Quotas = NO_QUOTAS,
        *,
        checker: Checker | None = None,
        required: bool = False,
        secret: str | None = None,
        has_ca: bool = False,
        peers: Collection[str] = (),
    ) -> None:
        self._limits = quotas
        self._checker = checker
        self._required = required
        self._secret = secret
        self._has_ca = has_ca
        self._peers = frozenset(peers)

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

        All that is set up to know brokers by has to hold: the secret that they share, a certificate of our
        authority that has the broker's name, and that name among those that may join. A certificate alone
        says who somebody is, and clients may have one of the same authority: without the secret, names have
        to be listed. Where nothing is set up, any broker may join, unless clients have to show tokens: who
        calls itself a broker must not be let in for that.
        """
        if self._secret is not None:
            proof = self.proof("hello", hello.session, hello.name)
            if not hmac.compare_digest(hello.token.encode(), proof.encode()):
                raise AccessError("the secret that brokers share is another here (peer_secret_file)")
        if self._has_ca:
            if not is_tls:
                raise AccessError("brokers show a certificate here: connect by penstocks://")
            if hello.name not in names:
                raise AccessError(f"the certificate is not one of a broker called {hello.name!r:.80}")
            if self._secret is None and not self._peers:
                raise AccessError(
                    f"a certificate alone does not let {hello.name!r:.80} join as a broker, as clients may "
                    "have one too: list the name in peer_names here"
                )
        self._check_listed(hello.name)
        if self._required and self._secret is None and not self._has_ca:
            raise AccessError("brokers need a certificate or a shared secret here, as clients need tokens")

    def _check_listed(self, name: str) -> None:
        if self._peers and "*" not in self._peers and name not in self._peers:
            raise AccessError(f"peer_names does not list a broker called {name!r:.80} here")

    def check_answer(self, welcome: Welcome, session: str, names: frozenset[str], *, is_tls: bool) -> None:
        """Whether the broker that answers is the one that it says. Raises AccessError.

        It has to know the secret, if there is one; its certificate, which was good for its address, has to be
        good for its name too; and that name has to be listed, if any is.
        """
        if self._secret is not None:
            proof = self.proof("welcome", session, welcome.broker)
            if not hmac.compare_digest(welcome.proof.encode(), proof.encode()):
                raise AccessError("the broker that answers does not know the secret that brokers share")
        if is_tls and welcome.broker not in names:
            raise AccessError(f"the certificate is not one of a broker called {welcome.broker!r:.80}")
        self._check_listed(welcome.broker)
