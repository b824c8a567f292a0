"""Where kernels are kept, who compiles them, and what happens until they are there."""

import json
import os
import shutil
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fresh_installation import (
    await_compiler,
    compilers,
    end_compiling,
    folder_of_kernels,
    installed_anew,
)
from patience import HANGS
from penstock.errors import InputError
from penstock.matching import arrival, compiling, locking
from penstock.matching.arrival import KERNELS, Arrival
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


def test_while_another_process_compiles_none_is_started_and_its_kernels_are_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    there = [False]
    monkeypatch.setattr(caching, "folder", lambda: tmp_path)
    monkeypatch.setattr(signatures, "are_complete", lambda: there[0])
    monkeypatch.setattr(signatures, "is_noted", lambda: there[0])
    monkeypatch.setattr(signatures, "load_all", lambda _is_wanted: None)
    monkeypatch.setattr(subprocess, "Popen", lambda *_a, **_k: pytest.fail("a process is started"))
    lock = locking.take(tmp_path)
    with pytest.raises(BlockingIOError):
        locking.take(tmp_path)
    kernels = Arrival()
    assert kernels.is_interpreting()
    assert kernels.is_compiling
    # Who stops wanting them is let go.
    assert not kernels.wait(lambda: False)
    there[0] = True
    lock.close()
    assert kernels.wait()
    assert not kernels.is_compiling


def test_where_the_one_that_compiled_has_died_the_next_takes_its_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    there = [False]
    monkeypatch.setattr(caching, "folder", lambda: tmp_path)
    monkeypatch.setattr(signatures, "are_complete", lambda: there[0])
    monkeypatch.setattr(signatures, "is_noted", lambda: there[0])
    monkeypatch.setattr(signatures, "load_all", lambda _is_wanted: None)
    started = []
    real = subprocess.Popen

    def start(_command: list[str], pass_fds: tuple[int, ...], **_more: object) -> "subprocess.Popen[bytes]":
        there[0] = True
        started.append(pass_fds)
        return real([sys.executable, "-c", ""])

    lock = locking.take(tmp_path)
    kernels = Arrival()
    kernels.begin()
    monkeypatch.setattr(subprocess, "Popen", start)
    lock.close()
    assert kernels.wait()
    assert len(started) == 1


