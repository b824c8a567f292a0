"""Versions are complete or not there, and whatever else is in a folder is told of in one sentence."""

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import InputError
from penstock.matching.matcher import Matcher
from penstock.spark import shipping, tables
from penstock.spark.encoding import cut, encoded, joined, write_block
from penstock.spark.shipping import Shipped, mapped, pack, unpack
from penstock.spark.tables import MANIFEST, Table, new_version, publish
from penstock.spark.workers import blocks_of

pytestmark = pytest.mark.usefixtures("_no_sync")

ROWS = [("b", "x = 1"), ("a", "x >= 1 or y = 2"), ("10", "x = 1"), ("9", "x = 1")]


def saved(folder: Path, rows: list[tuple[str, str]] = ROWS, blocks: int = 2) -> Table:
    """A version with these subscriptions, written as `save_table` does it."""
    written = new_version(folder)
    try:
        parts = cut(joined([encoded(rows, "sql", subscribers=False)]), blocks)
        facts = [write_block(part, written / f"block-{at:05}") for at, part in enumerate(parts)]
        return publish(written, folder, ["x", "y"], facts, subscribers=False, rejected=0)
    finally:
        shutil.rmtree(written, ignore_errors=True)


def published(folder: Path) -> int | None:
    """A version of nothing: what matters is its number."""
    return publish(new_version(folder), folder, [], [], subscribers=False, rejected=0).version


