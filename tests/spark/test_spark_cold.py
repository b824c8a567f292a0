"""A job on Spark without kernels: small tables are matched by the interpreter, and answers are the same."""

import json
import subprocess
import sys
import tempfile
import warnings
from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brute import holds
from clause_cases import clauses_of
from cold_kernels import Cold
from fresh_installation import compilers, folder_of_kernels, installed_anew
from matching_cases import NAMES, PREDICATE
from patience import HANGS
from penstock.errors import InputError
from penstock.filters.expression import Expression, normalise
from penstock.filters.parsing import Language
from penstock.matching import locking
from penstock.matching.arrival import KERNELS
from penstock.matching.plain import PlainStore
from penstock.spark import rules
from penstock.spark.encoding import cut, encoded, joined, pack, unpack, write_block
from penstock.spark.java import find_java
from penstock.spark.rules import load_block, read_rules
from penstock.spark.tables import Table, new_version, publish
from penstock.spark.workers import Block, match
from spark_cases import Rows, expected, lists_of, rows
from strategies import all_constraints

pytestmark = pytest.mark.usefixtures("_no_sync")

Subscriptions = list[tuple[str, Expression]]

CLAUSES = clauses_of(all_constraints(NAMES))
SUBSCRIPTIONS = st.lists(
    st.tuples(st.sampled_from(("alice", "bob", "ça", "10", "9")), st.one_of(PREDICATE, CLAUSES)), max_size=12
)


@pytest.fixture(autouse=True)
def _warm() -> None:
    assert KERNELS.wait()


def written(subscriptions: Subscriptions, blocks: int, pieces: int, folder: Path) -> list[Path]:
    """The blocks of a table, as workers and driver make them together."""
    table = [(key, normalise(expression).to_sql(), f"of {key}") for key, expression in subscriptions]
    made = [unpack(pack(encoded(table[at::pieces], "sql", subscribers=True))) for at in range(pieces)]
    folders = [folder / f"block-{at}" for at in range(blocks)]
    for part, home in zip(cut(joined(made), blocks), folders, strict=True):
        facts = write_block(part, home)
        assert (facts.ids, facts.filters) == (len(part.ids), len(part.columns.ids))
    return folders


@pytest.mark.property
@given(SUBSCRIPTIONS, rows(), st.integers(1, 3), st.integers(1, 3))
def test_tables_that_are_written_and_read_without_kernels_give_the_answers_of_brute_force(
    subscriptions: Subscriptions, given_rows: Rows, blocks: int, pieces: int
) -> None:
    wanted = expected(subscriptions, given_rows, holds)
    with tempfile.TemporaryDirectory() as folder:
        with Cold():
            cold = written(subscriptions, blocks, pieces, Path(folder, "cold"))
        warm = written(subscriptions, blocks, pieces, Path(folder, "warm"))
        for homes in (cold, warm):
            # A driver and its workers may differ in what they have.
            with Cold():
                loaded = [Block.load(home) for home in homes]
                assert all(isinstance(block.matcher._kept, PlainStore) for block in loaded)
                found = match(given_rows.batch, loaded)
            assert lists_of(found) == wanted
            assert found.subscribers is not None
            assert found.subscribers.to_pylist() == [f"of {key}" for key in found.ids.to_pylist()]
            # They go over to kernels when these have come.
            assert lists_of(match(given_rows.batch, loaded)) == wanted
            assert lists_of(match(given_rows.batch, [Block.load(home) for home in homes])) == wanted


@pytest.mark.parametrize(
    ("language", "text"),
    [("padres", "[x,=,1]"), ("json", '{"attribute": "x", "op": "=", "value": 1}'), ("sql", "x = 1")],
)
def test_rules_are_kept_in_their_language(language: Language, text: str, tmp_path: Path) -> None:
    with Cold():
        write_block(joined([encoded([("a", text)], language, subscribers=False)]), tmp_path / "t")
        assert load_block(tmp_path / "t").match({"x": 1}) == ["a"]


