"""Where kernels are kept, who compiles them, and what happens until they are there."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from patience import HANGS
from penstock.errors import InputError
from penstock.matching import arrival
from penstock.matching.arrival import Arrival
from penstock.matching.kernels import caching, signatures


@pytest.fixture
def _looked_for_anew() -> Iterator[None]:
    """What is found here about folders is forgotten."""
    caching.folder.cache_clear()
    caching.places.cache_clear()
    yield
    caching.folder.cache_clear()
    caching.places.cache_clear()


@pytest.fixture
def _nothing_lasts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, _looked_for_anew: None) -> None:
    """Neither the installation nor a home can be written to."""
    monkeypatch.setattr(caching, "_lasting", lambda: [Path("/proc/nowhere")])
    monkeypatch.setattr(caching, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


@pytest.mark.usefixtures("_nothing_lasts")
def test_kernels_are_kept_in_a_temporary_folder_of_the_user_alone(tmp_path: Path) -> None:
    folder = caching.folder()
    assert folder is not None
    own = tmp_path / f"penstock-kernels-{os.getuid()}"
    assert folder.parent == own
    assert own.stat().st_mode & 0o777 == 0o700
    caching.folder.cache_clear()
    assert caching.folder() == folder
    assert folder in caching.places()


@pytest.mark.usefixtures("_nothing_lasts")
@pytest.mark.parametrize("what", ["a link", "a dangling link", "a file", "open to all"])
def test_a_folder_that_others_may_have_made_is_not_trusted(tmp_path: Path, what: str) -> None:
    place, other = tmp_path / f"penstock-kernels-{os.getuid()}", tmp_path / "other"
    if what == "a file":
        place.write_text("")
    elif what == "open to all":
        place.mkdir()
        place.chmod(0o777)
    else:
        place.symlink_to(other)
        if what == "a link":
            other.mkdir()
    folder = caching.folder()
    assert folder is not None
    assert folder.parent not in (place, other)


@pytest.mark.usefixtures("_looked_for_anew")
def test_a_user_without_a_home_or_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda _: (_ for _ in ()).throw(KeyError))
    assert caching._lasting() == [Path(caching.__file__).parent / "__pycache__"]
    monkeypatch.setattr(caching, "_lasting", list)
    monkeypatch.setattr(caching, "_own_temporary_folder", lambda: None)
    assert caching.folder() is None
    # Nobody can compile for others then: whoever needs a kernel compiles it.
    monkeypatch.setattr(signatures, "are_complete", lambda: False)
    alone = Arrival()
    assert alone.is_interpreting()
    assert not alone.wait()
    assert not alone.is_compiling


def test_a_variable_that_says_nothing_known_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_KERNELS", "never")
    with pytest.raises(InputError, match="PENSTOCK_KERNELS='never': say 'auto' or 'wait'"):
        arrival._always_wait()


@pytest.mark.parametrize("ends_well", [True, False])
def test_when_the_process_that_compiles_ends_those_who_wait_are_let_go(
    monkeypatch: pytest.MonkeyPatch, ends_well: bool
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def start() -> "subprocess.Popen[bytes]":
        program = f"import sys; sys.stdin.read(); sys.exit({0 if ends_well else 9})"
        started.append(subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE))
        return started[-1]

    there = [False]
    monkeypatch.setattr(arrival, "_start", start)
    monkeypatch.setattr(signatures, "are_complete", lambda: there[0])
    monkeypatch.setattr(signatures, "load_all", lambda _is_wanted: None)
    kernels = Arrival()
    waiting = [threading.Thread(target=kernels.wait) for _ in range(3)]
    for thread in waiting:
        thread.start()
    assert kernels.is_interpreting()
    assert kernels.is_compiling
    assert len(started) == 1
    there[0] = ends_well
    assert started[0].stdin is not None
    started[0].stdin.close()
    for thread in waiting:
        thread.join(HANGS)
    assert kernels.wait() is ends_well
    assert kernels.is_interpreting() is not ends_well
    assert not kernels.is_compiling
    assert len(started) == 1


def test_a_forked_process_looks_on_by_itself() -> None:
    kernels = Arrival()
    kernels.are_here = True
    kernels._forget()
    assert kernels.wait()
    assert not kernels.is_interpreting()


COLD = """
import json, sys
from penstock import Matcher
from penstock.matching.arrival import KERNELS
matcher = Matcher({"a": "x > 1 and s like '%b%'", "b": "x = 1"})
found = [matcher.match({"x": 2, "s": "abc"}), list(matcher.match_batch([{"x": 1}, {"x": 3, "s": "b"}]))]
found.append(list(matcher.match_json(b'{"x": 1}\\n')))
print(json.dumps([found, KERNELS.are_here, KERNELS.is_compiling, type(matcher._kept).__name__]))
sys.stdout.flush()
"""


def installed_anew(folder: Path) -> dict[str, str]:
    """An environment in which Penstock has just been installed, and nothing is compiled."""
    home = Path(penstock.__file__).parent
    shutil.copytree(home, folder / "site" / "penstock", ignore=shutil.ignore_patterns("__pycache__"))
    kept = {key: value for key, value in os.environ.items() if key not in ("NUMBA_CACHE_DIR",)}
    return {**kept, "PYTHONPATH": str(folder / "site"), "HOME": str(folder), "PENSTOCK_KERNELS": "auto"}


def end_compiling(folder: Path) -> None:
    """End the processes that compile in the background of a test."""
    for lock in folder.rglob("penstock-kernels.lock"):
        if lock.read_text():
            os.killpg(int(lock.read_text()), 9)


def test_a_first_process_answers_while_kernels_are_compiled_elsewhere(tmp_path: Path) -> None:
    environment = installed_anew(tmp_path)
    try:
        done = subprocess.run(
            [sys.executable, "-c", COLD],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=HANGS,
            check=False,
        )
        assert done.stderr == ""
        found, are_here, is_compiling, kind = json.loads(done.stdout)
        assert found == [["a"], [["b"], ["a"]], [["b"]]]
        assert (are_here, is_compiling, kind) == (False, True, "PlainStore")
        # It goes on after the one that started it, and says who it is as soon as it has begun.
        patience = time.monotonic() + HANGS
        while not any(lock.read_text() for lock in tmp_path.rglob("penstock-kernels.lock")):
            assert time.monotonic() < patience
            time.sleep(0.05)
    finally:
        end_compiling(tmp_path)
