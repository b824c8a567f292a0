"""docs/PIPELINE.md: its blocks of Python are one program, and print what is shown after them."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from terminals import is_live, terminals, with_free_ports

PAGE = Path(__file__).parent.parent.parent / "docs" / "PIPELINE.md"
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?", re.DOTALL | re.MULTILINE)


def test_the_program_of_the_page_prints_what_is_shown(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], tmp_path: Path, warm_kernels: None
) -> None:
    names: dict[str, Any] = {}
    with terminals(tmp_path) as at:
        for kind, code, shown in BLOCK.findall(with_free_ports(PAGE.read_text())):
            if kind == "console":
                if is_live(code):
                    at.play(code)
                continue
            exec(compile(code, PAGE.name, "exec"), names)  # noqa: S102
            assert _plain(capsys.readouterr().out) == _plain(shown), code
    shutil.rmtree(names["home"])
    shutil.rmtree(Path(names["folder"]).parent)


def _plain(text: str) -> str:
    """Without the space at the end of lines."""
    return "\n".join(line.rstrip() for line in text.strip().splitlines())
