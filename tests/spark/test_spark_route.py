"""Routing a DataFrame equals the matcher on the same rows: every output, layout and way to share a table."""

import itertools
import random
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.types import ArrayType, StringType

from penstock.errors import (
    DisagreementError,
    EventError,
    InputError,
    PenstockError,
    UnsupportedValueError,
)
from penstock.matching.matcher import Matcher
from penstock.spark import Table, explain, profile, route, save_table, skipped

RULES = "id string, filter string"
LAYOUTS = (None, "1x3", "3x1", "2x2")


def random_filter(chance: random.Random) -> str:
    """A filter over the columns of `events`."""
    parts = [
        f"x {chance.choice(('<', '>=', '=', '!='))} {chance.choice((-1, 0, 0.5, 3, 2**53 + 1))}",
        f"f > {chance.random():.2f}",
        f"name {chance.choice(('=', '!=', '<'))} '{chance.choice(('', 'a', 'é', 'zebra'))}'",
        f"name like '{chance.choice(('%a', '%b%', 'a_%', '%'))}'",
        f"at >= timestamp '2013-01-0{chance.randint(1, 9)}T00:00:00Z'",
        f"`order.z` = {chance.choice(('true', 'false'))}",
        "`order.z` is null",
    ]
    few = chance.sample(parts, chance.randint(1, 3))
    return chance.choice((" and ", " or ")).join(few)


@pytest.fixture(scope="module")
def rules(spark: SparkSession) -> DataFrame:
    chance = random.Random(1)
    rows = [(chance.randint(1, 60), random_filter(chance)) for _ in range(80)]
    owned = [(key, text, None if key % 3 == 0 else f"of {key % 7}") for key, text in rows]
    return spark.createDataFrame(owned, "id int, filter string, subscriber string").repartition(3).cache()


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> DataFrame:
    chance = random.Random(2)

    def maybe(value: object) -> object:
        return value if chance.random() < 0.8 else None

    rows = [
        (
            maybe(chance.choice((-1, 0, 3, 2**53 + 1, -(2**63)))),
            maybe(chance.choice((0.25, -0.0, float("nan")))),
            maybe(chance.choice(("", "a", "ab", "é", "zebra", "cab"))),
            maybe(f"2013-01-{chance.randint(1, 20):02}"),
            maybe((maybe(chance.random() < 0.5),)),
        )
        for _ in range(300)
    ]
    rows += [(None, None, None, None, None)] * 3
    made = spark.createDataFrame(
        rows, "x long, f double, name string, at string, `order` struct<z: boolean>"
    ).repartition(3)
    return made.withColumn("f", F.col("f").cast("float")).withColumn("at", F.to_timestamp("at")).cache()


