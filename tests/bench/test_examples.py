"""The examples of routing say what happens, and the documentation shows all of them."""

from pathlib import Path

import pytest

from penstock.bench.examples import EXAMPLES, tell
from penstock.cli.main import main

PAGE = Path(__file__).parent.parent.parent / "docs" / "ROUTING.md"


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_page_shows_what_the_brokers_say(name: str) -> None:
    assert f"```console\n$ .venv/bin/penstock bench example {name}\n{tell(name)}```\n" in PAGE.read_text()


def test_the_command_lists_the_examples_and_tells_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "example"]) == 0
    assert capsys.readouterr().out.split() == list(EXAMPLES)
    assert main(["bench", "example", "covering"]) == 0
    assert "unsubscribe price between 10 and 20" in capsys.readouterr().out
    assert main(["bench", "example", "none"]) == 2
    assert "there are flooding, simple" in capsys.readouterr().err


def test_a_covering_subscription_that_goes_is_taken_back_after_what_it_covered_is_asked_for() -> None:
    told = tell("covering")
    after = told[told.index("ben unsubscribes") :].splitlines()[1:3]
    assert after == [
        "  A → B  subscribe price between 10 and 20",
        "  A → B  unsubscribe price between 10 and 50",
    ]


def test_lazy_covering_asks_for_nothing_again() -> None:
    told = tell("lazy")
    after = told[told.index("ben unsubscribes") : told.rindex("tables:")]
    assert after.count("unsubscribe price") == 3
    assert " subscribe " not in after
