"""What the routing benchmarks count is what happens; schemes stand in the order that the papers say.

Nothing here depends on how long anything takes.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.bench import covering, ladder, trial
from penstock.bench.ladder import COLUMNS, RUNGS, SCHEMES, Half
from penstock.bench.trial import Measured
from penstock.cli.main import main
from penstock.errors import PenstockError
from penstock.workloads import scenes
from penstock.workloads.quotes import Quotes
from penstock.workloads.scenes import Scene

BROKERS = 8
SUBSCRIPTIONS = 60
EVENTS = 60
SEED = 3


@pytest.fixture(scope="module")
def halves() -> list[Half]:
    return ladder.measure(BROKERS, SUBSCRIPTIONS, EVENTS, SEED)


@pytest.fixture(scope="module")
def core() -> Scene:
    return scenes.core_and_edges(100, 60, SEED)


@pytest.fixture(scope="module")
def table_ii(core: Scene) -> list[Measured]:
    return covering.measure(core)


def expected(scene: Scene) -> int:
    """Deliveries, by trying every subscription on every event."""
    left = [wanted for key, wanted in enumerate(scene.subscriptions) if key not in set(scene.unsubscriptions)]
    return sum(
        len({client for client, predicate in left if predicate.matches(event)})
        for _publisher, event in scene.events()
    )


def figures(half: Half, column: str) -> dict[str, int]:
    return {row.scheme: COLUMNS[column](row) for row in half.rows}


def test_every_row_of_the_ladder_delivers_what_trying_every_filter_does(halves: list[Half]) -> None:
    assert len(halves) == 4
    assert all([row.scheme for row in half.rows] == list(SCHEMES) for half in halves)
    wanted = {
        expected(scenes.ladder(BROKERS, SUBSCRIPTIONS, EVENTS, SEED, locality=locality))
        for locality in (False, True)
    }
    delivered = {row.delivered for half in halves for row in half.rows}
    assert len({row.digest for half in halves for row in half.rows}) == 1
    assert wanted == delivered
    assert min(delivered) > 0


def test_each_rung_has_no_more_table_entries_than_the_one_before(halves: list[Half]) -> None:
    for half in halves:
        entries = figures(half, "entries")
        assert sorted(RUNGS, key=lambda rung: -entries[rung]) == list(RUNGS), half.title
        assert entries["simple"] > entries["covering"]
        assert entries["covering"] == entries["packing"] < entries["lazy"] <= entries["identity"]


def test_without_unsubscriptions_and_flooding_only_imperfect_mergers_carry_in_vain(
    halves: list[Half],
) -> None:
    for half in halves:
        vain = figures(half, "false")
        carried = figures(half, "carried")
        assert vain.pop("flooding") > 0
        assert vain.pop("imperfect") <= carried["imperfect"] - carried["simple"]
        assert set(vain.values()) == {0}
        exact = {scheme: carried[scheme] for scheme in SCHEMES if scheme not in ("flooding", "imperfect")}
        assert len(set(exact.values())) == 1


def test_flooding_takes_every_event_to_every_broker_and_asks_for_nothing(halves: list[Half]) -> None:
    for half in halves:
        row = next(row for row in half.rows if row.scheme == "flooding")
        assert row.carried == EVENTS * (BROKERS - 1)
        assert row.matched == row.handled == EVENTS * BROKERS
        assert row.subscribing == row.unsubscribing == 0
        assert row.entries_total == row.own == SUBSCRIPTIONS - round(SUBSCRIPTIONS * scenes.LEAVE)


def test_simple_without_advertisements_sends_each_subscription_over_each_link_once(
    halves: list[Half],
) -> None:
    for half in halves:
        row = next(row for row in half.rows if row.scheme == "simple")
        if half.advertisements:
            assert row.advertising == 10 * (BROKERS - 1)
            assert row.subscribing < SUBSCRIPTIONS * (BROKERS - 1)
        else:
            assert row.advertising == 0
            assert row.subscribing == SUBSCRIPTIONS * (BROKERS - 1)
            assert row.unsubscribing == len(range(0, SUBSCRIPTIONS, 10)) * (BROKERS - 1)
            assert row.entries_total == BROKERS * row.own


def test_packing_is_covering_in_fewer_messages(halves: list[Half]) -> None:
    for half in halves:
        control, frames = figures(half, "control"), figures(half, "frames")
        assert control["packing"] == control["covering"] == frames["covering"]
        assert frames["packing"] < frames["covering"]


def test_only_the_first_broker_matches_where_all_filters_are_known(halves: list[Half]) -> None:
    for half in halves:
        for row in half.rows:
            assert row.matched == (EVENTS if row.scheme in ("simple", "identity") else row.handled)
            assert row.handled == EVENTS + row.carried


def test_a_rung_that_is_higher_is_named(halves: list[Half]) -> None:
    for half in halves:
        higher = ladder.higher_rungs(half)
        assert ("covering", "matchings") in {(scheme, column) for scheme, column, _figure, _before in higher}
        assert all(figure > before for _scheme, _column, figure, before in higher)


def test_locality_moves_clients_and_changes_nothing_else() -> None:
    anywhere = scenes.ladder(BROKERS, SUBSCRIPTIONS, EVENTS, SEED, locality=False)
    near = scenes.ladder(BROKERS, SUBSCRIPTIONS, EVENTS, SEED, locality=True)
    assert anywhere.homes != near.homes
    same = ("brokers", "edges", "advertisements", "subscriptions", "unsubscriptions")
    assert all(getattr(anywhere, name) == getattr(near, name) for name in same)
    assert anywhere.events() == near.events()


def test_different_deliveries_are_noticed(core: Scene) -> None:
    row = trial.run(core, "simple", advertisements=True)
    fewer = core._replace(subscriptions=core.subscriptions[:-20])
    with pytest.raises(PenstockError, match="this is a bug"):
        trial.check_same_deliveries([row, trial.run(fewer, "simple", advertisements=True)])


def test_the_overlay_of_table_ii_is_a_tree_of_49_brokers(core: Scene) -> None:
    assert len(core.brokers) == 49
    assert len(core.edges) == 48
    assert len({broker for edge in core.edges for broker in edge}) == 49
    publishers = {core.homes[client] for client, _predicate in core.advertisements}
    assert len(publishers) == 3
    assert all(home.startswith("E1.") for home in publishers)
    assert not publishers & {core.homes[client] for client, _predicate in core.subscriptions}


def test_active_covering_has_fewer_entries_than_lazy_and_lazy_than_none(table_ii: list[Measured]) -> None:
    active, lazy, none = table_ii
    assert active.entries_total < lazy.entries_total < none.entries_total
    assert active.entries_met < lazy.entries_met < none.entries_met
    for broker in scenes.CORE[1:]:
        assert active.entries[broker] < lazy.entries[broker] < none.entries[broker]


def test_table_ii_counts_messages_as_the_schemes_define_them(core: Scene, table_ii: list[Measured]) -> None:
    active, lazy, none = table_ii
    assert active.count(["Unsubscribe"]) > 0
    assert lazy.count(["Unsubscribe"]) == none.count(["Unsubscribe"]) == 0
    assert active.count(["Subscribe"]) <= none.count(["Subscribe"])
    assert len({row.carried for row in table_ii}) == 1
    assert none.entries["E"] == len(core.subscriptions)
    assert none.matched == none.published == core.events_count
    assert active.delivered == expected(core)


def test_the_degree_of_covering_is_that_of_all_subscriptions_in_one_table(core: Scene) -> None:
    how = covering.degree(core)
    assert how.subscriptions == 100
    assert how.roots <= how.different <= 100
    assert how.covered > 0.5


def test_popular_symbols_are_asked_for_more_often() -> None:
    quotes = Quotes(10, 20, SEED)
    drawn = [quotes.symbol() for _ in range(2_000)]
    assert set(drawn) == set(range(10))
    assert drawn.count(0) > 2 * drawn.count(3) > 2 * drawn.count(9)


def test_the_ladder_as_a_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    small = ["bench", "ladder", "--brokers", "6", "--subscriptions", "400", "--events", "400"]
    assert main([*small, "--scale", "0.05", "--json", "--plots", str(tmp_path / "plots")]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (document["subscriptions"], document["events"]) == (20, 20)
    assert [row["scheme"] for row in document["settings"][0]["rows"]] == list(SCHEMES)
    assert (tmp_path / "plots" / "ladder.png").read_bytes().startswith(b"\x89PNG")
    assert main([*small, "--scale", "0.05"]) == 0
    shown = capsys.readouterr().out
    assert "imperfect" in shown
    assert "Not lower: covering in matchings" in shown


def test_table_ii_as_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    small = ["bench", "covering", "--scale", "0.001"]
    assert main([*small, "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (document["subscriptions"], document["publications"]) == (42, 200)
    lines = {line["what"]: line for line in document["lines"]}
    assert lines["table entries met by publications"]["paper"] == [600, 1240, 1580]
    assert lines["unsubscription messages"]["figures"][1:] == [0, 0]
    assert 0 < document["tree_share"] < 1
    assert main(small) == 0
    assert "Tree identifiers" in capsys.readouterr().out
