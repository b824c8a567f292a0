"""`penstock warm`: afterwards nobody waits for a kernel."""

import os
import subprocess
import sys
from pathlib import Path

from patience import HANGS

# Of the paper's engine, which only benchmarks run; of tests; inside another; and of a rare case.
OTHERS = ["append", "build", "forward_messages", "like_text", "link_chains", "search_room"]

PROGRAM = """
import importlib, pkgutil
from penstock.cli.main import main
from penstock.matching import kernels
from numba.core.caching import FunctionCache

assert main(["warm"]) == 0
found = pkgutil.iter_modules(kernels.__path__, kernels.__name__ + ".")
modules = [importlib.import_module(one.name) for one in found]
for module in modules:
    for name, made in vars(module).items():
        if isinstance(getattr(made, "_cache", None), FunctionCache) and not made.overloads:
            if made.py_func.__module__ == module.__name__:
                print(name)
"""


def test_all_kernels_are_loaded_or_compiled() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=HANGS, check=False
    )
    ready, *cold = done.stdout.splitlines()
    assert (done.returncode, ready.startswith("kernels are ready below ")) == (0, True), done.stderr
    assert sorted(cold) == OTHERS


def test_a_folder_that_cannot_be_written_is_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "warm"],
        capture_output=True,
        text=True,
        env={**os.environ, "NUMBA_CACHE_DIR": str(file / "kernels")},
        timeout=HANGS,
        check=False,
    )
    wrong = f"penstock: NUMBA_CACHE_DIR: {file / 'kernels'} cannot be written\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", wrong)
