"""The types that kernels are compiled for are those that they are called with."""

import subprocess
import sys

from numba import types

from penstock.matching.batch import Batch
from penstock.matching.kernels import signatures

CALL_ALL = """
from penstock.matching.kernels.signatures import called_with, recorded
from penstock.matching.warming import warm_all

warm_all(lambda what: None)
found = {(name, each) for name, all_types in called_with().items() for each in all_types}
print(*sorted(found.difference(recorded())))
"""


def test_what_kernels_are_called_with_is_recorded() -> None:
    """Run `python -m penstock.matching.kernels.signatures` where this fails."""
    done = subprocess.run([sys.executable, "-c", CALL_ALL], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "\n"), done.stderr


def test_types_are_read_as_they_were_written() -> None:
    arrays = [types.Array(types.int64, 1, "C"), types.Array(types.uint64, 2, "C")]
    batch = types.NamedTuple([arrays[0]] * len(Batch._fields), Batch)  # type: ignore[no-untyped-call]
    for each in (*arrays, types.int64, types.float64, types.boolean, batch):
        assert signatures._type_of(signatures.text_of(each)) == each


def test_all_that_is_recorded_is_on_disk_once_it_was_compiled() -> None:
    # Whoever runs tests has compiled the kernels.
    assert signatures.missing() == []
    name, text = signatures.recorded()[-1]
    assert signatures.compile_line((name, text)) == name
