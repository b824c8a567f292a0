"""`penstock match` in chunks on several threads: the same answers in order, and little of it at once."""

import csv
import io
import json
import random
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from penstock import parse
from penstock.cli import chunks
from penstock.cli.chunks import Pace, json_chunks
from penstock.cli.events import EventOptions
from penstock.cli.main import main
from penstock.cli.pool import cores, in_flight_max, in_order
from penstock.matching.reference import ReferenceMatcher

Capture = pytest.CaptureFixture[bytes]

pytestmark = pytest.mark.usefixtures("warm_kernels")
Row = dict[str, Any]

CONDITIONS = [
    "price > {n}",
    "price between {n} and {m}",
    "place = '{w}'",
    "place in ('{w}', '{v}') and price < {m}",
    "place like '{p}%'",
    "price is null",
    "place is not null and price >= {m}",
    "size.height > {n} or place = '{w}'",
    "id = {n}",
]
WORDS = ["JFK", "LGA", "EWR", 'ß"\\\t', "JFKX", "日本"]


def random_rules(rng: random.Random, count: int) -> list[tuple[Any, str]]:
    keys: list[Any] = [rng.choice([n, -n, f"rule-{n}", f'"{n}\n', "Ä" * (n % 5 + 1)]) for n in range(count)]
    keys[-1] = keys[0]
    return [
        (
            key,
            rng.choice(CONDITIONS).format(
                n=rng.randrange(50),
                m=rng.randrange(50, 100),
                w=rng.choice(WORDS),
                v=rng.choice(WORDS),
                p=rng.choice(WORDS[:3]),
            ),
        )
        for key in keys
    ]


def random_events(rng: random.Random, count: int) -> list[Row]:
    """Events of flat columns, each of one family."""
    events: list[Row] = []
    for _ in range(count):
        row: Row = {"always": 1}
        if rng.random() < 0.7:
            row["price"] = rng.randrange(100)
        if rng.random() < 0.7:
            row["place"] = rng.choice(WORDS)
        if rng.random() < 0.5:
            row["id"] = rng.randrange(-(2**63), 2**63) if rng.random() < 0.3 else rng.randrange(60)
        events.append(row)
    return events


def expected(rules: list[tuple[Any, str]], events: list[Row]) -> list[Row]:
    matcher = ReferenceMatcher((key, parse(text)) for key, text in rules)
    found = []
    for row, event in enumerate(events):
        flat = {name: value for name, value in event.items() if value is not None}
        ids = matcher.match(flat)
        if ids:
            found.append({"event": flat.get("id", row), "ids": ids})
    return found


def write_rules(path: Path, rules: list[tuple[Any, str]]) -> None:
    path.write_text("".join(json.dumps({"id": key, "filter": text}) + "\n" for key, text in rules))


def write_events(path: Path, events: list[Row]) -> None:
    columns = ["always", "price", "place", "id"]
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(event, ensure_ascii=False) + "\n" for event in events))
    elif path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(events)
    else:
        table = pa.table({name: [event.get(name) for event in events] for name in columns})
        papq.write_table(table, path, row_group_size=100)


def lines_of(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "BYTES", 300)
    monkeypatch.setattr(chunks, "ROWS", 9)


def match(folder: Path, events: str, *more: str, rules: str = "s.jsonl") -> int:
    paths = ["--subscriptions", str(folder / rules), "--events", str(folder / events)]
    return main(["match", *paths, "--output", str(folder / "out.jsonl"), *more])


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("jobs", ["1", "3"])
@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize("more", [(), ("--family", "place=string"), ("--unsupported", "skip")])
def test_answers_are_those_of_the_reference_matcher_in_order(
    kind: str, jobs: str, more: tuple[str, ...], tmp_path: Path
) -> None:
    for seed in range(5):
        rng = random.Random(seed)
        rules, events = random_rules(rng, 40), random_events(rng, 400)
        write_rules(tmp_path / "s.jsonl", rules)
        write_events(tmp_path / f"e.{kind}", events)
        assert match(tmp_path, f"e.{kind}", "--jobs", jobs, *more) == 0
        assert lines_of(tmp_path / "out.jsonl") == expected(rules, events)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("jobs", ["1", "3"])
