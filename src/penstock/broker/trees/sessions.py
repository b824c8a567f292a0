"""Numbered messages on a link to a neighbour, and what is done when one is missing.

What brokers tell each other is state: which advertisements can be reached, what is wanted. Each side numbers
what it sends. A number that is missing means that the state may differ; then all of it is asked for, and
said again (Sync), and takes the place of what was known. A number that was there before is dropped. So loss,
repetition and reordering are mended by the same few lines as a neighbour that has lost its memory.
"""

from enum import Enum, auto

from penstock.model.names import Key
from penstock.wire.messages import Alive, Body, Control, Session, Sync


class Arrival(Enum):
    """What to do with a message."""

    TAKE = auto()
    DROP = auto()
    ASK = auto()
    """Drop it, and ask for everything."""


class LinkState:
    """Both directions of a link."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.sent = 0
        self.their_session: Session | None = None
        self.their_number = 0
        self.heard_at = 0.0
        self._asking = False
        self._parts: tuple[Session, int, int] | None = None
        """The part of a Sync that comes next: its session, number and place."""
        self.synced: set[Key] = set()
        """What was asked for in the parts that have come."""

    def number(self, bodies: tuple[Body, ...]) -> Control:
        """The next message to the other side."""
        self.sent += 1
        return Control(self.session, self.sent, bodies)

    def alive(self) -> Alive:
        """What tells the other side whether it has missed anything."""
        return Alive(self.session, self.sent)

    def judge(self, message: Control | Alive) -> Arrival:
        """Whether a message is the next one."""
        known = self.their_session
        if known is not None and message.session < known:
            return Arrival.DROP
        if isinstance(message, Alive):
            # Asked again each time, in case that the question was lost.
            missed = known is None or message.session > known or message.number > self.their_number
            # What follows a Sync comes behind its last part.
            return Arrival.ASK if missed or self._parts is not None else Arrival.TAKE
        missed = known is None or message.session > known or message.number > self.their_number + 1
        if missed or self._parts is not None:
            asking, self._asking = self._asking, True
            return Arrival.DROP if asking else Arrival.ASK
        if message.number <= self.their_number:
            return Arrival.DROP
        self.their_number = message.number
        return Arrival.TAKE

    def forget(self) -> None:
        """Know nothing of the other side any more."""
        self.their_session, self.their_number, self._asking = None, 0, False
        self._parts = None

    def judge_sync(self, message: Sync) -> Arrival:
        """Whether everything that the other side says is newer than what is known.

        Of several parts the first decides, and the others have to follow it one by one.
        """
        place = message.session, message.number, message.part
        if message.part and place != self._parts:
            self._parts = None
            return Arrival.ASK
        self._parts = (message.session, message.number, message.part + 1) if message.more else None
        if message.part:
            return Arrival.TAKE
        known = self.their_session
        if known is not None and (message.session, message.number) < (known, self.their_number):
            self._parts = None
            return Arrival.DROP
        self.their_session, self.their_number, self._asking = message.session, message.number, False
        self.synced = set()
        return Arrival.TAKE
