"""The benchmark of starting: what it installs is what a wheel has, and answers have to agree."""

import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.bench.start import command, trials
from penstock.bench.start.installation import Installation, installed
from penstock.bench.start.trials import Figure
from penstock.cli.main import main
from penstock.errors import InputError


def test_an_installation_has_nothing_compiled_and_is_where_programs_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "elsewhere"))
    fresh = Installation(tmp_path)
    assert not list(tmp_path.rglob("*.nbi"))
    program = (
        "import os, penstock; from penstock.matching.kernels import signatures;"
        "print(penstock.__file__, len(signatures.missing()) == len(signatures.recorded()))"
    )
    where, is_cold = fresh.run("-c", program).decode().split()
    assert Path(where).is_relative_to(tmp_path)
    assert is_cold == "True"
    with pytest.raises(InputError, match="that was to be timed failed: no"):
        fresh.run("-c", "import sys; sys.exit('no')")


def test_a_wheel_is_unpacked(tmp_path: Path) -> None:
    wheel = tmp_path / "penstock-0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.writestr("penstock/__init__.py", "print('from the wheel')\n")
    with installed(wheel) as fresh:
        assert fresh.run("-c", "import penstock").decode() == "from the wheel\n"
        folder = fresh.folder
    assert not folder.exists()
    wheel.write_text("no archive")
    with pytest.raises(InputError, match="not a wheel that can be read"), installed(wheel):
        pass


def test_processes_that_compile_are_ended_with_the_installation(tmp_path: Path) -> None:
    fresh = Installation(tmp_path)
    sleeping = subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1, start_new_session=True)
    lock = tmp_path / "site" / "penstock" / "penstock-kernels.lock"
    lock.write_text(f"{sleeping.pid}\n")
    fresh.end_compiling()
    sleeping.communicate()
    assert sleeping.returncode == -9
    # One that has ended is none.
    fresh.end_compiling()


class Fake:
    """An installation in which programs do nothing."""

    def __init__(self) -> None:
        self.has_kernels = False

    def run(self, *program: str) -> bytes:
        assert program == ("-m", "penstock", "warm")
        self.has_kernels = True
        return b""


@pytest.mark.parametrize("differs", [False, True])
def test_every_trial_is_cold_and_then_warm_and_answers_are_compared(
    differs: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = []

    @contextmanager
    def fake(_wheel: object, _extras: object) -> Iterator[Fake]:
        yield Fake()

    def trial(installation: Fake) -> Figure:
        seen.append(installation.has_kernels)
        answer = b"2" if differs and installation.has_kernels else b"1"
        return Figure(first=0.5 if installation.has_kernels else 4.0, all=5.0, answer=answer)

    monkeypatch.setattr(command, "installed", fake)
    monkeypatch.setattr(trials, "tiny", trial)
    monkeypatch.setattr(trials, "broker", trial)
    status = main(["bench", "start", "--only", "tiny", "--only", "broker", "--rules", "3", "--events", "3"])
    told = capsys.readouterr()
    if differs:
        assert status == 2
        assert "tiny: the answers without kernels and with them differ" in told.err
        return
    # A bar that is missed is a status.
    assert (status, seen) == (1, [False, False, True, True])
    assert "tiny: the first answer takes more than 3 s cold (missed)." in told.out
    assert main(["bench", "start", "--only", "tiny", "--rules", "3", "--events", "3", "--json"]) == 1
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row == {
        "name": "tiny",
        "met": False,
        "cold_first_s": 4.0,
        "cold_all_s": 5.0,
        "warm_first_s": 0.5,
        "warm_all_s": 5.0,
    }


def test_a_large_job_has_no_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    @contextmanager
    def fake(_wheel: object, _extras: object) -> Iterator[Fake]:
        yield Fake()

    monkeypatch.setattr(command, "installed", fake)
    figure = Figure(first=2.0, all=50.0, answer=b"")
    monkeypatch.setattr(trials, "tiny", lambda _installation: figure)
    monkeypatch.setattr(trials, "large", lambda _rules, _events: lambda _installation: figure)
    assert main(["bench", "start", "--only", "tiny", "--only", "large"]) == 0
    told = capsys.readouterr().out
    assert "tiny: the first answer takes at most 3 s cold (met)." in told
    assert "large: the first" not in told


def test_pip_installs_a_wheel_into_a_virtual_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = tmp_path / "penstock-0-py3-none-any.whl"
    facts = {
        "METADATA": "Metadata-Version: 2.1\nName: penstock\nVersion: 0\nProvides-Extra: server\n",
        "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "RECORD": "",
    }
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.writestr("penstock/__init__.py", "import sys; print(sys.prefix, __file__)\n")
        for name, text in facts.items():
            packed.writestr(f"penstock-0.dist-info/{name}", text)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with installed(wheel, ["server"]) as fresh:
        prefix, file = fresh.run("-c", "import penstock").decode().split()
        assert Path(prefix) == fresh.folder / "venv"
        assert Path(file).is_relative_to(prefix)
    assert main(["bench", "start", "--only", "tiny", "--venv"]) == 2
    assert "--venv installs a wheel: give --wheel FILE" in capsys.readouterr().err


def test_a_wheel_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "start", "--only", "tiny", "--wheel", "nowhere.whl"]) == 2
    assert "nowhere.whl: no such file" in capsys.readouterr().err