def test_a_lock_that_is_handed_over_is_held_by_whoever_was_given_it(tmp_path: Path) -> None:
    program = (
        "import sys; from penstock.matching import locking\n"
        "with locking.taken_over(int(sys.argv[1])): print('taken', flush=True); sys.stdin.read()"
    )
    with locking.take(tmp_path) as lock:
        other = subprocess.Popen(
            [sys.executable, "-c", program, str(lock.fileno())],
            pass_fds=(lock.fileno(),),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert other.stdout is not None
        assert other.stdout.readline() == b"taken\n"
    with pytest.raises(BlockingIOError):
        locking.take(tmp_path)
    assert (tmp_path / locking.LOCK).read_text() == f"{other.pid}\n"
    other.communicate()
    locking.take(tmp_path).close()


def test_who_compiles_in_the_foreground_says_that_another_does_and_waits(tmp_path: Path) -> None:
    lock, said = locking.take(tmp_path), []

    def say(text: str) -> None:
        said.append(text)
        lock.close()

    with compiling._alone(tmp_path, say):
        assert said == ["another process is compiling them"]


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the compiled kernels, the only one that is looked at."""
    KERNELS.wait()
    assert signatures.are_complete()
    found = signatures.noted()
    assert found is not None
    home, names = found
    for name in names:
        shutil.copy(home / name, tmp_path / name)
    monkeypatch.setattr(signatures, "places", lambda: (tmp_path,))
    return tmp_path


@pytest.mark.parametrize("what", ["deleted", "cut short", "of other sources", "no note"])
def test_the_note_that_kernels_are_complete_is_checked_against_their_files(kept: Path, what: str) -> None:
    assert signatures.is_noted()
    code, index = (min(kept.glob(f"*.{kind}")) for kind in ("nbc", "nbi"))
    if what == "deleted":
        code.unlink()
    elif what == "cut short":
        code.write_bytes(code.read_bytes()[:-1])
    elif what == "of other sources":
        # The index has the digest of all sources; its size stays.
        index.write_bytes(index.read_bytes()[:-1] + b"x")
    else:
        (note,) = kept.glob("*.complete")
        note.write_bytes(b"")
    assert not signatures.is_noted()


def test_kernels_that_lie_in_several_folders_are_brought_into_one_before_they_are_noted(
    tmp_path: Path,
) -> None:
    environment = installed_anew(tmp_path)
    home, own = folder_of_kernels(tmp_path), tmp_path / "own"
    found = signatures.noted() if signatures.are_complete() else None
    assert found is not None
    for name in found[1]:
        shutil.copy(found[0] / name, home / name)
    for note in home.glob("*.complete"):
        note.unlink()
    program = (
        "from penstock.matching.kernels import signatures as s, caching as c;"
        "assert not s.is_noted() and not s.missing();"
        "own = c.KernelCache; s._kernel(s.recorded()[0][0]).compile(s._types_of(s.recorded()[0]));"
        "print(s.are_complete(), s.is_noted(), len({file.parent for file in s._files()}))"
    )
    # One kernel is in the folder that is written to, the others beside the sources.
    own_folder = own / caching._NAME
    own_folder.mkdir(parents=True)
    for file in home.glob("match.match-*"):
        file.rename(own_folder / file.name)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment | {"NUMBA_CACHE_DIR": str(own)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["True", "True", "1"]


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
        await_compiler(tmp_path)
    finally:
        end_compiling(tmp_path)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are looked at in /proc")
def test_however_many_processes_start_one_compiles_and_none_is_left_waiting(tmp_path: Path) -> None:
    environment = installed_anew(tmp_path)
    try:
        started = [
            subprocess.Popen(
                [sys.executable, "-c", COLD], env=environment, cwd=tmp_path, stdout=subprocess.DEVNULL
            )
            for _ in range(5)
        ]
        assert [process.wait(HANGS) for process in started] == [0] * 5
        await_compiler(tmp_path)
        (lock,) = tmp_path.rglob(locking.LOCK)
        assert compilers(tmp_path) == [int(lock.read_text())]
    finally:
        end_compiling(tmp_path)


def test_a_broker_that_waits_for_kernels_heeds_a_signal(tmp_path: Path) -> None:
    environment = installed_anew(tmp_path) | {"PENSTOCK_KERNELS": "wait"}
    listening = ("--name", "b", "--listen", "penstock://127.0.0.1:0", "--gateway", "none")
    broker = subprocess.Popen(
        [sys.executable, "-m", "penstock", "broker", *listening, "--allow-anonymous"],
        env=environment,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
    )
    try:
        await_compiler(tmp_path)
        broker.send_signal(signal.SIGINT)
        out, _ = broker.communicate(timeout=HANGS)
        assert (broker.returncode, out) == (0, b"")
        # It has not waited for what takes far longer.
        assert compilers(tmp_path)
    finally:
        broker.kill()
        end_compiling(tmp_path)


BROKER = (
    "-m",
    "penstock",
    "broker",
    "--name",
    "b",
    "--listen",
    "penstock://127.0.0.1:0",
    "--allow-anonymous",
)
MATCHER = "from penstock import Matcher; m = Matcher({'a': 'x > 1'});"
NOTED = {
    "broker": (BROKER, arrival.INTERPRETING),
    "explain": (("-c", f"{MATCHER} m.explain({{'x': 2}})"), arrival.WAITING),
    "save": (("-c", f"{MATCHER} m.save('saved')"), arrival.WAITING),
    "a large batch": (
        (
            "-c",
            f"{MATCHER} from penstock.matching import plain; m._kept.work._left = 99; "
            "m.match_batch([{'x': 2}] * 20)",
        ),
        arrival.WAITING,
    ),
}


@pytest.mark.parametrize("what", NOTED)
@pytest.mark.parametrize("on_terminal", [True, False])
def test_who_waits_or_is_answered_by_the_interpreter_is_told_so_in_one_line(
    what: str, on_terminal: bool, tmp_path: Path
) -> None:
    program, note = NOTED[what]
    environment = installed_anew(tmp_path)
    if not on_terminal:
        if what == "broker":
            program = (*program, "--log-level", "info")
        else:
            told = "import logging; logging.basicConfig(level='INFO', format='%(name)s: note: %(message)s');"
            program = ("-c", f"{told} {program[1]}")
    reading, writing = os.openpty() if on_terminal else os.pipe()
    if on_terminal:
        # Narrower than the line.
        termios.tcsetwinsize(writing, (24, 40))
    # As if another process compiled, and never came to its end.
    with locking.take(folder_of_kernels(tmp_path)):
        process = subprocess.Popen(
            [sys.executable, *program],
            env=environment,
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=writing,
            stdin=subprocess.DEVNULL,
        )
        os.close(writing)
        try:
            with os.fdopen(reading, "rb", buffering=0) as err:
                lines: list[bytes] = []
                while not lines or note.encode() not in lines[-1]:
                    lines.append(err.readline())
                    assert lines[-1]
        finally:
            process.kill()
            process.wait()
    if on_terminal:
        assert lines == [f"penstock: note: {note}\r\n".encode()]
    else:
        assert b"penstock" in lines[-1]
