"""Plant each deliberate defect of `mutants.py` in a copy of the source, and see whether it is caught.

    .venv/bin/python tests/mutants/run.py [--seeds 1000] [--only NAME ...] [--jobs 2] [--list]

A mutant that `check` is to catch plays seeds of whole nodes until one fails that does not fail without it;
an exception and a hang count as failing. Any other mutant runs its test. The source itself is not touched.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Final, NamedTuple

from rich.console import Console
from rich.markup import escape
from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from mutants import CHECK, MUTANTS, SURVIVORS, Mutant

_ROOT: Final = Path(__file__).resolve().parents[2]
_SOURCE: Final = _ROOT / "src" / "penstock"

_FIRST_SEEDS: Final = 10
"""Seeds that the unmutated code plays before anything else."""

_HANG: Final = 120.0
"""Seconds without a word after which a run is cut."""

_MEMORY: Final = 4 * 2**30
"""Bytes that a run may take: a mutant may never stop asking for more."""

_KERNELS: Final = Path("matching", "kernels")
"""Compiled code is cached beside its source, so that this folder is used as it is."""


class Result(NamedTuple):
    """What came of one mutant."""

    mutant: Mutant
    caught: str
    """By what; "" for a survivor."""
    seconds: float


# Copies of the source


def copy_source(folder: Path) -> Path:
    """A copy of the package in a folder of its own, which goes on PYTHONPATH."""
    copy = folder / "penstock"
    without = shutil.ignore_patterns("__pycache__", _KERNELS.name)
    shutil.copytree(_SOURCE, copy, ignore=without)
    (copy / _KERNELS).symlink_to(_SOURCE / _KERNELS)
    return folder


def plant(mutant: Mutant, base: Path, folder: Path) -> Path:
    """The copy in `base` with a defect: one file, and links to everything else."""
    original, changed = base / "penstock", folder / "penstock"
    changed.mkdir(parents=True)
    file = Path(mutant.file)
    for part in (Path(), *reversed(file.parents[:-1])):
        (changed / part).mkdir(exist_ok=True)
        for entry in (original / part).iterdir():
            relative = entry.relative_to(original)
            if entry.name != "__pycache__" and relative != file and relative not in file.parents:
                (changed / relative).symlink_to(entry)
    (changed / file).write_text(mutant.apply((original / file).read_text()))
    return folder


# A run, in a process of its own


def _work(arguments: Sequence[str]) -> int:
    """Play seeds, or run a test, on the source in a folder: what the processes do that `_start` makes."""
    folder, what, *rest = arguments
    import penstock

    if not Path(penstock.__file__).is_relative_to(folder):
        raise SystemExit(f"{penstock.__file__} was imported, which is not in {folder}")
    if what == CHECK:
        _limit_memory()
        return _play(range(int(rest[0]), int(rest[1])))
    import pytest

    return pytest.main(["-q", "-x", "-p", "no:cacheprovider", *rest])


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # not on Windows
        return
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _play(seeds: range) -> int:
    """Say of each seed what is wrong with it, a line of JSON each; stop at the first."""
    from penstock.sim.play import play
    from penstock.sim.whole.draw import draw_whole

    for seed in seeds:
        try:
            wrong = play(draw_whole(seed)).wrong[:1]
        except Exception as error:
            places = traceback.extract_tb(error.__traceback__)
            wrong = [f"{type(error).__name__}: {error} in {places[-1].name}"]
        sys.stdout.write(json.dumps({"seed": seed, "wrong": wrong}) + "\n")
        sys.stdout.flush()
        if wrong:
            break
    return 0


def _start(folder: Path, what: str, *rest: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, __file__, "--work", str(folder), what, *rest],
        cwd=_ROOT,
        # Before the path of an editable installation.
        env={**os.environ, "PYTHONPATH": str(folder), "PYTHONHASHSEED": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _said(process: subprocess.Popen[str]) -> Iterator[str]:
    """What a process says, line by line; it is ended when it says nothing for too long."""
    assert process.stdout is not None
    while True:
        limit = threading.Timer(_HANG, process.kill)
        limit.start()
        line = process.stdout.readline()
        limit.cancel()
        if not line:
            process.wait()
            return
        yield line


def first_failure(folder: Path, seeds: range) -> tuple[int, str] | None:
    """The first of these seeds that fails, and what is wrong with it."""
    process = _start(folder, CHECK, str(seeds.start), str(seeds.stop))
    at, noise = seeds.start, ""
    for line in _said(process):
        try:
            told = json.loads(line)
        except json.JSONDecodeError:
            noise += line
            continue
        at = told["seed"] + 1
        if told["wrong"]:
            return told["seed"], told["wrong"][0]
    if process.returncode == 0:
        return None
    last = noise.strip().splitlines()[-1:]
    return at, f"hang or crash: {last[0] if last else f'no word for {_HANG:g} s'}"


def failing_test(folder: Path, test: str) -> str:
    """How a test fails, in a few words; "" if it passes."""
    process = _start(folder, "test", test)
    said = list(_said(process))
    if process.returncode == 0:
        return ""
    return "hang" if process.returncode < 0 else said[-1].strip() if said else "failed"


# All runs


class Runner:
    """Runs mutants on the copies in one folder."""

    def __init__(self, folder: Path, seeds: int) -> None:
        self._folder = folder
        self._seeds = seeds
        self._base = copy_source(folder / "unmutated")
        self._baseline: dict[int, bool] = {}
        self._lock = threading.Lock()

    def begin(self) -> list[int]:
        """Play the first seeds without any mutant; return those that fail."""
        few = range(min(_FIRST_SEEDS, self._seeds))
        if first_failure(self._base, few) is None:
            return []
        return [seed for seed in few if self._fails_anyway(seed)]

    def failing_tests(self, tests: Sequence[str]) -> str:
        """How the named tests fail without any mutant, if they do."""
        process = _start(self._base, "test", *tests)
        said = list(_said(process))
        return "" if process.returncode == 0 else "".join(said[-len(tests) - 5 :])

    def _fails_anyway(self, seed: int) -> bool:
        """Whether a seed fails without any mutant: each is played once, when it matters."""
        with self._lock:
            known = self._baseline.get(seed)
            if known is None:
                known = first_failure(self._base, range(seed, seed + 1)) is not None
                self._baseline[seed] = known
            return known

    def run(self, mutant: Mutant) -> Result:
        """Plant a mutant, and see what catches it."""
        began = time.monotonic()
        folder = plant(mutant, self._base, self._folder / mutant.name)
        caught = self._check(folder) if mutant.caught_by == CHECK else self._test(folder, mutant.caught_by)
        shutil.rmtree(folder)
        return Result(mutant, caught, time.monotonic() - began)

    def _check(self, folder: Path) -> str:
        at = 0
        while at < self._seeds:
            found = first_failure(folder, range(at, self._seeds))
            if found is None:
                return ""
            seed, wrong = found
            if not self._fails_anyway(seed):
                return f"seed {seed}: {wrong.partition(':')[0]}"
            at = seed + 1
        return ""

    def _test(self, folder: Path, test: str) -> str:
        return test.rpartition("::")[2] if failing_test(folder, test) else ""


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Plant deliberate defects, and see whether they are caught.")
    parser.add_argument(
        "--seeds", type=int, default=1000, help="seeds that may catch a mutant (default: 1000)"
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", help="run these mutants only")
    parser.add_argument("--jobs", type=int, default=2, help="mutants that run at the same time (default: 2)")
    parser.add_argument("--list", action="store_true", help="list the mutants, and run none")
    parser.add_argument("--work", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parsed = parser.parse_args(arguments)
    unknown = set(parsed.only or ()) - {mutant.name for mutant in MUTANTS}
    if unknown:
        parser.error(f"no mutant is called {', '.join(sorted(unknown))}; --list shows all")
    return parsed


def _run_all(mutants: Sequence[Mutant], runner: Runner, jobs: int, console: Console) -> list[Result]:
    """Run mutants, some at the same time, with a progress line on a terminal."""
    columns = SpinnerColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}")
    results: dict[str, Result] = {}
    with (
        ThreadPoolExecutor(jobs) as pool,
        Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress,
    ):
        task = progress.add_task("", total=len(mutants))
        for future in as_completed([pool.submit(runner.run, mutant) for mutant in mutants]):
            result = future.result()
            results[result.mutant.name] = result
            end = result.caught or "survives"
            progress.update(task, advance=1, description=escape(f"{result.mutant.name}: {end}"))
    return [results[mutant.name] for mutant in mutants]


def _report(results: Sequence[Result], console: Console) -> int:
    """Print what came of all; return the exit status."""
    table = Table("mutant", "what it breaks", "caught by")
    table.add_column("seconds", justify="right")
    for mutant, caught, seconds in results:
        table.add_row(mutant.name, mutant.breaks, escape(caught) or "[red]nothing", f"{seconds:.1f}")
    console.print(table)
    survivors = [result.mutant for result in results if not result.caught]
    console.print(f"{len(results) - len(survivors)} of {len(results)} caught")
    for mutant in survivors:
        why = SURVIVORS.get(mutant.name)
        console.print(f"survives: {mutant.name}" + (f", which is known: {why}" if why else ""), markup=False)
    for result in results:
        if result.caught and result.mutant.name in SURVIVORS:
            console.print(f"caught: {result.mutant.name}, so take it off the list of survivors", markup=False)
    return int(any(mutant.name not in SURVIVORS for mutant in survivors))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run mutants."""
    parsed = _parse(arguments)
    if parsed.work:
        return _work(parsed.work)
    console = Console(highlight=False)
    mutants = [mutant for mutant in MUTANTS if not parsed.only or mutant.name in parsed.only]
    if parsed.list:
        table = Table("mutant", "file", "what it breaks", "to be caught by")
        for mutant in mutants:
            table.add_row(mutant.name, mutant.file, mutant.breaks, mutant.caught_by)
        console.print(table)
        return 0
    with tempfile.TemporaryDirectory(prefix="penstock-mutants-") as folder:
        runner = Runner(Path(folder), parsed.seeds)
        failing = runner.begin()
        if failing:
            console.print(f"Without any mutant these seeds fail, and are ignored: {failing}")
        if 2 * len(failing) > _FIRST_SEEDS:
            console.print("So many fail that results would mean nothing: mend the code first.")
            return 2
        tests = sorted({mutant.caught_by for mutant in mutants} - {CHECK})
        wrong = runner.failing_tests(tests) if tests else ""
        if wrong:
            console.print("Without any mutant these tests fail, so that results would mean nothing:")
            console.print(wrong, markup=False)
            return 2
        return _report(_run_all(mutants, runner, parsed.jobs, console), console)


if __name__ == "__main__":
    sys.exit(main())
