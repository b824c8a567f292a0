"""What links are called, and in whose name events are numbered."""

from hashlib import blake2b

from penstock.net.tokens import Identity
from penstock.wire.greetings import Hello


def link_name(hello: Hello) -> str:
    """What the core calls whoever greets: a neighbour by its name.

    A client has one link, whatever its session, so that nobody waits for the session that it had before. No
    broker can have such a name, because names can be printed.
    """
    return hello.name if hello.role == "broker" else f"client\t{_own_part(hello)}"


def _own_part(hello: Hello) -> str:
    """What stays the same of all sessions of one client."""
    return hello.session.rpartition(":")[0] or hello.session


def origin_of(hello: Hello, identity: Identity) -> str:
    """In whose name a client's events are numbered: the same at every broker and after every reconnection.

    Everybody who gets an event is told, so it must not tell the session, the key to going on with it.
    """
    return f"{identity.subject}~{blake2b(_own_part(hello).encode(), digest_size=16).hexdigest()}"
