"""Kernels that travel from the driver to workers: whole or not at all, and only to the same processor."""

import subprocess
import sys
from pathlib import Path

import pytest

from fresh_installation import folder_of_kernels, installed_anew
from penstock.matching.arrival import KERNELS
from penstock.matching.kernels import signatures
from penstock.spark import kernels

ARRIVE = """
import sys
from pathlib import Path
from penstock.matching.arrival import KERNELS
from penstock.matching.kernels import caching, signatures
from penstock.spark import kernels

if len(sys.argv) > 2:
    caching.processor = lambda: ("another",)
KERNELS.bring = lambda: kernels.lay_down(Path(sys.argv[1]) / kernels.file_name())
here = KERNELS.look()
print(here, len(signatures.missing()), signatures.is_noted())
if here:
    from penstock import Matcher
    matcher = Matcher({"a": "x > 1 and s like '%b%'"})
    print(matcher.match({"x": 2, "s": "abc"}), type(matcher._kept).__name__)
"""


@pytest.fixture
def sent(tmp_path: Path) -> Path:
    """A folder with the kernels of this installation, packed."""
    assert KERNELS.wait()
    assert signatures.are_complete()
    folder = tmp_path / "sent"
    folder.mkdir()
    file = kernels.pack(folder)
    assert file is not None
    assert list(folder.iterdir()) == [file]
    return folder


def arrive(home: Path, *arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", ARRIVE, *arguments],
        env=installed_anew(home),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_another_installation_has_all_kernels_that_were_sent_and_compiles_none(
    sent: Path, tmp_path: Path
) -> None:
    home = tmp_path / "other"
    home.mkdir()
    assert arrive(home, str(sent)) == ["True 0 True", "['a'] Store"]
    (arrived,) = folder_of_kernels(home).glob("arrived-*")
    code = min(arrived.glob("*.nbc"))
    assert not list(folder_of_kernels(home).glob("*.nbc"))
    # What is damaged is laid down again.
    code.unlink()
    assert arrive(home, str(sent))[0] == "True 0 True"
    assert code.is_file()
    code.unlink()
    assert arrive(home, str(tmp_path / "nowhere"))[0] == "False 1 False"


def test_another_processor_takes_no_kernels_that_were_sent(sent: Path, tmp_path: Path) -> None:
    home = tmp_path / "other"
    home.mkdir()
    first, *_ = arrive(home, str(sent), "another processor")
    assert first == f"False {len(signatures.recorded())} False"
    assert not list(folder_of_kernels(home).glob("arrived-*"))


def test_a_file_that_is_cut_short_is_left_alone(
    sent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file,) = sent.iterdir()
    file.write_bytes(file.read_bytes()[:100_000])
    from pyspark import SparkFiles

    from penstock.matching.kernels import caching

    monkeypatch.setattr(SparkFiles, "getRootDirectory", lambda: str(sent))
    monkeypatch.setattr(signatures, "is_noted", lambda: False)
    monkeypatch.setattr(caching, "arrived", lambda: tmp_path / "arrived")
    kernels._bring()
    assert not (tmp_path / "arrived").exists()
    assert [entry.name for entry in tmp_path.iterdir()] == ["sent"]


class Context:
    """A context of a cluster."""

    def __init__(self, folder: Path) -> None:
        self.applicationId = "app-of-kernels"
        self._temp_dir = str(folder)
        self.files: list[str] = []

    def addFile(self, path: str) -> None:  # noqa: N802 - as Spark calls it
        self.files.append(path)


def test_kernels_are_sent_once_in_an_application_and_only_if_they_are_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = Context(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(kernels, "KERNELS", type("Cold", (), {"look": staticmethod(lambda: False)}))
        kernels.send(context)
    assert context.files == []
    assert KERNELS.wait()
    for _ in range(2):
        kernels.send(context)
    assert context.files == [str(tmp_path / kernels.file_name())]
    kernels._sent.discard(context.applicationId)