def test_json_lines_may_be_of_any_shape(jobs: str, tmp_path: Path) -> None:
    names: list[Any] = ['q"\\/', "".join(map(chr, range(32))), "\x7f\u2028ß", 1.5, -0.0, 1e300, True, False]
    names += [2**63 - 1, -(2**63), 0, {"nested": 1}, ""]
    rules = [(key, "size.height > 10 or price < 50") for key in (3, -3, "b", "a", 'a"', "\n")]
    events: list[Row] = []
    lines = []
    for at in range(300):
        event: Row = {"price": at % 100, "size": {"height": at % 20}, "tags": [at], "none": None}
        if at % 3:
            event["id"] = names[at % len(names)]
        events.append(event)
        lines.append(
            "  \r\n" * (at % 7 == 0) + json.dumps(event, ensure_ascii=at % 2 == 0) + "\n" * (at < 299)
        )
    (tmp_path / "e.jsonl").write_bytes("".join(lines).encode("utf-8-sig"))
    write_rules(tmp_path / "s.jsonl", rules)
    assert match(tmp_path, "e.jsonl", "--jobs", jobs) == 0
    flat = [
        {
            "price": event["price"],
            "size.height": event["size"]["height"],
            "id": None if isinstance(event.get("id"), dict) else event.get("id"),
        }
        for event in events
    ]
    assert lines_of(tmp_path / "out.jsonl") == expected(rules, flat)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("jobs", ["1", "3"])
@pytest.mark.parametrize(
    ("kind", "more", "message"),
    [
        ("jsonl", (), "e.jsonl:397: 'price': 1.844674e+19 does not fit"),
        ("jsonl", ("--family", "place=string"), "e.jsonl:397: 'price': 1.844674e+19 does not fit"),
        (
            "csv",
            ("--family", "price=number"),
            "e.csv:398: row 396: 'price': 'bad' cannot be read as a number",
        ),
        ("parquet", ("--family", "price=number"), "e.parquet: row 396: 'price': 'bad' cannot be read"),
    ],
)
def test_a_mistake_in_a_late_chunk_is_told_with_its_place_and_leaves_no_output(
    kind: str, more: tuple[str, ...], message: str, jobs: str, tmp_path: Path, capsysbinary: Capture
) -> None:
    write_rules(tmp_path / "s.jsonl", [("a", "price > 1")])
    events: list[Row] = [{"always": 1, "price": 5} for _ in range(400)]
    events[396]["price"] = 2**64 if kind == "jsonl" else "bad"
    if kind == "jsonl":
        events[398]["price"] = None
    if kind == "parquet":
        events = [{**event, "price": str(event["price"])} for event in events]
    write_events(tmp_path / f"e.{kind}", events)
    before = {path.name for path in tmp_path.iterdir()}
    assert match(tmp_path, f"e.{kind}", "--jobs", jobs, *more) == 2
    error = capsysbinary.readouterr().err.decode()
    assert error.startswith(f"penstock: {tmp_path}/{message}")
    assert {path.name for path in tmp_path.iterdir()} == before


@pytest.mark.usefixtures("small")
def test_lines_before_a_mistake_are_answered_when_line_buffered(
    tmp_path: Path, capsysbinary: Capture
) -> None:
    write_rules(tmp_path / "s.jsonl", [("a", "price > 1")])
    rows = [b'{"price": 2}\n'] * 100 + [b'{"price": {"x": 18446744073709551616}}\n', b"nope\n"]
    (tmp_path / "e.jsonl").write_bytes(b"".join(rows))
    for more in ([], ["--family", "price=number"]):
        paths = ["--subscriptions", str(tmp_path / "s.jsonl"), "--events", str(tmp_path / "e.jsonl")]
        assert main(["match", *paths, "--line-buffered", *more]) == 2
        out, err = capsysbinary.readouterr()
        assert [json.loads(line)["event"] for line in out.splitlines()] == list(range(100))
        assert b"e.jsonl:101: 'price.x': 1.844674e+19 does not fit" in err


