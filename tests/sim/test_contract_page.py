"""The delivery contract in docs/OPERATIONS.md and the checkers say the same."""

import re
from pathlib import Path

from penstock.sim.checkers.catalog import promises

PAGE = Path(__file__).parents[2] / "docs" / "OPERATIONS.md"


def test_every_sentence_of_the_contract_names_the_checker_that_holds_it() -> None:
    section = PAGE.read_text().partition("### Sentence by sentence")[2].partition("### ")[0]
    rows = re.findall(r"^\| (.+) \| `(\w+)` \|$", section, re.MULTILINE)
    assert len(rows) > 10
    written: dict[str, list[str]] = {}
    for sentence, checker in rows:
        written.setdefault(checker, []).append(sentence)
    held = promises(whole=True)
    assert {name: list(held[name]) for name in written} == written
    # Those of a protocol are about its tables, which is no promise to users.
    assert held.keys() - written.keys() == {"trees", "tables"}
