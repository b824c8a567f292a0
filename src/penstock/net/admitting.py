"""Who is let in, as the settings of a broker say it."""

from penstock.broker.quotas import Quotas
from penstock.net.config import BrokerConfig
from penstock.net.files import read_secret
from penstock.net.tokens import TokenChecker, read_key
from penstock.node.admission import Admission


def admission_of(config: BrokerConfig) -> Admission:
    """What checks whoever connects to a broker. Reads its keys and secrets."""
    limits, tokens = config.limits, config.tokens
    checker: TokenChecker | None = None
    key_file = tokens.secret_file or tokens.public_key_file
    if key_file is not None:
        checker = TokenChecker(
            key=read_key(key_file),
            algorithm=tokens.algorithm,
            audience=tokens.audience,
            issuer=tokens.issuer,
        )
    return Admission(
        Quotas(
            subscriptions=limits.subscriptions_per_client,
            advertisements=limits.advertisements_per_client,
            bytes_per_second=limits.bytes_per_second,
            events_per_second=limits.events_per_second,
        ),
        checker=checker,
        required=tokens.is_on and tokens.required,
        secret=None if config.peer_secret_file is None else read_secret(config.peer_secret_file),
        has_ca=config.tls.ca is not None,
        peers=config.peer_names,
    )