def test_in_json_lines_what_no_filter_names_is_only_checked_to_be_json(
    tmp_path: Path, capsysbinary: Capture
) -> None:
    write_rules(tmp_path / "s.jsonl", [("a", "x.y > 1"), ("b", "z is null")])
    for line, error in [
        (b'{"x": {"y": 2}, "other": [1], "more": null}', None),
        (b'{"x": {"other": [1], "y": 2}}', None),
        (b'{"w": {"x": {"y": {"list": 18446744073709551616}}}, "x.y": 2}', None),
        (b'{"x": {"y": 2}, "other": [1,}', "not a JSON object"),
        (b'{"x": {"y": {"list": 18446744073709551616}}}', "'x.y.list': 1.844674e+19 does not fit"),
        (b'{"x": {"y": 2, "z": null}, "z": null, "id": null}', None),
        (b'{"x.y": {"list": 18446744073709551616}}', "'x.y.list': 1.844674e+19 does not fit"),
        (b'{"x": {"y" : \t{"a": 1, "b": [18446744073709551616]}}}', "'x.y.b[]': 1.844674e+19 does not fit"),
        (b'{"\\u0078": {"y": {"list": 18446744073709551616}}}', "'x.y.list': 1.844674e+19 does not fit"),
        (b'{"x": {"\\u0079": {"list": 18446744073709551616}}}', "'x.y.list': 1.844674e+19 does not fit"),
        (b'{"z": {"y": 1}, "z.y": 2}', "'z.y' is there twice"),
        (b'{"x": {"y": 2}, "id": 18446744073709551616}', "'id': 1.844674e+19 does not fit"),
    ]:
        (tmp_path / "e.jsonl").write_bytes(b'{"x.y": 5}\n' + line)
        status = match(tmp_path, "e.jsonl")
        err = capsysbinary.readouterr().err.decode()
        if error is None:
            assert (status, err) == (0, ""), line
            assert lines_of(tmp_path / "out.jsonl")[1] == {"event": 1, "ids": ["a", "b"]}
        else:
            assert status == 2, line
            assert f"e.jsonl:2: {error}" in err


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_an_event_of_which_nothing_is_left_matches_only_what_asks_for_nothing(
    kind: str, tmp_path: Path
) -> None:
    write_rules(tmp_path / "s.jsonl", [("a", "x is null"), ("b", "x is not null or y > 5")])
    events: list[Row] = [
        {"z": None},
        {"z": [1]},
        {"y": 1},
        {"x": [1], "y": 2},
        {"x": [2], "z": None},
        {"x": [1]},
    ]
    if kind == "jsonl":
        (tmp_path / "e.jsonl").write_text("\n\n".join(map(json.dumps, events)))
    else:
        columns = {name: [event.get(name) for event in events] for name in "xy"}
        papq.write_table(pa.table(columns), tmp_path / "e.parquet")
    assert match(tmp_path, f"e.{kind}", "--unsupported", "skip") == 0
    assert [line["event"] for line in lines_of(tmp_path / "out.jsonl")] == list(range(6))


def test_a_parquet_column_of_bytes_is_refused_where_a_rule_names_it(
    tmp_path: Path, capsysbinary: Capture
) -> None:
    write_rules(tmp_path / "s.jsonl", [("a", "x > 1"), ("b", "odd.in = 1")])
    papq.write_table(pa.table({"x": [2], "odd": [{"in": b"1"}]}), tmp_path / "e.parquet")
    assert match(tmp_path, "e.parquet") == 2
    assert b"the column 'odd.in'" in capsysbinary.readouterr().err
    write_rules(tmp_path / "s.jsonl", [("a", "x > 1")])
    assert match(tmp_path, "e.parquet") == 0
    assert lines_of(tmp_path / "out.jsonl") == [{"event": 0, "ids": ["a"]}]
    none = pa.array([None], pa.binary())
    papq.write_table(pa.table({"x": [2], "odd": none, "nothing": pa.nulls(1)}), tmp_path / "e.parquet")
    assert match(tmp_path, "e.parquet") == 0
    assert lines_of(tmp_path / "out.jsonl") == [{"event": 0, "ids": ["a"]}]


def test_the_names_of_events_in_parquet_may_be_of_any_family(tmp_path: Path) -> None:
    write_rules(tmp_path / "s.jsonl", [("a", "x = 1")])
    times = pa.array([0, 1], pa.timestamp("ns", "UTC"))
    for column, names in [
        (times, ["1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000000001Z"]),
        (pa.array([0.5, float("nan")]), [0.5, None]),
        (pa.array([True, None]), [True, 1]),
        (pa.array(["a", "a"]).dictionary_encode(), ["a", "a"]),
    ]:
        papq.write_table(pa.table({"x": [1, 1], "id": column}), tmp_path / "e.parquet")
        assert match(tmp_path, "e.parquet") == 0
        assert [line["event"] for line in lines_of(tmp_path / "out.jsonl")] == names


def test_warnings_count_all_events_whatever_the_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: Capture
) -> None:
    monkeypatch.setattr(chunks, "BYTES", 1000)
    write_rules(tmp_path / "s.jsonl", [("a", "x > 1")])
    for numbers, said in (
        (0, b"it is a string (10,000 values)"),
        (1, b"10,000 of 10,001 events have a string in 'x', such as 'word'; rule a (x > 1) compares it"),
    ):
        rows = ['{"x": "word"}\n'] * 10_000 + ['{"x": 2}\n'] * numbers
        (tmp_path / "e.jsonl").write_text("".join(rows))
        assert match(tmp_path, "e.jsonl", "--jobs", "3") == 0
        assert said in capsysbinary.readouterr().err


