"""Plans that have failed once: what they showed must not come back."""

import msgspec
import pytest

from penstock.routing.schemes.catalog import SCHEMES
from penstock.sim.plan import Plan
from penstock.sim.play import play

# The request for a new way is itself lost, and no link comes up that would have all said again.
LOST_REQUEST = """{"seed":1,"scheme":"simple","advertisements":true,"brokers":3,"edges":[[0,1],[0,2],[1,2]],
"homes":[0],"latencies":[],"steps":[["advertise",[0,"a","x >= 0"]],["settle",[]],["degrade",[0,1,"loss",0.3]],
["cut",[0,2]],["pass",[6.0]],["restore",[]]]}"""

# A broker forgets which events it delivered, and slower copies of them come by another way.
FORGOTTEN_NUMBERS = """{"seed":1,"scheme":"covering","advertisements":true,"brokers":3,
"edges":[[0,1],[0,2],[1,2]],"homes":[0,2,1],"latencies":[0.01,0.01,0.01],"steps":[
["advertise",[0,"a","x >= 0"]],["subscribe",[1,"s","x >= 0"]],["subscribe",[2,"s","x >= 0"]],["settle",[]],
["degrade",[0,1,"delay",0.6]],["publish",[0,{"x":1}]],["pass",[0.05]],["publish",[0,{"x":2}]],["pass",[0.05]],["crash",[2]],["cut",[0,2]],
["restart",[2,false]],["settle",[]]]}"""

# A flooding broker forgets what it passed on.
FORGOTTEN_FLOOD = """{"seed":127,"scheme":"flooding","advertisements":false,"brokers":5,
"edges":[[1,3],[1,4],[2,3],[2,4],[3,4]],"homes":[4],"latencies":[0.01,0.01,0.01,0.01,0.01],
"steps":[["degrade",[1,4,"delay",0.6]],["publish",[0,{"x":1,"y":2}]],["pass",[0.2536]],["crash",[3]],
["restart",[3,false]]]}"""

# A neighbour that has come to go through this broker is still believed to know another way.
STALE_OFFER = """{"seed":1,"scheme":"identity","advertisements":true,"brokers":5,
"edges":[[1,2],[1,4],[2,3],[3,4]],"homes":[1],"latencies":[0.01,0.01,0.05,0.01],
"steps":[["advertise",[0,"a","x >= 0"]],["cut",[1,4]],["pass",[0.2]],["cut",[3,4]],["heal",[1,4]],
["pass",[0.03]],["heal",[3,4]],["pass",[0.005]],["crash",[1]],["settle",[]]]}"""


@pytest.mark.parametrize("scheme", sorted(SCHEMES))
@pytest.mark.parametrize("text", [LOST_REQUEST, FORGOTTEN_NUMBERS, FORGOTTEN_FLOOD, STALE_OFFER])
def test_what_went_wrong_once_goes_right(text: str, scheme: str) -> None:
    plan = msgspec.json.decode(text, type=Plan)
    for seed in range(5):
        assert play(msgspec.structs.replace(plan, scheme=scheme, seed=seed)).wrong == []
