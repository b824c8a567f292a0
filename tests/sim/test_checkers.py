"""Every checker finds what it is there for: brokers and clients that are broken on purpose are caught."""

from collections.abc import Callable
from typing import Any

import pytest

from penstock.broker import protocols
from penstock.broker.core import Core
from penstock.broker.effects import Deliver, Effect, Send
from penstock.broker.local import Tick
from penstock.broker.needs import Matching
from penstock.broker.protocols import PROTOCOLS, CoreSettings, Protocol
from penstock.errors import PenstockError
from penstock.filters.parsing import as_predicate
from penstock.model.events import Event
from penstock.sim import faults
from penstock.sim.checkers import tables, trees
from penstock.sim.checkers.catalog import GENERIC, OF_PROTOCOLS, checkers_for
from penstock.sim.checkers.checker import Checker
from penstock.sim.checkers.delivered import Delivered, wanting
from penstock.sim.checkers.silence import Silence
from penstock.sim.clients import Client
from penstock.sim.network import Network
from penstock.wire.blocks import Block
from penstock.wire.messages import Events, Message, Publish, Resync

LEASE = 2.0


class Broken:
    """A core whose effects are not carried out as they are."""

    def __init__(self, core: Core, change: Callable[["Broken", Message | Block, list[Effect]], list[Effect]]):
        self._core = core
        self._change = change
        self.times = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._core, name)

    def handle(self, message: Message | Block, link: str, now: float) -> list[Effect]:
        return self._change(self, message, self._core.handle(message, link, now))


def found(
    change: Callable[[Broken, Message | Block, list[Effect]], list[Effect]] | None = None,
    protocol: str = "trees",
    **link: Any,
) -> dict[str, list[str]]:
    """What checkers say of a ring of four brokers whose cores are broken in a way."""
    kept = PROTOCOLS[protocol]

    def make(name: str, matching: Matching, settings: CoreSettings) -> Core:
        core = kept.make(name, matching, settings)
        return core if change is None else Broken(core, change)

    with pytest.MonkeyPatch.context() as patch:
        # Those that look into a broker do not know one that is wrapped.
        checkers = tuple(name for name in kept.checkers if change is None or name == "loops")
        patch.setitem(PROTOCOLS, protocol, kept._replace(make=make, checkers=checkers))
        network = Network("identity", protocol=protocol, lease=LEASE)
        return looked_at(network, checkers_for(network.protocol, network), **link)


def looked_at(network: Network, checkers: dict[str, Checker], **link: Any) -> dict[str, list[str]]:
    for checker in checkers.values():
        network.observers.append(checker)
    for name in "abcd":
        network.add_broker(name)
    for a, b in ("ab", "bc", "cd", "da"):
        network.add_link(a, b)
    pat, ann = network.add_client("pat", "a"), network.add_client("ann", "c")
    network.advertise(pat, "all", as_predicate("x >= 0"))
    network.subscribe(ann, "some", as_predicate("x < 100"))
    network.run(5 * LEASE)
    if link:
        for by, much in link.items():
            faults.degrade(network, network.links(), by, much)  # type: ignore[arg-type]
    delivered, silence = checkers["delivered"], checkers["silence"]
    assert isinstance(delivered, Delivered)
    assert isinstance(silence, Silence)
    for x in range(20):
        published = network.publish(pat, Event({"x": x}))
        assert published is not None
        delivered.expect(published, wanting([ann], published.event))
        network.run(network.now + 0.003)
    network.run(network.now + 5 * LEASE)
    silence.begin()
    network.run(network.now + LEASE)
    return {name: texts for name, checker in checkers.items() if (texts := list(checker.at_rest()))}


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
def test_nothing_is_wrong_with_what_is_not_broken(protocol: str) -> None:
    assert found(protocol=protocol) == {}


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
def test_what_links_do_is_no_fault_of_brokers(protocol: str) -> None:
    assert found(protocol=protocol, duplicate=0.5) == {}
    # Events that are overtaken are late, not lost.
    assert found(protocol=protocol, reorder=0.3) == {}
    exact = {name for name, kind in (GENERIC | OF_PROTOCOLS).items() if kind.exact}
    assert "delivered" in found(protocol=protocol, loss=0.3).keys() <= exact


def twice(_core: Broken, _message: Message | Block, effects: list[Effect]) -> list[Effect]:
    return [effect for effect in effects for _ in range(2 if isinstance(effect, Deliver) else 1)]


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
def test_a_broker_that_delivers_twice_is_found(protocol: str) -> None:
    wrong = found(twice, protocol)
    assert wrong["once"][0] == "ann got Event({'x': 0}) twice (pat/all 1)"
    assert len(wrong["once"]) == 20


def in_a_circle(core: Broken, _message: Message | Block, effects: list[Effect]) -> list[Effect]:
    return [
        effect
        for effect in effects
        for _ in range(2 if isinstance(effect, Send) and isinstance(effect.message, Publish) else 1)
    ]


def test_an_event_that_goes_over_a_link_twice_is_found() -> None:
    wrong = found(in_a_circle)
    assert set(wrong) == {"loops"}
    assert "event 1 of pat/all went from a to b twice" in wrong["loops"]


