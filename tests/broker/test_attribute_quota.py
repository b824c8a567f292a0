"""How many attributes the subscriptions of one client may name."""

import pytest

from penstock.broker.effects import Refuse
from penstock.broker.local import Limits, LinkUp
from penstock.broker.needs import Scan
from penstock.broker.protocols import CoreSettings, protocol_named
from penstock.filters.parsing import parse
from penstock.wire.messages import Subscribe, Unsubscribe


@pytest.mark.parametrize("protocol", ["trees", "flood"])
def test_a_client_names_no_more_attributes_than_it_may(protocol: str) -> None:
    core = protocol_named(protocol).make("b", Scan(), CoreSettings())
    core.handle(LinkUp(client=True, limits=Limits(100, 100, 3)), "c", 0.0)

    def refused(message: Subscribe | Unsubscribe) -> list[str]:
        return [effect.reason for effect in core.handle(message, "c", 1.0) if isinstance(effect, Refuse)]

    too_many = ["no more than 3 different attributes may be named"]
    assert refused(Subscribe(1, parse("a = 1 and b = 1"))) == []
    assert refused(Subscribe(2, parse("c = 1 or d = 1"))) == too_many
    assert refused(Subscribe(3, parse("a = 2 or c = 1"))) == []
    # Those in clauses count as well, and what is changed or gone no longer does.
    assert refused(Subscribe(4, parse(" and ".join(f"(a = {n} or e{n} = 1)" for n in range(12))))) == too_many
    assert refused(Subscribe(1, parse("a = 1"))) == []
    assert refused(Subscribe(5, parse("d = 1"))) == []
    assert refused(Subscribe(6, parse("b = 1"))) == too_many
    assert refused(Unsubscribe(3)) == []
    assert refused(Subscribe(6, parse("b = 1"))) == []
