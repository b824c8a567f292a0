"""What a pipeline reads from files: nothing in the wrong column, nothing lost without a word."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Observation, SparkSession

from penstock.errors import InputError
from penstock.spark.pipeline.config import Pipeline, Subscriptions, parse
from penstock.spark.pipeline.run import Run, Stop
from penstock.spark.pipeline.sessions import in_keys, said_by_spark
from penstock.spark.pipeline.sources import events_of, watched
from penstock.spark.pipeline.subscriptions import rows_of, table_for_stream
from penstock.spark.subscriptions import check_subscriptions
from penstock.spark.tables import Table

RULES = '{"id": "a", "filter": "x = 1"}\n{"id": "b", "filter": "x = 2"}\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules.jsonl").write_text(RULES)
    return tmp_path


def pipeline(source: str, above: str = "", more: str = "", sinks: str = 'kind = "console"') -> Pipeline:
    text = f'{above}\n[source]\n{source}\n[subscriptions]\npath = "rules.jsonl"\n[[sinks]]\n{sinks}\n{more}'
    return parse(text, "p.toml", str(Path.cwd()))


def read(spark: SparkSession, file: str, content: str, more: str = "") -> tuple[list[dict[str, Any]], int]:
    """The events of a file, and how many of its lines were malformed."""
    Path(file).write_text(content)
    told = Observation()
    events = watched(events_of(spark, pipeline(f'kind = "files"\npath = "{file}"\n{more}')), told)
    rows = [row.asDict() for row in events.collect()]
    assert told.get["n"] == len(rows)
    return rows, told.get.get("malformed", -1)


def test_malformed_lines_are_counted_and_add_no_column(spark: SparkSession, folder: Path) -> None:
    lines = '{"x": 1}\nnope\n{"x": "y"}\n'
    typed = [{"x": 1}, {"x": None}, {"x": None}]
    assert read(spark, "a.json", lines, 'schema = "x int"') == (typed, 2)
    assert read(spark, "a.json", lines, 'schema = "x int"\noptions = { mode = "permissive" }') == (typed, 2)
    assert read(spark, "a.json", lines) == ([{"x": "1"}, {"x": None}, {"x": "y"}], 1)
    assert read(spark, "a.csv", "x,y\n1,2\n3\n", 'schema = "x int, y int"') == (
        [{"x": 1, "y": 2}, {"x": 3, "y": None}],
        1,
    )
    kept, malformed = read(spark, "a.json", lines, 'schema = "x int"\noptions = { mode = "DROPMALFORMED" }')
    assert (kept, malformed) == ([{"x": 1}], -1)


def test_a_field_that_is_called_as_spark_calls_malformed_lines_is_an_attribute(
    spark: SparkSession, folder: Path
) -> None:
    rows, malformed = read(spark, "a.json", '{"x": 1, "_corrupt_record": "mine"}\nnope\n')
    assert rows == [{"_corrupt_record": "mine", "x": 1}, {"_corrupt_record": None, "x": None}]
    assert malformed == 1
    # Who names it in a schema gets what Spark puts there.
    rows, malformed = read(spark, "a.json", '{"x": 1}\nnope\n', 'schema = "x int, _corrupt_record string"')
    assert rows == [{"x": 1, "_corrupt_record": None}, {"x": None, "_corrupt_record": "nope"}]
    assert malformed == -1


def test_columns_of_csv_files_are_those_of_their_first_line(spark: SparkSession, folder: Path) -> None:
    schema = 'schema = "flight string, origin string"'
    with pytest.raises(Exception, match="CSV header") as caught:
        read(spark, "a.csv", "origin,flight\nJFK,ZZ1\n", schema)
    assert "the names in its first line are not those of source.schema" in in_keys(
        said_by_spark(caught.value)
    )
    with pytest.raises(Exception, match="CSV header"):
        read(spark, "a.csv", "ZZ1,JFK\n", schema)
    found, _ = read(spark, "a.csv", "ZZ1,JFK\n", f"{schema}\noptions = {{ header = false }}")
    assert found == [{"flight": "ZZ1", "origin": "JFK"}]


def test_where_nothing_can_be_read_that_is_said(spark: SparkSession, folder: Path) -> None:
    with pytest.raises(InputError, match=r"source\.path: nothing there could be read as JSON"):
        read(spark, "a.json", "nope\n")


def test_a_line_of_a_csv_file_that_is_not_whole_is_no_subscription(spark: SparkSession, folder: Path) -> None:
    Path("r.csv").write_text('id,filter\nok,x > 1\nquoted,"x in (1, 2)"\nrich,x > 1,000\nx > 1\n')
    rows = rows_of(spark, Subscriptions(path=str(folder / "r.csv")))
    bad = {row.id: row.filter for row in check_subscriptions(rows).collect()}
    assert bad == {
        "rich": "this line has not as many fields as the first: rich,x > 1,000",
        "x > 1": "this line has not as many fields as the first: x > 1",
    }


def test_the_table_of_a_stream_has_the_parts_of_a_layout_by_hand(spark: SparkSession, folder: Path) -> None:
    source = 'kind = "folder"\npath = "in"\nformat = "json"'
    above = 'checkpoint = "state"'
    plain = table_for_stream(spark, pipeline(source, above))
    assert len(Table.open(plain).blocks) == 1
    cut = pipeline(source, above, '[route]\nlayout = "2x1"')
    assert len(Table.open(table_for_stream(spark, cut)).blocks) == 2
    assert Table.open(table_for_stream(spark, cut)).version == 2


@pytest.mark.parametrize("sinks", ['kind = "console"\nrows = 1', 'kind = "console"\nrows = 1\n[[sinks]]\n{}'])
def test_a_console_shows_some_rows_and_all_are_counted(
    spark: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str], sinks: str
) -> None:
    Path("in").mkdir()
    for at in range(6):
        Path(f"in/{at}.json").write_text('{"x": 1}\n' * 5 + "nope\n")
    other = 'kind = "jsonl"\npath = "out"'
    made = pipeline('kind = "files"\npath = "in"\nformat = "json"', sinks=sinks.format(other))
    summary = Run(spark, made, "p", Stop(), lambda _text: None).wait()
    assert (summary.ended, summary.error) == ("finished", None)
    assert (summary.events, summary.routed, summary.matches, summary.malformed) == (36, 30, 30, 6)


def test_what_is_asked_to_stop_before_it_begins_begins_nothing(spark: SparkSession, folder: Path) -> None:
    Path("in").mkdir()
    made = pipeline('kind = "folder"\npath = "in"\nformat = "json"\nschema = "x int"', 'checkpoint = "state"')
    stop = Stop()

    def tell(text: str) -> None:
        if text == "compiling subscriptions":
            stop.ask()

    summary = Run(spark, made, "p", stop, tell).wait()
    assert summary.ended == "interrupted"
    assert not Path("state/offsets").exists()