def test_standard_input_is_read_in_chunks_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: None
) -> None:
    write_rules(tmp_path / "s.jsonl", [("a", "x >= 0")])
    content = "".join(f'{{"x": {n}}}\n' for n in range(1000)).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    paths = ["--subscriptions", str(tmp_path / "s.jsonl"), "--events", "-"]
    assert main(["match", *paths, "--output", str(tmp_path / "out.jsonl"), "--jobs", "3"]) == 0
    assert [line["event"] for line in lines_of(tmp_path / "out.jsonl")] == list(range(1000))


def test_a_line_may_be_longer_than_a_chunk_but_not_than_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: None, capsysbinary: Capture
) -> None:
    write_rules(tmp_path / "s.jsonl", [("a", "x >= 0")])
    long = b'{"x": 1, "text": "' + b"t" * 5_000 + b'"}\n'
    (tmp_path / "e.jsonl").write_bytes(b'{"x": 0}\n' + long + b'{"x": 0}\n' + long.rstrip())
    assert match(tmp_path, "e.jsonl") == 0
    assert len(lines_of(tmp_path / "out.jsonl")) == 4
    monkeypatch.setattr(chunks, "LINE_LENGTH_MAX", len(long))
    assert match(tmp_path, "e.jsonl") == 0
    monkeypatch.setattr(chunks, "LINE_LENGTH_MAX", len(long) - 1)
    assert match(tmp_path, "e.jsonl") == 2
    assert b"e.jsonl:2: a line is longer than" in capsysbinary.readouterr().err
    # What is wrong before it is told first, although it is found later.
    (tmp_path / "e.jsonl").write_bytes(b"nope\n" + long)
    assert match(tmp_path, "e.jsonl", "--jobs", "3") == 2
    assert b"e.jsonl:1: not a JSON object" in capsysbinary.readouterr().err


def test_chunks_are_whole_lines_with_their_numbers(tmp_path: Path, small: None) -> None:
    content = b"\xef\xbb\xbf \n" + b"".join(b'{"x": %d}\n%s' % (n, b"\n" * (n % 3 == 0)) for n in range(500))
    (tmp_path / "e.jsonl").write_bytes(content)
    found = list(json_chunks(str(tmp_path / "e.jsonl"), EventOptions(), lambda _step: None, Pace()))
    assert len(found) > 10
    assert b"".join(chunk.data for chunk in found) == content.removeprefix(b"\xef\xbb\xbf")
    lines = rows = 0
    for chunk in found:
        assert (chunk.line, chunk.row) == (lines + 1, rows)
        lines += chunk.data.count(b"\n")
        rows += chunk.data.count(b"{")


def test_chunks_shrink_where_they_lead_to_much_output() -> None:
    pace = Pace()
    assert (pace.bytes, pace.rows) == (chunks.BYTES, chunks.ROWS)
    pace.saw(2**20)
    assert pace.rows == chunks.ROWS
    pace.saw(2**26)
    assert (pace.bytes, pace.rows) == (chunks.BYTES // 2, chunks.ROWS // 2)
    for _ in range(100):
        pace.saw(2**40)
    assert pace.rows >= 1


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_results_come_in_order_and_few_items_are_taken_ahead(jobs: int) -> None:
    taken = given = most = 0

    def items() -> Iterator[int]:
        nonlocal taken, most
        for item in range(100):
            taken += 1
            most = max(most, taken - given)
            yield item

    waiting = threading.Event()
    for result in in_order(lambda item: (waiting.wait(0.001 * (item % 3)), item)[1], items(), jobs):
        assert result == given
        given += 1
    assert given == 100
    assert most <= in_flight_max(jobs) <= jobs + 2


@pytest.mark.parametrize("jobs", [1, 3])
def test_errors_come_in_order_too(jobs: int) -> None:
    def items() -> Iterator[int]:
        yield from range(20)
        raise ValueError("items")

    def work(item: int) -> int:
        if item == 19:
            raise KeyError("work")
        return item

    results = in_order(work, items(), jobs)
    assert [next(results) for _ in range(19)] == list(range(19))
    with pytest.raises(KeyError):
        next(results)
    results = in_order(abs, items(), jobs)
    assert [next(results) for _ in range(20)] == list(range(20))
    with pytest.raises(ValueError, match="items"):
        next(results)


def test_there_is_at_least_one_core() -> None:
    assert cores() >= 1
