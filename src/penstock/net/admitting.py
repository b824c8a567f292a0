"""Who is let in, as the settings of a broker say it."""

from penstock.net.config import BrokerConfig
from penstock.net.files import read_secret
from penstock.net.tokens import TokenChecker, read_key
from penstock.node.admission import Admission, quotas_of


def admission_of(config: BrokerConfig) -> Admission:
    """What checks whoever connects to a broker. Reads its keys and secrets."""
    tokens = config.tokens
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
        quotas_of(config.limits),
        checker=checker,
        required=tokens.is_on and tokens.required,
        secret=None if config.peer_secret_file is None else read_secret(config.peer_secret_file),
        has_ca=config.tls.ca is not None,
        peers=config.peer_names,
    )