@pytest.mark.parametrize("is_cold", [True, False])
def test_text_is_a_time_where_the_rules_of_all_blocks_say_so_without_kernels_too(
    tmp_path: Path, is_cold: bool
) -> None:
    late = [(f"t{n}", f"at > timestamp '{2023 + n}-06-01'") for n in range(2)]
    events = pa.RecordBatch.from_pydict({"at": ["2024-05-05", "soon"] * 600})
    for name, given_rules, times, found in (
        ("only", late, {"at"}, [["t0"], []] * 600),
        ("both", [*late, ("word", "at = 'soon'")], set(), [[], ["word"]] * 600),
    ):
        new, whole = new_version(tmp_path / name), joined([encoded(given_rules, "sql", subscribers=False)])
        with Cold() if is_cold else nullcontext():
            facts = [write_block(part, new / f"block-{at}") for at, part in enumerate(cut(whole, 2))]
        table = publish(new, tmp_path / name, ["at"], facts, subscribers=False, rejected=0)
        assert table.times == times
        with Cold() if is_cold else nullcontext(), warnings.catch_warnings():
            # Tasks warn of nothing: the driver does.
            warnings.simplefilter("error")
            blocks = [Block.load(folder, table.times) for folder in table.folders]
            assert lists_of(match(events, blocks)) == found


def test_large_tables_are_compiled_and_have_no_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "RULES_MAX", 2)
    few = [("a", "x = 1"), ("b", "x = 2")]
    for at, given_rules in enumerate((few, [*few, ("c", "x = 3")])):
        pieces = [encoded([rule], "sql", subscribers=False) for rule in given_rules]
        with Cold():
            write_block(joined(pieces), tmp_path / str(at))
    assert (read_rules(tmp_path / "0") is None, read_rules(tmp_path / "1") is None) == (False, True)
    assert load_block(tmp_path / "1").match({"x": 3}) == ["c"]
    monkeypatch.setattr(rules, "BYTES_MAX", 4)
    assert encoded([("a", "x = 1")], "sql", subscribers=False).texts is None


def test_a_version_of_rules_alone_is_a_table_and_damage_is_told(tmp_path: Path) -> None:
    new = new_version(tmp_path / "rules")
    with Cold():
        facts = write_block(joined([encoded([("a", "x = 1")], "sql", subscribers=False)]), new / "block-0")
    publish(new, tmp_path / "rules", ["x"], [facts], subscribers=False, rejected=0)
    table = Table.open(tmp_path / "rules")
    assert (table.ids, table.filters) == (1, 1)
    (block,) = table.folders
    assert load_block(block).match({"x": 1}) == ["a"]
    (file,) = block.glob("rules-*.json")
    file.write_bytes(file.read_bytes().replace(b"x = 1", b"x = 2"))
    with pytest.raises(InputError, match=r"damaged: rules-.*json does not have its checksum"):
        load_block(block)
    file.unlink()
    with pytest.raises(InputError, match="the block 'block-0' is not there"):
        Table.open(tmp_path / "rules")


JOB = """
import json
from penstock.matching import locking
from penstock.matching.arrival import KERNELS
from penstock.spark import builder, explain, route
settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
session = builder("penstock-cold", "local[2]", settings).getOrCreate()
session.sparkContext.setLogLevel("OFF")
events = session.createDataFrame([(1, "abc"), (2, "xyz")], "x long, s string")
rules = session.createDataFrame([("a", "x = 1"), ("b", "s like '%y%' or x > 7")], "id string, filter string")
found = [sorted((row.x, list(row.ids)) for row in route(events, rules).collect())]
found.append(sorted((row.x, row.id) for row in route(events, rules, output="rows", layout="2x2").collect()))
print(json.dumps([found, KERNELS.is_compiling, "block" in explain(events, rules)]))
session.stop()
"""


def test_on_a_fresh_installation_a_small_job_waits_for_no_compiler(tmp_path: Path) -> None:
    environment = installed_anew(tmp_path) | {"JAVA_HOME": str(find_java().home)}
    # As if another process compiled, and never came to its end.
    with locking.take(folder_of_kernels(tmp_path)):
        done = subprocess.run(
            [sys.executable, "-c", JOB],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=2 * HANGS,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    found, is_compiling, is_explained = json.loads(done.stdout.splitlines()[-1])
    assert found == [[[1, ["a"]], [2, ["b"]]], [[1, "a"], [2, "b"]]]
    assert (is_compiling, is_explained) == (True, True)
    assert not list(tmp_path.rglob("*.nbc"))
    assert not compilers(tmp_path)