@pytest.fixture(scope="module")
def table(rules: DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Table:
    return save_table(rules, tmp_path_factory.mktemp("tables") / "rules", blocks=4)


@pytest.fixture(scope="module")
def wanted(events: DataFrame, rules: DataFrame) -> list[tuple[Any, list[str], list[str | None]]]:
    """Each event, its ids, and their subscribers."""
    owners = {str(row.id): row.subscriber for row in rules.collect()}
    matcher = Matcher([(str(row.id), row.filter) for row in rules.collect()])
    found = list(matcher.match_batch(events.toArrow(), unsupported="skip"))
    pairs = zip(events.collect(), found, strict=True)
    return [(tuple(row), list(map(str, ids)), [owners[str(key)] for key in ids]) for row, ids in pairs]


def plain(rows: Any) -> list[str]:
    """Rows in an order of their own, and to be compared: NaN is the same as NaN."""
    return sorted(str(tuple(row)) for row in rows)


CASES = list(itertools.product(LAYOUTS, ("ids", "rows"), ("drop", "keep")))


@pytest.mark.parametrize(("layout", "output", "unmatched"), CASES)
def test_it_equals_the_matcher(
    events: DataFrame, table: Table, wanted: Any, layout: str | None, output: Any, unmatched: Any
) -> None:
    share: Any = ("folder", "broadcast")[CASES.index((layout, output, unmatched)) % 3 == 0]
    routed = route(events, table, output=output, unmatched=unmatched, layout=layout, share=share)
    kept = [case for case in wanted if case[1] or unmatched == "keep"]
    if output == "ids":
        assert routed.columns == [*events.columns, "ids"]
        assert routed.schema["ids"].dataType == ArrayType(StringType(), False)
        assert not routed.schema["ids"].nullable
        assert plain(routed.collect()) == plain((*row, ids) for row, ids, _ in kept)
    else:
        assert routed.columns == [*events.columns, "id", "subscriber"]
        assert plain(routed.collect()) == plain(
            (*row, key, owner)
            for row, ids, owners in kept
            for key, owner in zip(ids or [None], owners or [None], strict=True)
        )


def test_events_get_the_sorted_ids_of_what_matches_them(spark: SparkSession) -> None:
    events = spark.createDataFrame(
        [(1, "JFK", 75), (2, "LGA", 5), (3, None, 30)], "n long, origin string, delay int"
    )
    rules = [("b", "delay > 60"), ("a", "origin = 'JFK'"), ("c", "origin = 'BOS'")]
    routed = route(events, spark.createDataFrame(rules, RULES))
    assert [tuple(row) for row in routed.collect()] == [(1, "JFK", 75, ["a", "b"])]


def test_streams_get_the_same_answers(spark: SparkSession, tmp_path: Path, table: Table) -> None:
    static = spark.range(300).select((F.col("id") % 5 - 1).alias("x"), F.lit("ab").alias("name"))
    static.repartition(3).write.parquet(str(tmp_path / "in"))
    stream = (
        spark.readStream.schema(static.schema).option("maxFilesPerTrigger", 2).parquet(str(tmp_path / "in"))
    )
    # Numbers of rows, by which answers are brought together, are not to be had in streams.
    for name, options in {"plain": {}, "cut": {"layout": "2x2", "output": "rows", "column": "key"}}.items():
        routed = route(stream, table, **options)  # type: ignore[arg-type]
        writer = routed.writeStream.format("memory").queryName(f"routed_{name}").outputMode("append")
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(60)
        same = route(static, table, **options)  # type: ignore[arg-type]
        found = spark.table(f"routed_{name}").collect()
        assert found
        assert plain(found) == plain(same.collect())
    with pytest.raises(InputError, match="layout 2x2: in a stream, the ids of an event cannot be brought"):
        route(stream, table, layout="2x2")


@pytest.mark.parametrize("layout", [None, "1x3", "2x2"])
def test_any_name_of_a_column(spark: SparkSession, tmp_path: Path, layout: str | None) -> None:
    """Spark takes a dot for a field and `a` for `A` where it looks one up; some may be names of ours."""
    names = ["a.b", "A.B", "back`tick", "__penstock_row", "__penstock_0", "s"]
    rows = [(1, 2, 3, 4, 5, (6,)), (1, 0, 0, 0, 0, None)]
    given = spark.createDataFrame(rows, "a int, b int, c int, d int, e int, f struct<`Z.z`: int>").toDF(
        *names
    )
    texts = ["`a.b` = 1", '"A.B" = 2', "__penstock_row = 4", "__penstock_0 = 5", '"s.Z.z" = 6', "c = 3"]
    rules = spark.createDataFrame([(f"r{at}", text) for at, text in enumerate(texts)], RULES)
    found = route(given, rules, layout=layout)
    assert found.columns == [*names, "ids"]
    ids = {row[1]: row[-1] for row in found.collect()}
    assert ids == {2: ["r0", "r1", "r2", "r3", "r4"], 0: ["r0"]}


def test_a_table_without_rows_and_events_without_values_have_all_columns(spark: SparkSession) -> None:
    nobody = spark.createDataFrame([], f"{RULES}, subscriber string")
    void = spark.createDataFrame([(None, None), (None, None)], "x int, y void")
    rules = spark.createDataFrame([("a", "x = 1 or x is null", "p")], f"{RULES}, subscriber string")
    for table, layout, found in (
        (nobody, None, (None, None)),
        (nobody, "2x1", (None, None)),
        (rules, None, ("a", "p")),
    ):
        routed = route(void, table, output="rows", unmatched="keep", layout=layout)
        assert [tuple(row) for row in routed.collect()] == [(None, None, *found)] * 2


@pytest.mark.parametrize(("large", "zone"), [("true", "America/New_York"), ("false", "Asia/Kolkata")])
def test_settings_of_the_session_change_no_answer(spark: SparkSession, large: str, zone: str) -> None:
    settings = {
        "spark.sql.execution.arrow.useLargeVarTypes": large,
        "spark.sql.session.timeZone": zone,
        "spark.sql.caseSensitive": large,
        "spark.sql.adaptive.enabled": large,
    }
    old = {name: str(spark.conf.get(name)) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        given = spark.sql(
            "select timestamp'2013-01-01 00:00:01Z' t, timestamp_ntz'2013-01-01 00:00:01' u,"
            " date'2013-01-02' d, cast('é' as varchar(3)) v, interval '1' day i, array(1) a,"
            " parse_json('1') j"
        )
        after = "> timestamp '2013-01-01T00:00:00Z'"
        texts = [f"t {after}", f"u {after}", f"d {after}", "v = 'é'", "t > timestamp '2013-01-01T00:00:01Z'"]
        rules = spark.createDataFrame([(f"r{at}", text) for at, text in enumerate(texts)], RULES)
        for layout in (None, "2x2"):
            [row] = route(given, rules, layout=layout, unsupported="skip").collect()
            # A time without a zone is one of UTC.
            assert row.ids == ["r0", "r1", "r2", "r3"]
    finally:
        for name, value in old.items():
            spark.conf.set(name, value)


def test_building_a_job_runs_nothing(spark: SparkSession, table: Table) -> None:
    """Asking events for their partitions runs all that comes before a shuffle, were it asked for."""
    given = spark.range(100).groupBy((F.col("id") % 7).alias("x")).count().orderBy("x")
    tracker = spark.sparkContext.statusTracker()
    before = len(tracker.getJobIdsForGroup(None))
    routed = route(given, table)
    assert len(tracker.getJobIdsForGroup(None)) == before
    assert routed.count() > 0


def test_what_explain_tells(spark: SparkSession, table: Table) -> None:
    events = spark.range(9, numPartitions=3).select(F.col("id").alias("x"), F.lit("a").alias("name"))
    told = explain(events, table).splitlines()
    assert told[0] == (
        f"table {table.path} (version 1): {table.ids} ids, {table.filters} filters, 4 blocks, "
        f"{table.nbytes:,} bytes"
    )
    assert told[1] == "attributes that filters name: x (number), name (string)"
    assert [line.split("'")[1] for line in told[2:5]] == ["at", "f", "order.z"]
    assert told[2].startswith("the events have no column 'at', which ")
    assert told[5].startswith("layout 1x3 (subscription parts x event parts): ")
    assert "layout 2x2 (subscription parts x event parts): it was asked for" in explain(
        events, table, layout="2x2"
    )


def test_explain_tells_of_columns_that_filters_take_for_something_else(spark: SparkSession) -> None:
    events = spark.createDataFrame([("7", 1, "a")], "delay string, n long, s string")
    given = [("a", "delay > 60"), ("b", "delay between 1 and 2 or n = 1"), ("c", "s is not null")]
    told = explain(events, spark.createDataFrame(given, "id string, filter string")).splitlines()
    assert told[1] == "attributes that filters name: delay (string), n (number), s (string)"
    assert told[2] == (
        "2 rules (a, b) compare 'delay' with a number, but in the events it is string: no event can match"
    )
    assert told[3].startswith("layout ")
    given.append(("d", "delay like '6%'"))
    told = explain(events, spark.createDataFrame(given, "id string, filter string")).splitlines()
    assert told[2].startswith("2 rules (a, b) compare 'delay'")


def test_rules_that_cannot_match_are_a_warning_and_with_strict_an_error(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    events = spark.createDataFrame([("7", 1.0, b"x")], "delay string, amount double, blob binary")
    given = [(str(n), f"amuont > {n}") for n in range(20)] + [("b", "delay > 1"), ("c", "blob = 'x'")]
    rules = spark.createDataFrame(given, "id string, filter string")
    wanted = [
        "the events have no column 'amuont', which 20 rules (0, 1, 10, …) name; did you mean 'amount'?",
        "1 rule (c) names 'blob', which in the events is binary: no rule can match a value of this type",
        "1 rule (b) compares 'delay' with a number, but in the events it is string: no event can match",
    ]
    for blocks in ("1x1", "3x1"):
        caplog.clear()
        route(events, rules, unsupported="skip", layout=blocks)
        said = [record.getMessage() for record in caplog.records if record.name == "penstock.spark"]
        # Which ids are shown depends on the blocks.
        assert [re.sub(r"\(.*?\)", "", line) for line in said] == [
            re.sub(r"\(.*?\)", "", line) for line in wanted
        ]
    with pytest.raises(DisagreementError, match="did you mean 'amount'"):
        route(events, rules, unsupported="skip", strict=True)
    caplog.clear()
    route(events, spark.createDataFrame([("a", "amount > 1 or delay = 'x'")], rules.schema), strict=True,
          unsupported="skip")  # fmt: skip
    assert not [record for record in caplog.records if record.name == "penstock.spark"]


@pytest.mark.parametrize("blocks", [1, 3])
def test_values_that_tasks_leave_out_are_counted_and_the_first_is_logged(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture, blocks: int
) -> None:
    given = [(str(n), f"d > timestamp '20{n:02}-01-01' or n = {n}") for n in range(10, 30)]
    rules = save_table(spark.createDataFrame(given, RULES), tmp_path / "rules", blocks=blocks)
    far = spark.range(5, numPartitions=2).selectExpr("id n", "date'9999-12-31' d", "id % 2 = 0 other")
    routed = route(far, rules, unsupported="skip", unmatched="keep", layout="1x2")
    assert skipped(routed) == {}
    assert [row.ids for row in routed.collect()] == [[]] * 5
    assert skipped(routed) == {"d": 5}
    said = [record.getMessage() for record in caplog.records if "left out" in record.getMessage()]
    assert len(said) == 1
    assert "'d' left out so far: " in said[0]
    assert "a time lies outside 1677-09-21" in said[0]
    for uncounted in (far, route(far, rules), routed.limit(1)):
        with pytest.raises(InputError, match="give what route gave"):
            skipped(uncounted)


def test_columns_that_no_rule_names_may_be_of_any_type(spark: SparkSession) -> None:
    events = spark.sql(
        "select 1 x, x'00' blob, map('a', 1) odd, named_struct('raw', x'00', 'y', 7) inner, "
        "timestamp'9999-12-31' far"
    )
    rules = spark.createDataFrame([("a", "x = 1 and inner.y = 7")], RULES)
    for layout in (None, "2x1"):
        (row,) = route(events, rules, layout=layout).collect()
        assert row.ids == ["a"]
        assert row.blob == b"\0"
    assert "attributes that filters name: x (number), inner.y (number)" in explain(events, rules)
    for name, kind in (("blob", "binary"), ("odd", "map<string,int>"), ("inner.raw", "binary")):
        named = spark.createDataFrame([("a", f"{name} = 'x' or x = 1")], RULES)
        with pytest.raises(UnsupportedValueError, match=f"the column '{name}' of type {kind} has no family"):
            route(events, named)


def test_text_is_a_time_where_the_rules_of_all_blocks_say_so(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    events = spark.createDataFrame(
        [("2024-05-05", 1), ("2023-05-05T00:00:00Z", 2), ("soon", 3)], "at string, n int"
    )
    times = [(f"t{n}", f"at > timestamp '{2023 + n}-06-01'") for n in range(2)]
    only = save_table(spark.createDataFrame(times, RULES), tmp_path / "only", blocks=2)
    for layout in (None, "2x1"):
        for share in ("folder", "broadcast"):
            found = route(events, only, layout=layout, share=share, strict=True).collect()
            assert [(row.n, row.ids) for row in found] == [(1, ["t0"])]
    # A rule of another block compares it with a string: then it is text for all of them.
    both = save_table(
        spark.createDataFrame([*times, ("word", "at = 'soon'")], RULES), tmp_path / "both", blocks=3
    )
    assert len(both.blocks) == 3
    for layout in (None, "3x1"):
        caplog.clear()
        assert [(row.n, row.ids) for row in route(events, both, layout=layout).collect()] == [(3, ["word"])]
        (said,) = [record.getMessage() for record in caplog.records if record.name == "penstock.spark"]
        assert "2 rules (t0, t1) compare 'at' with a time, and rules compare it with a string, too" in said
    one = spark.createDataFrame([("a", "at > timestamp '2024-01-01' or at = 'soon'")], RULES)
    with pytest.raises(DisagreementError, match="rules compare 'at' with a time and with a string"):
        route(events, one, strict=True)


def test_a_value_that_only_the_run_can_find_is_told_with_its_event(spark: SparkSession) -> None:
    rules = spark.createDataFrame([("a", "d > timestamp '2013-01-01' or t = 'a'")], RULES)
    far = spark.sql("select 7 n, date'9999-12-31' d")
    with pytest.raises(PythonException) as caught:
        route(far, rules).collect()
    told = str(caught.value)
    assert "row 0, column 'd': a time lies outside 1677-09-21" in told
    assert "(unsupported='skip' leaves it out); rows are those of a task's batch, this one is n=7, d=" in told
    # Not how the engine came to it.
    assert "arrow_events.py" not in told
    assert route(far, rules, unsupported="skip", unmatched="keep").first().ids == []  # type: ignore[union-attr]
    for column, why in (
        ("repeat('x', 1048577)", "STRING_LENGTH_MAX"),
        ("cast(x'ff' as string)", "is not UTF-8"),
    ):
        with pytest.raises(PythonException, match=f"row 0, column 't': .*{why}"):
            route(spark.sql(f"select {column} t"), rules).collect()


def test_decimals_are_exact_numbers(spark: SparkSession, tmp_path: Path) -> None:
    rules = tmp_path / "rules"
    Matcher(
        {
            "same": "x = 19.99",
            "exact": "x = 12345678901234567.89",
            "above": "x > 12345678901234567.885",
            "double": "x = 1.2345678901234568e16",
        }
    ).save(rules)
    events = spark.sql(
        "select cast(v as decimal(38,18)) x from values ('19.99'), ('12345678901234567.89'), (null) as t(v)"
    )
    found = {str(row.x): sorted(row.ids) for row in route(events, rules).collect()}
    assert found == {
        "19.990000000000000000": ["same"],
        "12345678901234567.890000000000000000": ["above", "exact"],
    }


def test_events_that_cannot_be_are_refused_when_the_job_is_built(spark: SparkSession, table: Table) -> None:
    refused: dict[str, tuple[type[PenstockError], str]] = {
        "array(x'00') x": (UnsupportedValueError, "'x' of type array<binary> has no family"),
        "map('a', 1) x": (UnsupportedValueError, "'x' of type map<string,int> has no family"),
        "make_interval(1) x": (UnsupportedValueError, "'x' of type interval cannot be handed to Python"),
        "1 x, 2 x": (EventError, "the column 'x' is there twice"),
        "1 x, 2 Ids": (InputError, "the events have a column 'ids' already: give column= another name"),
        "null x": (InputError, "the events have no column that could be an attribute"),
    }
    for columns, (kind, why) in refused.items():
        for call in (route, explain):
            with pytest.raises(kind, match=why):
                call(spark.sql(f"select {columns}"), table)
    given = spark.sql("select 1 x, 2 id, 3 subscriber")
    with pytest.raises(InputError, match="a column 'id' already"):
        route(given, table, output="rows")
    with pytest.raises(InputError, match="a column 'subscriber' already: rename it"):
        route(given, table, output="rows", column="key")
    with pytest.raises(InputError, match="column 'subscriber' already"):
        route(given.select("x"), table, output="rows", column="subscriber")
    with pytest.raises(UnsupportedValueError, match="'i' of type interval cannot be handed to Python"):
        route(spark.sql("select 1 x, make_interval(1) i"), table, unsupported="skip")


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"output": "id"}, "output is one of 'ids', 'rows', not 'id'"),
    ({"unmatched": True}, "unmatched is one of 'drop', 'keep', not True"),
    ({"unsupported": "drop"}, "unsupported is one of"),
    ({"share": "ship"}, "share is one of"),
    ({"invalid": "skip"}, "invalid is one of"),
    ({"language": "xpath"}, "language is one of 'sql', 'padres', 'json', not 'xpath'"),
    ({"layout": "2 by 3"}, "layout '2 by 3': give subscription parts x event parts"),
    ({"layout": 3}, "layout is text such as '3x2', not 3"),
    ({"layout": "0x1"}, "there is at least one part"),
    ({"layout": "5x1"}, "a table of 4 blocks cannot be cut into more parts"),
    ({"column": ""}, "column is the name of a column, not ''"),
    ({"rows": -1}, "rows is -1; give at least 0"),
]


@pytest.mark.parametrize(("options", "why"), WRONG)
def test_options_that_cannot_be(spark: SparkSession, table: Table, options: Any, why: str) -> None:
    with pytest.raises(InputError, match=why):
        route(spark.range(3), table, **options)


def test_subscriptions_that_cannot_be(spark: SparkSession, tmp_path: Path) -> None:
    events = spark.range(3)
    with pytest.raises(InputError, match="there is no table: the folder does not exist"):
        route(events, tmp_path / "nowhere")
    (tmp_path / "half" / "v000001").mkdir(parents=True)
    with pytest.raises(InputError, match=r"half-written: 'v000001' has no table\.json; save the table again"):
        route(events, str(tmp_path / "half"))
    with pytest.raises(InputError, match=r"subscriptions are a DataFrame .* not list"):
        route(events, [("a", "x = 1")])  # type: ignore[arg-type]
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    with pytest.raises(InputError, match="save versions of a table and use route_stream"):
        route(events, stream)


def test_folders_of_the_matcher_and_relative_paths(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Matcher([(10, "id >= 1"), (9, "id = 2"), ("b", "id = 2")]).save(tmp_path / "compiled")
    monkeypatch.chdir(tmp_path)
    rows = route(spark.range(3).withColumnRenamed("id", "id"), "compiled", share="broadcast").collect()
    assert [tuple(row) for row in rows] == [(1, ["10"]), (2, ["10", "9", "b"])]
    # The same place, and another table: workers must not go on with what they mapped.
    Matcher([("c", "id = 1")]).save(tmp_path / "compiled")
    assert [tuple(row) for row in route(spark.range(3), "compiled").collect()] == [(1, ["c"])]
    Matcher([("d", "id = 1")]).save(tmp_path / "compiled")
    assert [tuple(row) for row in route(spark.range(3), "compiled").collect()] == [(1, ["d"])]


def test_wide_rows_are_not_put_together_beyond_what_a_column_holds() -> None:
    from penstock.spark.workers import gathered

    wide = pa.RecordBatch.from_pydict({"t": ["x" * 1000] * 10})
    made = list(gathered(iter([wide] * 6), 1_000, 25_000))
    assert [batch.num_rows for batch in made] == [20, 20, 20]


def test_a_profile_tells_how_many_events_there_are(spark: SparkSession) -> None:
    events = spark.range(500).selectExpr("id % 10 as x")
    rules = spark.createDataFrame([("a", "x < 5"), ("b", "x < 1")], "id string, filter string")
    known = profile(events)
    assert "events: 500," in explain(events, rules, profile=known)
    assert route(events, rules, profile=known).count() == 250


def test_a_table_that_no_worker_can_hold_is_cut(spark: SparkSession) -> None:
    events = spark.range(40).selectExpr("id % 50 as x")
    rules = spark.createDataFrame([(f"r{n:03}", f"x = {n}") for n in range(400)], RULES)
    size = int(explain(events, rules).split(" bytes", 1)[0].rsplit(" ", 1)[1].replace(",", ""))
    # Tables as small as this grow with every block; the larger the smaller the share of that.
    plan = explain(events, rules, memory=size * 2 // 3)
    assert int(plan.split(" blocks, ", 1)[0].rsplit(" ", 1)[1]) > 1
    assert route(events, rules, memory=size * 2 // 3).count() == 40


def test_arrays_are_lists(spark: SparkSession) -> None:
    events = spark.createDataFrame(
        [
            (1, ["a", None], [Row(sku="x", qty=5)], [[1], []]),
            (2, [], [Row(sku="x", qty=1), Row(sku=None, qty=9)], None),
            (3, None, None, [[2, 3]]),
        ],
        "n int, tags array<string>, items array<struct<sku: string, qty: int>>, rows array<array<int>>",
    )
    rules = {
        "a": "'a' in tags",
        "not a": "'a' not in tags",
        "x5": "any(items where sku = 'x' and qty > 4)",
        "nine": "any(items where sku is null)",
        "none": "tags is null",
        "deep": "any(rows where any(this) > 2)",
    }
    subscriptions = spark.createDataFrame(list(rules.items()), "id string, filter string")
    found = {row.n: row.ids for row in route(events, subscriptions, unmatched="keep").collect()}
    assert found == {1: ["a", "x5"], 2: ["nine", "none"], 3: ["deep", "none"]}


ORDERS = (
    "n int, tags array<string>, "
    "items array<struct<sku: string, qty: int, at: string, raw: binary, rows: array<array<string>>>>"
)


def orders(spark: SparkSession) -> DataFrame:
    item = Row(sku="x", qty=5, at="2024-05-05", raw=bytearray(b"z"), rows=[["2024-02-02"]])
    return spark.createDataFrame([(1, ["a"], [item, None]), (2, None, [item]), (3, ["b"], None)], ORDERS)


def test_what_no_element_of_an_array_has_is_told(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rules = {
        "slip": "any(items where skuu = 'x') and n > 0",
        "text": "any(items where qty = 'x')",
        "number": "5 in tags",
        "both": "any(items where at > timestamp '2024-01-01' or at = 'soon')",
        "deep": "any(items where any(rows where any(this) > timestamp '2024-01-01'))",
        "fine": "any(items where sku = 'x' and qty > 1)",
    }
    table = save_table(spark.createDataFrame(list(rules.items()), RULES), tmp_path / "rules", blocks=2)
    for layout in (None, "2x1"):
        caplog.clear()
        found = route(orders(spark), table, layout=layout).collect()
        assert [(row.n, row.ids) for row in found] == [(1, ["deep", "fine"]), (2, ["deep", "fine"])]
        assert [record.getMessage() for record in caplog.records if record.name == "penstock.spark"] == [
            "rules compare 'items[].at' with a time and with a string: text there is not read as a time",
            "1 rule (text) compares 'items[].qty' with a string, but in the events it is int: "
            "no event can match",
            "the events have no column 'items[].skuu', which 1 rule (slip) names; "
            "did you mean 'items[].sku'?",
            "1 rule (number) compares 'tags[]' with a number, but in the events it is string: "
            "no event can match",
        ]
    with pytest.raises(DisagreementError, match=r"items\[\].skuu"):
        route(orders(spark), table, strict=True)


def test_fields_in_arrays_that_a_rule_names_are_refused_before_a_job_runs(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    rules = spark.createDataFrame([("raw", "any(items where raw = 'x')"), ("a", "'a' in tags")], RULES)
    with pytest.raises(UnsupportedValueError, match=r"'items\[\].raw', which in the events is binary"):
        route(orders(spark), rules)
    routed = route(orders(spark), rules, unsupported="skip")
    assert [(row.n, row.ids) for row in routed.collect()] == [(1, ["a"])]
    assert skipped(routed) == {"items[].raw": 2}
