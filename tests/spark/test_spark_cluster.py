"""A standalone cluster on loopback: a master and two workers, each a process of its own."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from fresh_installation import folder_of_kernels, installed_anew
from patience import HANGS
from penstock.matching.arrival import KERNELS
from penstock.spark.java import find_java


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _environment() -> dict[str, str]:
    # The JVMs are many and small; workers run the Python that runs the tests, with what it can import.
    return {
        **os.environ,
        "JAVA_HOME": str(find_java().home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }


def _start(log: Path, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    command = [str(program), f"org.apache.spark.deploy.{name}", *arguments]
    with log.open("wb") as out:
        return subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=_environment())


def _await(log: Path, text: str) -> None:
    end = time.monotonic() + HANGS
    while text not in log.read_text():
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.1)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    port = _free_port()
    address = f"spark://127.0.0.1:{port}"
    here = ("--host", "127.0.0.1", "--webui-port", "0")
    started = [_start(tmp_path / "master.log", "master.Master", *here, "--port", str(port))]
    try:
        _await(tmp_path / "master.log", "I have been elected leader")
        for number in (1, 2):
            log, folder = tmp_path / f"worker{number}.log", tmp_path / f"work{number}"
            size = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder))
            started.append(_start(log, "worker.Worker", *here, *size, address))
        for number in (1, 2):
            _await(tmp_path / f"worker{number}.log", "Successfully registered with master")
        yield address
    finally:
        # Workers first: a master that is gone would be looked for.
        for process in reversed(started):
            process.terminate()
            process.wait(HANGS)


def test_a_cluster_of_two_workers_gives_the_answers_of_one_process(cluster: str, tmp_path: Path) -> None:
    assert KERNELS.wait()
    # Executors run an installation of their own, in which nothing is compiled.
    path = os.pathsep.join([installed_anew(tmp_path / "executors")["PYTHONPATH"], *filter(None, sys.path)])
    script = Path(__file__).with_name("cluster_driver.py")
    ended = subprocess.run(
        [sys.executable, str(script), cluster, str(tmp_path / "tables")],
        capture_output=True,
        env=_environment() | {"PENSTOCK_EXECUTORS_PATH": path},
        timeout=HANGS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr.decode()[-4_000:]
    told = json.loads(ended.stdout.splitlines()[-1])
    assert told.pop("expected") > 100
    assert told.pop("executors") == 2
    assert told == dict.fromkeys(told, True)
    # The driver has sent its kernels, and nobody has compiled any.
    kernels = folder_of_kernels(tmp_path / "executors")
    assert len(list(kernels.glob("arrived-*/*.complete"))) == 1
    assert not list(kernels.glob("*.nbc"))


def test_where_workers_cannot_run_their_python_one_sentence_says_so(cluster: str, tmp_path: Path) -> None:
    script = Path(__file__).with_name("cluster_driver.py")
    ended = subprocess.run(
        [sys.executable, str(script), cluster, str(tmp_path / "tables")],
        capture_output=True,
        env=_environment()
        | {"PYSPARK_PYTHON": "/nowhere/python", "PENSTOCK_ROUTE_ONLY": "1", "PENSTOCK_EXECUTORS_PATH": ""},
        timeout=HANGS,
        check=False,
    )
    assert ended.returncode == 1
    last = ended.stderr.decode().strip().rpartition("\n")[2]
    assert last.startswith(
        "penstock.errors.InputError: workers cannot run /nowhere/python (PYSPARK_PYTHON): set "
    )
