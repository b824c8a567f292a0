"""The list of mutants fits today's source, so that `make mutants` does not fail an hour into a run."""

import runpy
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from mutants import Mutant

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "penstock"
LIST = runpy.run_path(str(Path(__file__).with_name("mutants.py")))
MUTANTS: "tuple[Mutant, ...]" = LIST["MUTANTS"]
NAMES = [mutant.name for mutant in MUTANTS]


@pytest.mark.parametrize("mutant", MUTANTS, ids=NAMES)
def test_a_mutant_changes_one_place_of_its_file_which_still_compiles(mutant: "Mutant") -> None:
    source = (SOURCE / mutant.file).read_text()
    changed = mutant.apply(source)
    assert changed != source
    compile(changed, mutant.file, "exec")


@pytest.mark.parametrize("mutant", MUTANTS, ids=NAMES)
def test_the_test_that_is_to_catch_a_mutant_is_there(mutant: "Mutant") -> None:
    if mutant.caught_by != LIST["CHECK"]:
        file, _, test = mutant.caught_by.partition("::")
        assert f"def {test}(" in (ROOT / file).read_text() or f"\n{test} = " in (ROOT / file).read_text()


def test_names_are_used_once_and_survivors_are_mutants() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert set(LIST["SURVIVORS"]) <= set(NAMES)


def test_a_mutant_whose_place_is_gone_is_named() -> None:
    mutant = MUTANTS[0]
    for source in ("", 2 * mutant.old):
        with pytest.raises(ValueError, match=f"mutant {mutant.name}: .* has moved on"):
            mutant.apply(source)
