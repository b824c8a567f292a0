"""docs/PIPELINE.md: its blocks of Python are one program, and print what is shown after them."""

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

PAGE = Path(__file__).parent.parent.parent / "docs" / "PIPELINE.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?", re.DOTALL | re.MULTILINE)


def test_the_program_of_the_page_prints_what_is_shown(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, Any] = {}
    for code, shown in BLOCK.findall(PAGE.read_text()):
        exec(compile(code, PAGE.name, "exec"), names)  # noqa: S102
        printed = capsys.readouterr().out
        assert _plain(printed) == _plain(shown), code


def _plain(text: str) -> str:
    """Without what stands for other things, and the space at the end of lines."""
    return "\n".join(line.rstrip() for line in text.strip().splitlines())
