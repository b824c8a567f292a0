import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import EventError, InputError, LimitError, PenstockError
from penstock.spark.failures import own_error
from penstock.spark.places import for_spark, local_folder, write_whole
from penstock.spark.sinks import Owner, _claim
from penstock.spark.tables import Table
from penstock.spark.versions_log import KEPT, Entry, Home, Query, Run, VersionsLog, mark_of, reopened
from stream_cases import rules_of, save_version


def entry(batch: int, version: int = 1) -> Entry:
    return Entry(batch, version, f"/rules/v{version:06}", 7)


@settings(max_examples=50)
@given(st.lists(st.integers(0, 3 * KEPT), max_size=5), st.integers(0, 4 * KEPT))
def test_the_log_holds_what_was_written_less_what_is_long_past(batches: list[int], done: int) -> None:
    with TemporaryDirectory() as folder:
        log = VersionsLog(Path(folder) / "versions")
        expected = {batch: entry(batch, at) for at, batch in enumerate(batches)}
        for at, batch in enumerate(batches):
            log.write(entry(batch, at))
        log.forget(done)
        kept = sorted(batch for batch in expected if batch > done - KEPT)
        assert log.batches() == kept
        assert {batch: log.find(batch) for batch in kept} == {batch: expected[batch] for batch in kept}


def test_batches_that_spark_may_do_again_are_never_forgotten(tmp_path: Path) -> None:
    log = VersionsLog(tmp_path)
    for batch in range(KEPT + 5):
        log.write(entry(batch))
        log.forget(batch)
        assert log.find(batch) is not None
    assert len(log.batches()) == KEPT


def test_a_write_that_was_cut_short_leaves_no_entry(tmp_path: Path) -> None:
    log = VersionsLog(tmp_path / "versions")
    assert log.batches() == []
    assert log.find(3) is None
    log.write(entry(2))
    (tmp_path / "versions" / ".000000000003.json-abc").write_text('{"batch"')
    assert log.find(3) is None
    assert log.batches() == [2]


@pytest.mark.parametrize(
    "text", ["", '{"batch": 3}', '{"batch": 4, "version": 1, "path": "p", "mark": 0}', "\xff"]
)
def test_a_damaged_entry_is_named(tmp_path: Path, text: str) -> None:
    log = VersionsLog(tmp_path)
    log.file(3).write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=r"000000000003\.json: damaged"):
        log.find(3)


def test_a_log_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written: "):
        VersionsLog(tmp_path / "file").write(entry(0))
    with pytest.raises(InputError, match="not a directory"):
        Home(tmp_path / "file").claim("q")


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_whole(tmp_path / "a", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_the_later_run_ends_the_earlier(tmp_path: Path) -> None:
    home, one, two = Home(tmp_path / "home"), Run("1", "here", 10), Run("2", "there", 20)
    assert home.claim("q") == Query("q")
    home.begin(one)
    home.check(one, "s")
    home.check(one, None)
    assert home.claim("other") == Query("q", "s")
    home.begin(two)
    home.check(two, "s")
    with pytest.raises(InputError, match=r"started later \(process 20 on there\), so this one ends"):
        home.check(one, "s")


def test_a_log_whose_checkpoint_was_made_anew_is_refused(tmp_path: Path) -> None:
    home, run = Home(tmp_path), Run("1", "here", 10)
    home.claim("q")
    home.begin(run)
    home.check(run, "s")
    with pytest.raises(InputError, match="the log of another query"):
        home.check(run, "t")
    (tmp_path / "query.json").unlink()
    with pytest.raises(InputError, match="removed while the query ran"):
        home.check(run, "s")


def test_a_version_is_reopened_as_it_was_or_not_at_all(tmp_path: Path) -> None:
    rules = tmp_path / "rules"
    table = save_version(rules, rules_of(1), blocks=2)
    save_version(rules, rules_of(2))
    logged = Entry(5, table.version, table.path, mark_of(table))
    assert reopened(logged, Path("f")) == table
    Table.prune(rules, keep=1)
    with pytest.raises(
        InputError, match=r"batch 5 .* version 1 of the table, which cannot be had .* remove f "
    ):
        reopened(logged, Path("f"))
    # Numbered anew, the first version is another one; as it was, it will do.
    shutil.rmtree(rules)
    save_version(rules, rules_of(3), blocks=2)
    with pytest.raises(InputError, match="not the same any more"):
        reopened(logged, Path("f"))
    shutil.rmtree(rules)
    save_version(rules, rules_of(1), blocks=2)
    assert reopened(logged, Path("f")) == table


@pytest.mark.parametrize("text", ["s3a://bucket/a", "hdfs:/a", "dbfs:/a", "abfss://c@a.net/x"])
def test_what_only_spark_gets_at_is_no_local_folder(text: str) -> None:
    assert local_folder(text) is None


def test_folders_of_this_machine_have_one_name(tmp_path: Path) -> None:
    expected = tmp_path / "a b"
    for text in (expected, str(expected), f"file:{expected}", f"file://{expected}"):
        assert local_folder(text) == expected
    assert local_folder("rules") == Path.cwd() / "rules"
    assert for_spark(expected) == f"file://{tmp_path}/a b"


def test_a_folder_of_results_is_one_querys(tmp_path: Path) -> None:
    folder = tmp_path / "routed"
    _claim(folder, Owner("q", "here"))
    (folder / "batch_id=0").mkdir()
    _claim(folder, Owner("q", "here"))
    with pytest.raises(InputError, match=r"results of another query .with the checkpoint here"):
        _claim(folder, Owner("p", "there"))
    (folder / "_penstock.json").write_text("{")
    with pytest.raises(InputError, match="damaged"):
        _claim(folder, Owner("q", "here"))
    with pytest.raises(InputError, match=r"something else here .'routed'"):
        _claim(tmp_path, Owner("q", "here"))


def test_penstocks_own_error_is_found_in_what_spark_makes_of_it() -> None:
    own = InputError("x: is wrong")
    assert own_error(own) is own
    text = "[STREAM_FAILED] …\n File 'a'\npenstock.errors.EventError: row 3: it's bad: \"q\"\n\tat java.x"
    found = own_error(RuntimeError(text))
    assert type(found) is EventError
    assert str(found) == 'row 3: it\'s bad: "q"'
    limited = LimitError("there are 9 columns", "ATTRIBUTES_MAX", 8)
    assert str(own_error(RuntimeError(f"\n  penstock.errors.LimitError: {limited}"))) == str(limited)
    assert type(own_error(RuntimeError("penstock.errors.__all__: x"))) is PenstockError
    assert own_error(RuntimeError("py4j.Exception: penstock.errors.InputError: in the middle")) is None