def test_versions_follow_each_other(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "rules"
    first = saved(folder)
    second = saved(folder, ROWS[:1], 1)
    assert Table.versions(folder) == [1, 2]
    assert Table.open(folder) == second
    assert Table.open(folder, 1) == first == Table.open(first.path) == Table.open(first.path, 1)
    assert (first.ids, first.filters, len(first.blocks), first.names) == (4, 5, 2, ("x", "y"))
    assert first.nbytes == sum(f.stat().st_size for f in Path(first.path).glob("block-*/*"))
    assert sorted(entry.name for entry in folder.iterdir()) == ["v000001", "v000002"]


def test_names_of_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = saved(tmp_path / "rules")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("rules")
    for name in ("rules", "./rules", "link", f"file://{tmp_path}/rules", f"file:{tmp_path}/rules"):
        found = Table.open(name)
        assert Path(found.path).is_absolute()
        assert (found.version, found.blocks) == (1, table.blocks)
        assert Table.versions(name) == [1]
    saved(tmp_path / "link")
    assert Table.prune(f"file:{tmp_path}/rules", keep=1) == [1]
    assert Table.versions("rules") == [2]


def test_many_write_versions_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        numbers = list(threads.map(published, [tmp_path] * 24))
    with get_context("fork").Pool(4) as processes:
        numbers += processes.map(published, [tmp_path] * 16)
    assert sorted(filter(None, numbers)) == list(range(1, 41)) == Table.versions(tmp_path)
    for version in Table.versions(tmp_path):
        assert Table.open(tmp_path, version).version == version


def test_who_looks_while_versions_are_written_sees_whole_ones(tmp_path: Path) -> None:
    def look(_: int) -> None:
        for version in Table.versions(tmp_path):
            assert Table.open(tmp_path, version).version == version

    with ThreadPoolExecutor(4) as threads:
        writing = [threads.submit(published, tmp_path) for _ in range(20)]
        for _ in range(20):
            list(threads.map(look, range(2)))
        assert len({future.result() for future in writing}) == 20


@pytest.mark.parametrize("left", ["empty", "half", "file"])
def test_what_is_left_of_a_version_does_not_hold_up_the_next(tmp_path: Path, left: str) -> None:
    place = tmp_path / "v000001"
    if left == "file":
        place.write_text("")
    else:
        (place / ("block-00000" if left == "half" else "")).mkdir(parents=True)
    assert published(tmp_path) == 2
    assert Table.open(tmp_path).version == 2


def test_pruning(tmp_path: Path) -> None:
    for _ in range(4):
        published(tmp_path)
    assert Table.prune(tmp_path, keep=2) == [1, 2]
    assert Table.versions(tmp_path) == [3, 4]
    assert Table.prune(tmp_path) == []
    assert published(tmp_path) == 5
    with pytest.raises(InputError, match="at least one version is kept, not 0"):
        Table.prune(tmp_path, keep=0)


def test_files_of_others_beside_a_tables_own_do_no_harm(tmp_path: Path) -> None:
    block = saved(tmp_path).folders[0]
    for name in (".DS_Store", ".nfs0001", "._manifest.json", "README", "Thumbs.db"):
        (block / name).write_text("hello")
    assert Table.open(tmp_path).ids == 4


def test_the_latest_version_is_opened_though_others_are_removed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        saved(tmp_path)
    known = Table.versions
    # As somebody sees it who looked before the second was there; the first is gone by now.
    looks = iter([[1]])
    monkeypatch.setattr(Table, "versions", staticmethod(lambda folder: next(looks, None) or known(folder)))
    (tmp_path / "v000001" / MANIFEST).unlink()
    assert Table.open(tmp_path).version == 2


def test_what_a_pruning_left_that_was_ended_is_removed_days_later(tmp_path: Path) -> None:
    for _ in range(2):
        published(tmp_path)
    (tmp_path / "v000001" / MANIFEST).unlink()
    assert published(tmp_path) == 3
    # Somebody may still be at it.
    assert (tmp_path / "v000001").exists()
    os.utime(tmp_path / "v000001", (0, 0))
    (tmp_path / "v000009").mkdir()
    os.utime(tmp_path / "v000009", (0, 0))
    assert published(tmp_path) == 10
    assert not (tmp_path / "v000001").exists()
    assert (tmp_path / "v000009").exists()


def test_compiled_subscriptions_are_a_table(tmp_path: Path) -> None:
    Matcher([(10, "x = 1"), (9, "x = 1"), ("b", "y = 1")]).save(tmp_path / "compiled")
    table = Table.open(tmp_path / "compiled")
    assert (table.version, table.ids, table.names, table.subscribers) == (None, 3, ("x", "y"), False)
    assert Path(table.folders[0]) == tmp_path / "compiled"
    with pytest.raises(InputError, match="compiled subscriptions have no versions; there is no 1"):
        Table.open(tmp_path / "compiled", 1)
    with pytest.raises(InputError, match="compiled subscriptions are here already"):
        new_version(tmp_path / "compiled")


def _damage(change: Any) -> Any:
    def apply(folder: Path) -> None:
        file = folder / "v000001" / MANIFEST
        manifest = json.loads(file.read_text())
        change(manifest)
        file.write_text(json.dumps(manifest))

    return apply


def _write(text: str) -> Any:
    return lambda folder: (folder / "v000001" / MANIFEST).write_text(text)


DAMAGES = {
    "no manifest": (
        lambda f: (f / "v000001" / MANIFEST).unlink(),
        "half-written: 'v000001' has no table.json",
    ),
    "not JSON": (_write("{"), "damaged: table.json"),
    "a list": (_write("[]"), "damaged: table.json"),
    "nothing": (_write(""), "damaged: table.json"),
    "no Unicode": (
        lambda f: (f / "v000001" / MANIFEST).write_bytes(b'{"format": "\xff"}'),
        "damaged: table.json",
    ),
    "another format": (_damage(lambda m: m.update(format="x")), "this is no saved table"),
    "a later format": (_damage(lambda m: m.update(format_version=2)), "saved in version 2 of the format"),
    "no blocks": (_damage(lambda m: m.pop("blocks")), "damaged: table.json"),
    "changed": (_damage(lambda m: m.update(names=["z"])), "does not have its checksum"),
    "a block gone": (
        lambda f: shutil.rmtree(f / "v000001" / "block-00001"),
        "damaged: the block 'block-00001' is not there",
    ),
    "a block that is not copied whole": (
        lambda f: os.truncate(f / "v000001" / "block-00001" / "manifest.json", 8),
        "damaged, or not copied whole: files of the block 'block-00001'",
    ),
    "a folder": (
        lambda f: ((f / "v000001" / MANIFEST).unlink(), (f / "v000001" / MANIFEST).mkdir()),
        "is a directory",
    ),
    "all gone": (lambda f: shutil.rmtree(f / "v000001"), "no table is saved here"),
    "no folder": (shutil.rmtree, "there is no table: the folder does not exist"),
}


@pytest.mark.parametrize("damage", sorted(DAMAGES))
def test_a_damaged_table_is_told_of(tmp_path: Path, damage: str) -> None:
    saved(tmp_path / "rules")
    damaging, why = DAMAGES[damage]
    damaging(tmp_path / "rules")
    with pytest.raises(InputError, match=why) as caught:
        Table.open(tmp_path / "rules")
    assert str(tmp_path / "rules") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_things_that_are_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(InputError, match="a table is a folder, and this is a file"):
        Table.open(file)
    with pytest.raises(InputError, match="cannot be saved"):
        new_version(file)
    with pytest.raises(InputError, match="cannot be saved"):
        new_version(file / "below")
    for url in ("s3://bucket/rules", "abfss://c@a.dfs.core.windows.net/rules", "dbfs:/rules", "hdfs://n/r"):
        with pytest.raises(InputError, match="all workers have mounted"):
            Table.open(url)
    table = saved(tmp_path / "rules")
    with pytest.raises(InputError, match=r"there is no version 7 \(there are: 1\)"):
        Table.open(tmp_path / "rules", 7)
    with pytest.raises(InputError, match="this is version 1, not 2"):
        Table.open(table.path, 2)
    (tmp_path / "rules" / "v000002").mkdir()
    with pytest.raises(InputError, match="version 2 is half-written"):
        Table.open(tmp_path / "rules", 2)
    assert Table.versions(file) == Table.versions(tmp_path / "nowhere") == []

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    # Who runs tests may be allowed everything.
    with monkeypatch.context() as patch:
        patch.setattr(Path, "iterdir", refuse)
        with pytest.raises(InputError, match="permission denied"):
            Table.open(tmp_path / "rules")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", refuse)
        with pytest.raises(InputError, match="cannot be saved: permission denied"):
            new_version(tmp_path / "rules")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", refuse)
        with pytest.raises(InputError, match="cannot be saved: permission denied"):
            published(tmp_path / "rules")


def test_a_packed_table_is_laid_out_whole_by_whoever_is_first(tmp_path: Path) -> None:
    table = saved(tmp_path / "rules")
    data = pack(table)
    home = tmp_path / "home"
    with ThreadPoolExecutor(6) as threads:
        list(threads.map(lambda _: unpack(data, home), range(6)))
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["home", "rules"]
    for here, there in zip(sorted(home.iterdir()), table.folders, strict=True):
        assert here.name == there.name
        assert {f.name: f.read_bytes() for f in here.iterdir()} == {
            f.name: f.read_bytes() for f in there.iterdir()
        }


def test_what_cannot_be_laid_out_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = pack(saved(tmp_path / "rules"))

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(OSError, match="No space left"):
        unpack(data, tmp_path / "home")
    assert [entry.name for entry in tmp_path.iterdir()] == ["rules"]


class Value:
    """What is like a broadcast."""

    def __init__(self, value: bytes) -> None:
        self.value = value


def test_workers_find_shipped_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = saved(tmp_path / "rules")
    monkeypatch.setattr(shipping, "_home", lambda: tmp_path)
    where = Shipped("key", Value(pack(table)), ("block-00000", "block-00001"))
    found = [block for at in (0, 1) for block in blocks_of(where, at, at + 1)]
    assert [key for block in found for key in block.matcher.ids()] == ["10", "9", "a", "b"]
    # The second time, nothing is unpacked.
    assert Shipped("key", None, where.blocks).folders() == where.folders()


def test_a_table_that_took_the_place_of_another_is_mapped_anew(tmp_path: Path) -> None:
    """Versions never change, but a folder can be removed and filled again under the eyes of a worker."""
    first = mapped(saved(tmp_path / "rules", [("old", "x = 1")], 1))
    assert blocks_of(first, 0, 1)[0].matcher.ids() == ["old"]
    shutil.rmtree(tmp_path / "rules")
    second = mapped(saved(tmp_path / "rules", [("new", "x = 1")], 1))
    assert first.path == second.path
    assert blocks_of(second, 0, 1)[0].matcher.ids() == ["new"]
    Matcher([("one", "x = 1")]).save(tmp_path / "compiled")
    assert blocks_of(mapped(Table.open(tmp_path / "compiled")), 0, 1)[0].matcher.ids() == ["one"]
    Matcher([("two", "x = 1")]).save(tmp_path / "compiled")
    assert blocks_of(mapped(Table.open(tmp_path / "compiled")), 0, 1)[0].matcher.ids() == ["two"]


def test_a_folder_that_a_worker_does_not_see(tmp_path: Path) -> None:
    table = saved(tmp_path / "rules")
    where = mapped(table)
    shutil.rmtree(tmp_path / "rules")
    with pytest.raises(InputError, match="this worker does not see the table's folder"):
        where.folders()
    with pytest.raises(InputError, match="the table is gone"):
        mapped(table)


def test_a_damaged_block_is_told_of_when_it_is_mapped(tmp_path: Path) -> None:
    table = saved(tmp_path / "rules")
    for file in table.folders[0].glob("*.bin"):
        os.truncate(file, file.stat().st_size // 2)
    with pytest.raises(InputError, match="block-00000: damaged"):
        blocks_of(mapped(table), 0, 1)


def test_damaged_subscribers_are_told(tmp_path: Path) -> None:
    """The file is mapped as it is: wrong offsets in it would be followed, to other texts or to nowhere."""
    tables.write_subscribers(tmp_path, pa.array(["ana", None, "bo"]))
    (file,) = tmp_path.iterdir()
    found = tables.read_subscribers(tmp_path)
    assert found is not None
    assert found.to_pylist() == ["ana", None, "bo"]
    data = file.read_bytes()
    for damaged in (data[: len(data) // 2], b"", data + b"1234567", bytes([data[0] ^ 4]) + data[1:]):
        file.write_bytes(damaged)
        with pytest.raises(InputError, match="does not have its checksum"):
            tables.read_subscribers(tmp_path)
