"""A broker's process under virtual time: the node that runs on sockets, who looks on, what it logs."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from penstock.broker.core import Core
from penstock.broker.effects import Effect, Send
from penstock.broker.grants import Grants
from penstock.errors import AccessError, PenstockError
from penstock.node.admission import Admission, quotas_of
from penstock.node.connection import FrameConnection
from penstock.node.identity import Identity
from penstock.node.node import Node, NodeSettings
from penstock.wire.blocks import Block
from penstock.wire.messages import Message

if TYPE_CHECKING:
    from penstock.sim.whole.network import WholeNetwork

NO_RIGHTS: Final = "nothing"
"""A token that lets its holder do nothing at all; who has none may do everything."""


_SLICE_PAUSE: Final = 0.01
"""Seconds between slices, where they are small: long enough for anything to happen meanwhile."""


class _Tokens:
    """Knows that one token."""

    def check(self, token: str) -> Identity:
        """Who shows it."""
        if token != NO_RIGHTS:
            raise AccessError("nobody has such a token")
        return Identity(subject="nobody", grants=Grants.of())


class _Errors(logging.Handler):
    """Keeps what brokers log as errors: exceptions that would not take a live broker down."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one."""
        error = record.exc_info[1] if record.exc_info else None
        self.texts.append(f"{record.getMessage()}: {error!r}")


_ERRORS: Final = _Errors()
logging.getLogger("penstock.net").addHandler(_ERRORS)


def errors_logged() -> list[str]:
    """What brokers have logged as errors since this was asked last."""
    told, _ERRORS.texts = _ERRORS.texts, []
    return told


class _WatchedCore:
    """A core whose messages are counted, and told to those who look on."""

    def __init__(self, core: Core, network: "WholeNetwork") -> None:
        self.core = core
        self.name = core.name
        self.hears_load = core.hears_load
        self.facts = core.facts
        self.prospects = core.prospects
        self.client = core.client
        self.close = core.close
        self._network = network

    def handle(self, message: Message | Block, link: str, now: float) -> list[Effect]:
        """Take a message, and tell of it."""
        network = self._network
        network.counts.handled += 1
        for on_handle in network.observers.on_handle:
            on_handle(self.name, link, message, network.now)
        effects = self.core.handle(message, link, now)
        for effect in effects:
            if type(effect) is Send:
                network.counts.carry(effect.message)
                if isinstance(effect.message, Block):
                    for on_carry in network.observers.on_carry:
                        on_carry(self.name, effect.link, effect.message, network.now)
        return effects


class WholeNode:
    """A broker's process, and the broker in it while it lives."""

    def __init__(self, network: "WholeNetwork", name: str) -> None:
        self.name = name
        self.lives = 0
        self.node: Node | None = None
        self.core: Core | None = None
        self.process = network.new_process(name)
        self.peers: list[str] = []
        self.is_down = False
        """Whether it has crashed or ended, and was not started again."""
        self._network = network

    @property
    def broker(self) -> Core | None:
        """The core, while it runs."""
        return self.core if self.process.is_alive and not self.process.is_paused else None

    @property
    def queue(self) -> range:
        """As long as there are frames that it has sent, or is to send, and that are not acknowledged."""
        links = () if self.node is None else self.node.runtime.links.values()
        return range(sum(link.session.unacked_frames for link in links))

    def start(self) -> None:
        """Begin a life."""
        network = self._network
        if not self.process.is_alive:
            self.process = network.new_process(self.name)
        self.lives += 1
        self.node = node = Node(
            NodeSettings(
                name=self.name,
                protocol=network.protocol_name,
                scheme=network.settings.scheme,
                advertisements=network.settings.advertisements,
                limits=network.limits,
                times=network.times,
                slice_size=1 if network.is_sliced else 128,
            ),
            network.make_matching(),
            Admission(quotas_of(network.limits), checker=_Tokens()),
            self.process,
            incarnation=self.lives,
        )
        if network.is_sliced:
            node.runtime.intake.slice_bytes, node.runtime.intake.pause = 1, _SLICE_PAUSE
            node.runtime.replaying.turn_blocks = 1
        self.core = node.runtime.core
        node.runtime.core = _WatchedCore(node.runtime.core, network)
        for peer in self.peers:
            node.add_peer(peer, peer)
        network.lines.listen(self.name, self)
        node.begin()

    def accept(self) -> FrameConnection:
        """Somebody connects."""
        if self.node is None:
            raise PenstockError(f"{self.name} is not running")
        return self.node.accept()

    def drain(self, on_ended: Callable[[], object]) -> None:
        """Have it end, as by SIGTERM: it takes no connection, and ends when what it has taken is done."""
        node = self.node
        if node is None:
            raise PenstockError(f"{self.name} is not running")

        def ended() -> None:
            node.stop()
            on_ended()

        self._network.lines.refuse(self.name)
        node.drain(ended)

    @property
    def is_draining(self) -> bool:
        """Whether it is about to end, or has ended."""
        return self.node is not None and self.node.hub.is_draining

    def die(self) -> None:
        """End a life."""
        self.process.die()
        if self.core is not None:
            self.core.close()
        self.node = self.core = None
