"""Plans on whole nodes, for tests: all subscribe to everything, and c0 publishes."""

from penstock.sim.plan import Plan, Step
from penstock.sim.play import Outcome, play

CHAIN = ((0, 1), (1, 2))


def events(client: int, *values: int, apart: float = 0.02) -> list[Step]:
    """A client publishes events, some milliseconds apart."""
    return [step for x in values for step in (Step("publish", (client, {"x": x})), Step("pass", (apart,)))]


def outcome(
    steps: list[Step],
    *,
    homes: tuple[int, ...],
    brokers: int = 3,
    edges: tuple[tuple[int, int], ...] = CHAIN,
    **more: object,
) -> Outcome:
    """What comes of steps, once everybody has subscribed to everything and c0 advertises it."""
    begin = [Step("pass", (1.0,)), Step("advertise", (0, "a", "x >= 0"))]
    begin += [Step("subscribe", (client, "s", "x >= 0")) for client in range(len(homes))]
    found = play(
        Plan(
            seed=int(str(more.pop("seed", 1))),
            scheme=str(more.pop("scheme", "covering")),
            advertisements=bool(more.pop("advertisements", True)),
            brokers=brokers,
            edges=edges,
            homes=homes,
            steps=(*begin, Step("settle"), *steps, Step("mend"), Step("settle")),
            links="reliable",
            **more,  # type: ignore[arg-type]
        )
    )
    # With a broker that is down until the end, nothing comes to rest, and nothing is judged.
    assert found.wrong or found.checked
    return found
