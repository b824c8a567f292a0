"""Contexts for connections that are encrypted: TLS 1.2 or later, each side checked as far as it can be.

A context takes files in PEM. What is wrong with one is an InputError that names it, before anything listens.
"""

import ssl
from pathlib import Path
from typing import NoReturn, TypeAlias, cast

from penstock.errors import InputError

File: TypeAlias = str | Path


def server_context(
    cert: File, key: File, ca: File | None = None, *, verify_clients: bool = False
) -> ssl.SSLContext:
    """What a listener shows, and what it asks of who connects.

    With `verify_clients` nobody gets in without a certificate that `ca` signed. Without it, but with `ca`,
    a certificate is asked for and checked, and may be missing: so that brokers, which must have one, and
    clients, which need not, can come to the same listener (see `certificate_names`).
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _harden(context)
    _load_own(context, cert, key)
    if ca is not None:
        _load_ca(context, ca)
        context.verify_mode = ssl.CERT_REQUIRED if verify_clients else ssl.CERT_OPTIONAL
    elif verify_clients:
        raise InputError(
            "certificates of clients can be checked only with a file of those that sign them: ca"
        )
    return context


def peer_context(cert: File, key: File, ca: File) -> ssl.SSLContext:
    """What a broker shows to another that it connects to. Each checks the other."""
    return client_context(ca, cert=cert, key=key)


def client_context(
    ca: File | None = None, *, cert: File | None = None, key: File | None = None
) -> ssl.SSLContext:
    """What a client asks of a broker: a certificate for its host name, that `ca` or the system's own signed.

    `cert` and `key` are the client's own, where the broker asks for them.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _harden(context)
    if ca is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        _load_ca(context, ca)
    if cert is not None and key is not None:
        _load_own(context, cert, key)
    elif cert is not None or key is not None:
        raise InputError("a certificate and its key go together: give both, cert and key, or none")
    return context


def certificate_names(connection: ssl.SSLObject | ssl.SSLSocket | None) -> frozenset[str]:
    """The host names and addresses of the other side's certificate, which was checked; none without one."""
    certificate = connection.getpeercert() if connection is not None else None
    if not certificate:
        return frozenset()
    names = cast("tuple[tuple[str, str], ...]", certificate.get("subjectAltName", ()))
    return frozenset(name for kind, name in names if kind in ("DNS", "IP Address"))


def _harden(context: ssl.SSLContext) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Compression tells of what it compresses, and renegotiation costs the listener more than who asks for it.
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION


def _load_own(context: ssl.SSLContext, cert: File, key: File) -> None:
    _check_readable(cert)
    _check_readable(key)

    def no_password() -> NoReturn:
        # OpenSSL would ask at the terminal, and a service has none.
        raise InputError(
            f"{key}: the key is encrypted; write it without a password, for the broker alone to read"
        )

    try:
        context.load_cert_chain(cert, key, password=no_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise InputError(f"{key}: not the key of the certificate in {cert}") from None
        # OpenSSL does not say which of the two it could not read.
        _load_ca(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), cert)
        raise InputError(f"{key}: not a private key in PEM ({_reason(error)})") from None


def _load_ca(context: ssl.SSLContext, ca: File) -> None:
    _check_readable(ca)
    try:
        context.load_verify_locations(cafile=ca)
    except ssl.SSLError as error:
        raise InputError(f"{ca}: no certificates in PEM ({_reason(error)})") from None


def _check_readable(path: File) -> None:
    """Of a file that is missing, OpenSSL does not say the name."""
    try:
        with Path(path).open("rb") as file:
            file.read(1)
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or str(error)).lower()}") from None


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()
