"""Which columns are attributes, and where compiled kernels are kept."""

import pytest
from pyspark.sql import types as T  # noqa: N812 - everybody's name for it

from penstock.errors import EventError, InputError, LimitError, PenstockError, UnsupportedValueError
from penstock.model.values import Family
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
        "p": T.DecimalType(10, 2),
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
        ("p", ("p",), Family.NUMBER),
        ("c", ("c",), Family.STRING),
    ]


@pytest.mark.parametrize(
    "kind",
    [
        T.BinaryType(),
        T.ArrayType(T.BinaryType()),
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