def now_and_then(core: Broken, _message: Message | Block, effects: list[Effect]) -> list[Effect]:
    core.times += any(isinstance(effect, Deliver) for effect in effects)
    return [e for e in effects if not isinstance(e, Deliver) or core.times % 3]


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
def test_an_event_that_is_not_delivered_is_found(protocol: str) -> None:
    wrong = found(now_and_then, protocol)
    assert set(wrong) == {"delivered"}
    missed = {text.partition(" of ")[0] for text in wrong["delivered"]}
    assert missed == {f"ann did not get Event({{'x': {x}}})" for x in range(2, 20, 3)}


def for_another(_core: Broken, _message: Message | Block, effects: list[Effect]) -> list[Effect]:
    return [
        Deliver(e.link, Publish(e.events.event, e.events.header, e.events.numbers, None, ("other",)))
        if isinstance(e, Deliver) and isinstance(e.events, Publish)
        else e
        for e in effects
    ]


def test_an_event_that_is_delivered_for_the_wrong_subscription_is_found() -> None:
    wrong = found(for_another)
    assert set(wrong) == {"delivered"}
    assert "ann got Event({'x': 0}) for other: None" in wrong["delivered"]
    assert "ann did not get Event({'x': 0}) of pat/all for some" in wrong["delivered"]
    assert "ann got Event({'x': 0}) of pat/all for other, and did not want it" in wrong["delivered"]


def talking(core: Broken, message: Message | Block, effects: list[Effect]) -> list[Effect]:
    return [*effects, Send("b", Resync())] if isinstance(message, Tick) and core.name == "a" else effects


def test_a_broker_that_does_not_fall_silent_is_found() -> None:
    wrong = found(talking)
    assert set(wrong) == {"silence"}
    assert any(text.startswith("Resync is said ") for text in wrong["silence"])


@pytest.mark.parametrize(
    ("answer", "what"), [(False, "after number "), (True, "as if it were late")], ids=["never", "always"]
)
def test_a_client_that_cannot_tell_what_is_late_is_found(
    monkeypatch: pytest.MonkeyPatch, answer: bool, what: str
) -> None:
    take = Client.take

    def answering(client: Client, origin: str, number: int) -> bool | None:
        return None if take(client, origin, number) is None else answer

    monkeypatch.setattr(Client, "take", answering)
    wrong = found(reorder=0.5)
    assert set(wrong) == {"order"}
    assert all(what in text for text in wrong["order"])


def test_a_broker_that_has_lost_its_memory_may_send_an_event_again() -> None:
    network = Network("identity", lease=LEASE)
    checkers = checkers_for(network.protocol, network)
    assert looked_at(network, checkers) == {}
    checkers["loops"].on_carry("a", "b", Publish(Event({"x": 1})), 0.0)
    faults.crash(network, "a")
    faults.restart(network, "a", with_state=False)
    checkers["loops"].on_carry("a", "b", Publish(Event({"x": 1})), 0.0)
    assert list(checkers["loops"].at_rest()) == []
    checkers["loops"].on_carry("a", "b", Publish(Event({"x": 1})), 0.0)
    faults.crash(network, "a")
    faults.restart(network, "a", with_state=True)
    checkers["loops"].on_carry("a", "b", Publish(Event({"x": 1})), 0.0)
    assert len(list(checkers["loops"].at_rest())) == 1


def test_checkers_of_large_networks_are_skipped_and_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network("simple", lease=LEASE)
    checkers = checkers_for(network.protocol, network)
    looked_at(network, checkers)
    assert {name: checker.why_not() for name, checker in checkers.items()} == dict.fromkeys(checkers, "")
    monkeypatch.setattr(tables, "ENTRIES_MAX", 2)
    monkeypatch.setattr(trees, "TREES_MAX", 3)
    assert checkers["tables"].why_not() == "more than 2 entries"
    assert checkers["trees"].why_not() == "more than 3 entries"


def test_each_protocol_has_the_checkers_that_it_names() -> None:
    for protocol in PROTOCOLS.values():
        network = Network(protocol=protocol.name)
        assert list(checkers_for(protocol, network)) == [*GENERIC, *protocol.checkers]
    odd = Protocol("odd", protocols.PROTOCOLS["flood"].make, (), ("magic",))
    with pytest.raises(PenstockError, match=f"no checker 'magic'; there are {', '.join(OF_PROTOCOLS)}"):
        checkers_for(odd, Network())


def test_the_trees_checker_walks_every_way() -> None:
    network = Network("identity", lease=LEASE)
    checkers = checkers_for(network.protocol, network)
    assert looked_at(network, checkers) == {}
    broker = trees.tree_broker(network, "c")
    ((tree, branch),) = broker.trees.items()
    came_by, branch.way = branch.way, "d" if branch.way == "b" else "b"
    back = trees.tree_broker(network, branch.way).trees[tree]
    kept, back.way = back.way, "c"
    wrong = list(checkers["trees"].at_rest())
    assert wrong
    assert all(text.startswith("the way of ") for text in wrong)
    branch.way, back.way = came_by, kept
    assert list(checkers["trees"].at_rest()) == []


def test_events_in_blocks_are_followed_too() -> None:
    network = Network()
    loops = checkers_for(network.protocol, network)["loops"]
    event: Events = Publish(Event({"x": 1})).as_block()
    for _ in range(2):
        loops.on_carry("a", "b", event, 0.0)
    assert len(list(loops.at_rest())) == 1
