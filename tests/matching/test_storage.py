"""Saved matchers: what comes back is what was saved, and what is damaged or foreign is refused."""

import json
import os
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from penstock import Matcher, PenstockError
from penstock.errors import InputError
from penstock.filters.constraint import Constraint
from penstock.matching import checks, folders, storage
from penstock.matching.kernels.build_words import slot_ends

EVENT = {"origin": "JFK", "dep_delay": 75, "name": "abc"}


def matcher() -> Matcher:
    return Matcher(
        [
            ("alice", "origin = 'JFK' and dep_delay > 60"),
            ("bob", "name like '%b%' and origin in ('JFK', 'LGA', 'EWR')"),
            (7, "dep_delay is not null or other is null"),
            ("never", "x = 1 and x = 2"),
        ]
    )


def test_saved_and_loaded(tmp_path: Path) -> None:
    made = matcher()
    made.remove("bob")
    made.save(tmp_path / "saved")
    loaded = Matcher.load(tmp_path / "saved")
    assert loaded.match(EVENT) == made.match(EVENT) == [7, "alice"]
    assert len(loaded) == 3
    assert "never" in loaded
    assert "bob" not in loaded
    assert loaded.filters("alice") == made.filters("alice")


def test_a_loaded_matcher_can_be_changed_and_the_folder_stays(tmp_path: Path) -> None:
    matcher().save(tmp_path / "saved")
    before = {file.name: file.read_bytes() for file in (tmp_path / "saved").iterdir()}
    loaded = Matcher.load(tmp_path / "saved")
    loaded.add("carol", "dep_delay = 75")
    loaded.remove("alice")
    assert loaded.match(EVENT) == [7, "bob", "carol"]
    assert {file.name: file.read_bytes() for file in (tmp_path / "saved").iterdir()} == before
    loaded.save(tmp_path / "saved")
    assert Matcher.load(tmp_path / "saved").match(EVENT) == [7, "bob", "carol"]
    # Nothing is left beside it.
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]


def test_an_empty_matcher(tmp_path: Path) -> None:
    Matcher().save(tmp_path / "empty")
    loaded = Matcher.load(tmp_path / "empty")
    assert loaded.match(EVENT) == []
    loaded.add("a", "dep_delay > 1")
    assert loaded.match(EVENT) == ["a"]


def test_every_damaged_byte_of_an_array_is_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    matcher().save(folder)
    for file in sorted(folder.glob("*.bin")):
        data = bytearray(file.read_bytes())
        for at in {0, len(data) // 2, len(data) - 1} if data else ():
            changed = bytes(data[:at]) + bytes([data[at] ^ 4]) + bytes(data[at + 1 :])
            file.write_bytes(changed)
            with pytest.raises(InputError, match=r"damaged.*checksum"):
                Matcher.load(folder)
        file.write_bytes(bytes(data))
    Matcher.load(folder)


@pytest.mark.parametrize("harm", ["shorter", "longer", "missing"])
def test_files_of_another_size_are_refused(tmp_path: Path, harm: str) -> None:
    folder = tmp_path / "saved"
    matcher().save(folder)
    file = next(file for file in sorted(folder.glob("*.bin")) if file.stat().st_size)
    if harm == "missing":
        file.unlink()
    else:
        data = file.read_bytes()
        file.write_bytes(data[:-1] if harm == "shorter" else data + b"\0")
    with pytest.raises(InputError, match="damaged"):
        Matcher.load(folder)


def change(folder: Path, key: str, value: object) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest[key] = value
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("version", storage.VERSION + 1, "version"),
        ("format", "another", "not a saved matcher"),
        ("names", ["x"], "checksum"),
        ("arrays", {}, "checksum"),
        ("arrays", [], "damaged"),
    ],
)
def test_foreign_and_changed_manifests_are_refused(
    tmp_path: Path, key: str, value: object, message: str
) -> None:
    folder = tmp_path / "saved"
    matcher().save(folder)
    change(folder, key, value)
    with pytest.raises(InputError, match=message):
        Matcher.load(folder)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'"x"', b"\xff"])
def test_manifests_that_are_none_are_refused(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "manifest.json").write_bytes(text)
    with pytest.raises(InputError):
        Matcher.load(tmp_path)


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="something else"):
        matcher().save(tmp_path)
    with pytest.raises(InputError, match="no matcher is saved here"):
        Matcher.load(tmp_path)
    with pytest.raises(PenstockError):
        Matcher.load(tmp_path / "nowhere")
    assert (tmp_path / "letter.txt").read_text() == "dear"
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


