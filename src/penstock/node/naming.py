"""What links are called, and in whose name events are numbered."""

from hashlib import blake2b

from penstock.node.identity import Identity
from penstock.wire.greetings import Hello


def link_name(hello: Hello) -> str:
    """What the core calls whoever greets: a neighbour by its name, a client by what its sessions share.

    A client has one link, whatever its session, so that nobody waits for the session that it had before.
    """
    return hello.name if hello.role == "broker" else client_link(_own_part(hello))


def client_link(own: str) -> str:
    """What the core calls a client. No broker can have such a name, because names can be printed."""
    return f"client\t{own}"


def origin_of(hello: Hello, identity: Identity) -> str:
    """In whose name a client's events are numbered."""
    return client_origin(identity.subject, _own_part(hello))


def client_origin(subject: str, own: str) -> str:
    """In whose name a client's events are numbered: the same at every broker and after every reconnection.

    Everybody who gets an event is told, so it must not tell the session, the key to going on with it.
    """
    return f"{subject}~{blake2b(own.encode(), digest_size=16).hexdigest()}"


def _own_part(hello: Hello) -> str:
    """What stays the same of all sessions of one client."""
    return hello.session.rpartition(":")[0] or hello.session
