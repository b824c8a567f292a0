"""Saved matchers: what comes back is what was saved, and what is damaged or foreign is refused."""

import json
from pathlib import Path

import pytest

from penstock import Matcher, PenstockError
from penstock.errors import InputError
from penstock.matching import storage

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