@pytest.mark.parametrize("kind", ["file", "folder", "array of another table"])
def test_what_somebody_put_into_a_folder_is_not_removed_with_it(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    matcher().save(folder)
    name = "99-more.bin" if kind == "array of another table" else "notes"
    notes = folder / name
    if kind == "folder":
        notes.mkdir()
    else:
        notes.write_text("dear")
    before = sorted(file.name for file in folder.iterdir())
    with pytest.raises(InputError, match=f"saved: there is something else here \\('{name}'\\)"):
        Matcher([("a", "x = 1")]).save(folder)
    assert sorted(file.name for file in folder.iterdir()) == before
    assert Matcher.load(folder).match(EVENT) == matcher().match(EVENT)
    notes.rmdir() if kind == "folder" else notes.unlink()
    Matcher([("a", "x = 1")]).save(folder)
    assert Matcher.load(folder).ids() == ["a"]


def test_a_table_of_another_version_is_replaced(tmp_path: Path) -> None:
    matcher().save(tmp_path / "saved")
    change(tmp_path / "saved", "version", storage.VERSION + 1)
    change(tmp_path / "saved", "learnt", "something else")
    Matcher([("a", "x = 1")]).save(tmp_path / "saved")
    assert Matcher.load(tmp_path / "saved").ids() == ["a"]


def test_a_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("far/real")
    for made in (Matcher([("a", "dep_delay > 1")]), matcher()):
        made.save(tmp_path / "link")
        assert (tmp_path / "link").is_symlink()
        assert Matcher.load(tmp_path / "far" / "real").match(EVENT) == made.match(EVENT)
        assert [path.name for path in (tmp_path / "far").iterdir()] == ["real"]


@pytest.mark.parametrize("mask", [0o022, 0o027, 0o002])
def test_who_may_read_a_folder_follows_the_umask(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        matcher().save(tmp_path / "saved")
    finally:
        os.umask(before)
    assert (tmp_path / "saved").stat().st_mode & 0o777 == 0o777 & ~mask
    assert (tmp_path / "saved" / "manifest.json").stat().st_mode & 0o777 == 0o666 & ~mask


def test_what_the_system_refuses_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"file/saved: cannot be saved: not a directory"):
        matcher().save(tmp_path / "file" / "saved")
    with pytest.raises(InputError, match=r"file: not a directory"):
        Matcher.load(tmp_path / "file")
    matcher().save(tmp_path / "saved")

    def full(_file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=r"saved: cannot be saved: no space left on device"):
        Matcher().save(tmp_path / "saved")
    assert Matcher.load(tmp_path / "saved").match(EVENT) == matcher().match(EVENT)
    assert {path.name for path in tmp_path.iterdir()} == {"file", "saved"}


SAVING = """
import sys
from penstock import Matcher
one = Matcher([("alice", "dep_delay > 60"), ("bob", "name like '%b%'")])
other = Matcher([(i, f"dep_delay > {i}") for i in range(300)])
print("ready", flush=True)
for i in range(int(sys.argv[2])):
    (one, other)[i % 2].save(sys.argv[1])
"""


@pytest.mark.parametrize("at_once", [True, False])
def test_who_loads_while_another_saves_gets_the_old_or_the_new(
    at_once: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process saves, with one move, and in the way of systems that take two."""
    folder = tmp_path / "saved"
    Matcher([("alice", "dep_delay > 60"), ("bob", "name like '%b%'")]).save(folder)
    expected = [["alice", "bob"], list(range(75))]
    code = SAVING
    if not at_once:
        code = code.replace(
            "from penstock import Matcher",
            "from penstock import Matcher\nfrom penstock.matching import folders\n"
            "folders._exchange = lambda one, other: False",
        )
    command = [sys.executable, "-c", code, str(folder), "60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as saving:
        assert saving.stdout is not None
        assert saving.stdout.readline() == b"ready\n"
        loads = 0
        while saving.poll() is None:
            assert Matcher.load(folder).match(EVENT) in expected
            loads += 1
    assert loads
    assert saving.returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]


def test_a_table_that_is_replaced_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "saved"
    matcher().save(folder)
    read = storage._read_manifest
    others = [Matcher([("new", "dep_delay > 1")])]

    def slowly(path: Path) -> object:
        found = read(path)
        if others:
            others.pop().save(folder)
        return found

    monkeypatch.setattr(storage, "_read_manifest", slowly)
    assert Matcher.load(folder).match(EVENT) == ["new"]


def test_a_failed_move_leaves_the_old_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matcher().save(tmp_path / "saved")
    monkeypatch.setattr(folders, "_exchange", lambda _one, _other: False)
    rename = Path.rename

    def refuse(self: Path, target: Path) -> Path:
        if target.name == "saved" and not self.name.endswith("-old"):
            raise PermissionError(1, "Operation not permitted")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(InputError, match="cannot be saved: operation not permitted"):
        Matcher().save(tmp_path / "saved")
    assert Matcher.load(tmp_path / "saved").match(EVENT) == matcher().match(EVENT)
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]


# Folders whose sums are right, and which no matcher wrote


def rich_matcher() -> Matcher:
    """Something in every kind of array."""
    made = matcher()
    for i in range(3_000):
        made.add(1_000 + i, f"a = {i % 60} and b > {i % 70} and c between {i % 50} and {i % 50 + 9}")
    made.add_many([(i, f"name in ('ab{i}', 'abc', 'x') and s not in (1, {i + 2}, 9)") for i in range(50)])
    made.add_many(
        [(100 + i, f"name like '%b{i}_c%' or t > timestamp '2013-01-{i + 1:02}'") for i in range(9)]
    )
    made.add_many([(200 + i, f"u is null and w != {i}") for i in range(9)])
    # Few filters on an attribute of many values are searched, the others looked up.
    made.add("many", Constraint("z", "in", tuple(range(3_000))))
    made.add_many([(f"few{i}", f"z between {300 * i} and {300 * i + 1}") for i in range(9)])
    made.add("big", f"a = {2**60 + 1} or name = '' or up = true or b is null")
    return made


def edit(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a manifest, and sum it up anew."""
    manifest = msgspec.json.decode((folder / "manifest.json").read_bytes(), type=storage._Manifest)
    plain = msgspec.to_builtins(manifest)
    change(plain)
    plain["crc32"] = 0
    edited = msgspec.convert(plain, storage._Manifest)
    edited.crc32 = zlib.crc32(msgspec.json.encode(edited))
    (folder / "manifest.json").write_bytes(msgspec.json.encode(edited))


def replace(folder: Path, name: str, array: NDArray[Any]) -> None:
    """Put another array into the place of one."""

    def change(plain: dict[str, Any]) -> None:
        described = plain["arrays"][name]
        (folder / described["file"]).write_bytes(array.tobytes())
        described |= {"dtype": array.dtype.str, "shape": list(array.shape)}
        described["crc32"] = zlib.crc32(array.tobytes())

    edit(folder, change)


def test_the_shapes_are_those_of_tables() -> None:
    for made in (rich_matcher(), Matcher([("a", "x is null")])):
        made.compact()
        (table,) = made.tables()
        arrays = table.arrays()
        arrays["ids.bytes"], arrays["ids.offsets"] = made._store.ids.arrays()
        found = {
            name: (array.dtype.name, array.shape[1] if array.ndim == 2 else 0)
            for name, array in arrays.items()
        }
        assert found == checks.SHAPES
        ends = checks._ends(checks._Looking(arrays))
        assert np.array_equal(ends, slot_ends(table.cells, len(table.names)))


@pytest.mark.parametrize("name", sorted(checks.SHAPES))
def test_arrays_of_other_types_and_shapes_are_refused(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    matcher().save(folder)
    manifest = msgspec.json.decode((folder / "manifest.json").read_bytes())
    described = manifest["arrays"][name]
    array = np.fromfile(folder / described["file"], described["dtype"]).reshape(described["shape"])
    for other in (
        array.astype(np.float64),
        array.reshape(-1, 1, 1),
        array.astype("S4"),
        array.reshape(-1)[:, None],
    ):
        replace(folder, name, other)
        with pytest.raises(InputError, match=f"damaged: the array {name} is .*, which it never is"):
            Matcher.load(folder)
    replace(folder, name, array)
    for change in (
        lambda plain: plain["arrays"][name].update(dtype="|O"),
        lambda plain: plain["arrays"][name].update(shape=[-1]),
        lambda plain: plain["arrays"][name].update(shape=[2**62, 9]),
        lambda plain: plain["arrays"][name].update(shape=[]),
        lambda plain: plain["arrays"].pop(name),
    ):
        edit(folder, change)
        with pytest.raises(InputError, match="damaged: "):
            Matcher.load(folder)


FREE = {
    "cells.number_high",
    "cells.number_low",
    "cells.integer_first",
    "cells.time_key",
    "cells.string_ordered",
}
FREE |= {"cells.literals", "needles.bytes", "ids.bytes", "patterns.slot_has", "patterns.symbols"}
FREE |= {"places.occupied", "automaton.edge_key"}
"""Arrays whose numbers lead nowhere: what they hold may be nonsense."""


def test_numbers_that_lead_nowhere_are_refused_or_do_no_harm(tmp_path: Path) -> None:
    """Every array, with numbers that are too low or too high at some places: refused, or matched with."""
    folder = tmp_path / "saved"
    rich_matcher().save(folder)
    manifest = msgspec.json.decode((folder / "manifest.json").read_bytes())
    kept = {file.name: file.read_bytes() for file in folder.iterdir()}
    events: list[dict[str, object]] = [
        EVENT,
        {"a": 5, "b": 66, "c": 7, "name": "ab7", "s": 3, "w": 2, "up": True},
        {"a": 2**60, "t": "2013", "name": "xb5_cb3ac", "b": 1.5},
    ]
    refused: dict[str, int] = {}
    for name, described in manifest["arrays"].items():
        array = np.fromfile(folder / described["file"], described["dtype"])
        limits = (0, 1) if array.dtype == np.bool_ else (np.iinfo(array.dtype).min, np.iinfo(array.dtype).max)
        for at in {0, len(array) // 3, len(array) - 1} if len(array) else ():
            for value in (*limits, int(array[at]) + 1, int(array[at]) - 1, int(array[at]) ^ 2**31):
                if not limits[0] <= value <= limits[1] or value == array[at]:
                    continue
                changed = array.copy()
                changed[at] = value
                replace(folder, name, changed.reshape(described["shape"]))
                try:
                    loaded = Matcher.load(folder)
                except InputError:
                    refused[name] = refused.get(name, 0) + 1
                else:
                    loaded.match_batch(events)
        for file, content in kept.items():
            (folder / file).write_bytes(content)
    empty = {name for name, described in manifest["arrays"].items() if not np.prod(described["shape"])}
    assert set(manifest["arrays"]) - set(refused) <= FREE | empty
    assert empty <= {"cells.number_low"}
    assert Matcher.load(folder).match(EVENT) == rich_matcher().match(EVENT)


@pytest.mark.parametrize(
    "change",
    [
        lambda plain: plain.update(names=plain["names"][:-1]),
        lambda plain: plain.update(names=[*plain["names"], "more"]),
        lambda plain: plain.update(names=[plain["names"][0]] * len(plain["names"])),
        lambda plain: plain.update(distinct=not plain["distinct"]),
        lambda plain: plain.update(distinct_ids=plain["distinct_ids"] - 1),
        lambda plain: plain["arrays"]["filters.ids"].update(file="../outside.bin"),
    ],
)
def test_edited_manifests_are_refused(change: Callable[[dict[str, Any]], None], tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    matcher().save(folder)
    edit(folder, change)
    with pytest.raises(InputError, match="damaged: "):
        Matcher.load(folder)


INTEGER_7 = b"\xff" + (7).to_bytes(8, "little")
WRONG_IDS = {
    "not UTF-8": ([b"ab\xc3", b"bob"], "an id is not UTF-8"),
    "a character cut in two": ([b"ab\xc3", b"\xa9b"], "an id is not UTF-8"),
    "a lone surrogate": ([b"\xed\xa0\x80", b"bob"], "an id is not UTF-8"),
    "a text twice": ([b"bob", b"bob"], "the id 'bob' is there twice"),
    "an integer twice": ([INTEGER_7, INTEGER_7], "the id 7 is there twice"),
    "a short integer": ([INTEGER_7[:-1], b"bob"], "has not its eight bytes"),
    "a long integer": ([b"bob", INTEGER_7 + b"\0"], "has not its eight bytes"),
    "a mark alone": ([b"\xff", b"bob"], "has not its eight bytes"),
    "nothing": ([b"", b"bob"], "an id is empty"),
    "a long text": (["é".encode() * 513, b"bob"], "an id has 513 characters"),
}


def with_ids(folder: Path, ids: list[bytes]) -> None:
    Matcher([("a", "x = 1"), ("b", "x = 2")]).save(folder)
    replace(folder, "ids.bytes", np.frombuffer(b"".join(ids), np.uint8))
    replace(folder, "ids.offsets", np.cumsum([0, *map(len, ids)]))


@pytest.mark.parametrize(("ids", "says"), WRONG_IDS.values(), ids=WRONG_IDS)
def test_ids_that_are_none_are_refused(ids: list[bytes], says: str, tmp_path: Path) -> None:
    with_ids(tmp_path / "saved", ids)
    with pytest.raises(InputError, match=f"saved: damaged: .*{says}"):
        Matcher.load(tmp_path / "saved")


def test_ids_of_every_kind_are_accepted(tmp_path: Path) -> None:
    with_ids(tmp_path / "saved", ["é".encode() * 512, INTEGER_7])
    assert Matcher.load(tmp_path / "saved").ids() == [7, "é" * 512]


def test_the_folder_that_the_program_stands_in_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"^\.: the folder that the program stands in cannot be replaced"):
        Matcher({"a": "x = 1"}).save(".")
    assert list(tmp_path.iterdir()) == []


def test_paths_that_no_system_takes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    for path in (tmp_path / "a", str(tmp_path) + "/nul\0here"):
        with pytest.raises(InputError, match="cannot be saved"):
            Matcher({"a": "x = 1"}).save(path)
