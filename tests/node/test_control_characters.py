"""What strangers write is shown, not obeyed: no control character of theirs reaches a log or a terminal."""

import json
import logging

import pytest

from penstock.cli.json_lines import json_line
from penstock.cli.logs import OneLine
from penstock.cli.main import main
from penstock.errors import printable
from penstock.node.logs import LOG

NASTY = "a\x1b[2J\x07\x7f\x9b31m\r\nb\u202e"
CONTROL = {chr(n) for n in (*range(0x20), *range(0x7F, 0xA0), 0x202E)}


def test_control_characters_are_escaped_and_all_else_is_left() -> None:
    assert printable(NASTY) == "a\\x1b[2J\\x07\\x7f\\x9b31m\\r\\nb\\u202e"
    assert printable("plain, naïve, 日本") == "plain, naïve, 日本"
    assert printable("\udc80") == "\\udc80"


def test_what_a_broker_logs_has_no_control_characters_whatever_the_handler(
    caplog: pytest.LogCaptureFixture,
) -> None:
    LOG.warning("%s is cut off: %s, %d", NASTY, NASTY, 3)
    (record,) = caplog.records
    assert not CONTROL & set(record.getMessage())
    assert record.getMessage().endswith(", 3")


def test_a_line_of_the_log_is_one_line_also_with_a_traceback() -> None:
    try:
        raise ValueError(NASTY)
    except ValueError as error:
        record = logging.LogRecord("n", logging.ERROR, "f", 1, "%s", (NASTY,), (type(error), error, None))
    assert not CONTROL & set(OneLine().format(record))


def test_events_of_strangers_are_printed_without_control_characters() -> None:
    line = json_line({NASTY: NASTY.encode().decode(), "n": 1}).decode()
    assert not (CONTROL - {"\n", "\u202e"}) & set(line)
    assert line.count("\n") == 1
    assert json.loads(line) == {NASTY: NASTY, "n": 1}


def test_an_error_of_the_program_has_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sub", "x > 1", "--url", "penstock://\x1b[31mhost"]) == 2
    assert main(["parse", "x \x1b[31m 1"]) == 2
    assert not (CONTROL - {"\n"}) & set(capsys.readouterr().err)
