"""Which columns are attributes, and where compiled kernels are kept."""

import os
from pathlib import Path

import pytest
from pyspark.sql import types as T  # noqa: N812 - everybody's name for it

from penstock.errors import EventError, InputError, LimitError, PenstockError, UnsupportedValueError
from penstock.model.values import Family
from penstock.spark import caches
from penstock.spark.choices import check_choice
from penstock.spark.events import attributes_of


def schema_of(fields: dict[str, T.DataType]) -> T.StructType:
    return T.StructType([T.StructField(name, kind) for name, kind in fields.items()])


INTEGER = T.IntegerType()


def test_structs_are_flattened_and_types_have_families() -> None:
    inner = schema_of({"d": T.DateType(), "n": T.TimestampNTZType()})
    kinds = {
        "b": T.BooleanType(),
        "i": T.ByteType(),
        "s": schema_of({"t": T.TimestampType(), "u.v": inner}),
        "f": T.FloatType(),
        "c": T.VarcharType(3),
        "z": T.NullType(),
    }
    found = attributes_of(schema_of(kinds))
    assert [(one.name, one.path, one.family) for one in found] == [
        ("b", ("b",), Family.BOOL),
        ("i", ("i",), Family.NUMBER),
        ("s.t", ("s", "t"), Family.TIME),
        ("s.u.v.d", ("s", "u.v", "d"), Family.TIME),
        ("s.u.v.n", ("s", "u.v", "n"), Family.TIME),
        ("f", ("f",), Family.NUMBER),
        ("c", ("c",), Family.STRING),
    ]


@pytest.mark.parametrize(
    "kind",
    [
        T.DecimalType(10, 2),
        T.BinaryType(),
        T.ArrayType(INTEGER),
        T.MapType(T.StringType(), INTEGER),
        T.DayTimeIntervalType(),
        T.YearMonthIntervalType(),
        T.CalendarIntervalType(),
        T.VariantType(),
        T.TimeType(),
    ],
    ids=T.DataType.simpleString,
)
def test_types_without_a_family_are_refused_by_name_or_left_out(kind: T.DataType) -> None:
    schema = schema_of({"n": INTEGER, "s": schema_of({"bad": kind, "good": T.StringType()})})
    with pytest.raises(UnsupportedValueError, match=r"the column 's\.bad' of type .* has no family"):
        attributes_of(schema)
    assert [one.name for one in attributes_of(schema, "skip")] == ["n", "s.good"]


def test_names_that_cannot_be_told_apart_or_are_none() -> None:
    with pytest.raises(EventError, match=r"'a\.b' is there twice"):
        attributes_of(schema_of({"a": schema_of({"b": INTEGER}), "a.b": INTEGER}))
    twice = T.StructType([T.StructField("a", INTEGER), T.StructField("a", T.BinaryType())])
    with pytest.raises(EventError, match="'a' is there twice"):
        attributes_of(twice, "skip")
    nested = T.StructType([T.StructField("a", schema_of({"": INTEGER}))])
    for schema in (schema_of({"": INTEGER}), schema_of({"": nested}), nested):
        with pytest.raises(EventError, match="an attribute name is empty"):
            attributes_of(schema)


def test_limits() -> None:
    wide = schema_of({f"c{at}": INTEGER for at in range(4_097)})
    with pytest.raises(LimitError, match="ATTRIBUTES_MAX"):
        attributes_of(wide)
    deep: T.DataType = INTEGER
    for _ in range(34):
        deep = schema_of({"a": deep})
    assert isinstance(deep, T.StructType)
    with pytest.raises(LimitError, match="NESTING_MAX"):
        attributes_of(deep)
    with pytest.raises(LimitError, match="NAME_LENGTH_MAX"):
        attributes_of(schema_of({"a" * 300: schema_of({"b" * 300: INTEGER})}))
    with pytest.raises(PenstockError, match="unsupported"):
        attributes_of(wide, "drop")  # type: ignore[arg-type]


def test_words_of_options() -> None:
    check_choice("output", "ids", ("ids", "rows"))
    with pytest.raises(InputError, match="output is one of 'ids', 'rows', not 'id'"):
        check_choice("output", "id", ("ids", "rows"))


@pytest.fixture
def _nothing_writeable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(caches, "_is_writeable", lambda _: False)
    monkeypatch.setattr(caches, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    caches.have_kernel_cache.cache_clear()
    monkeypatch.setenv("NUMBA_CACHE_DIR", "remembered, so that it is put back")
    monkeypatch.delenv("NUMBA_CACHE_DIR")


@pytest.mark.usefixtures("_nothing_writeable")
def test_kernels_are_cached_in_a_temporary_folder_of_the_user_alone(tmp_path: Path) -> None:
    caches.have_kernel_cache()
    folder = Path(os.environ.pop("NUMBA_CACHE_DIR"))
    assert folder == tmp_path / f"penstock-kernels-{os.getuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700
    caches.have_kernel_cache.cache_clear()
    caches.have_kernel_cache()
    assert os.environ["NUMBA_CACHE_DIR"] == str(folder)


@pytest.mark.usefixtures("_nothing_writeable")
@pytest.mark.parametrize("what", ["a link", "a dangling link", "a file", "open to all"])
def test_a_folder_that_others_may_have_made_is_not_trusted(tmp_path: Path, what: str) -> None:
    place, other = tmp_path / f"penstock-kernels-{os.getuid()}", tmp_path / "other"
    if what == "a file":
        place.write_text("")
    elif what == "open to all":
        place.mkdir()
        place.chmod(0o777)
    else:
        place.symlink_to(other)
        if what == "a link":
            other.mkdir()
    caches.have_kernel_cache()
    folder = Path(os.environ["NUMBA_CACHE_DIR"])
    assert folder not in (place, other)
    assert folder.is_dir()


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda _: (_ for _ in ()).throw(KeyError))
    assert not caches._is_writeable(caches._home())
