import json
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from penstock import Matcher
from penstock.errors import EventError, LimitError, PenstockError, UnsupportedValueError
from penstock.matching.batch import DOUBLE, FALSE, INTEGER, LIST, STRING, TRUE, Batch
from penstock.matching.elements import lists_of
from penstock.matching.json_events import WantedNames, _read, read_json_lines
from penstock.model.events import Unsupported, decode_object, flatten
from penstock.model.limits import ATTRIBUTES_MAX, NAME_LENGTH_MAX, STRING_LENGTH_MAX
from penstock.model.values import Value

Answer = list[dict[str, str]] | tuple[type, int | None, str]
"""For each event its attributes, with values written so that 1, 1.0 and True differ; or the error."""


def shown(attributes: Mapping[str, Value]) -> dict[str, str]:
    return {name: repr(value) for name, value in sorted(attributes.items())}


def events_of(batch: Batch, names: Sequence[str]) -> list[dict[str, str]]:
    """Read a batch back, checking its form."""
    assert batch.value_attribute.dtype == batch.value_length.dtype == batch.entries.dtype == np.int32
    assert batch.start.dtype == batch.value_bits.dtype == np.int64
    assert batch.count.dtype == np.int32
    assert batch.value_state.dtype == batch.arena.dtype == np.uint8
    assert all(array.flags.c_contiguous and array.flags.writeable for array in batch)
    assert len(batch.start) == len(batch.count)
    assert len({array.size for array in batch[2:7]}) == 1
    assert batch.count.sum() == len(batch.entries)
    events: list[dict[str, str]] = []
    for start, count in zip(batch.start.tolist(), batch.count.tolist(), strict=True):
        attributes: dict[str, Value] = {}
        for entry in batch.entries[start : start + count].tolist():
            name = names[batch.value_attribute[entry]]
            assert name not in attributes
            attributes[name] = value_of(batch, entry)
        events.append(shown(attributes))
    return events


def value_of(batch: Batch, entry: int) -> Value:
    state, bits = batch.value_state[entry], int(batch.value_bits[entry])
    length = int(batch.value_length[entry])
    if state == STRING:
        return batch.arena[bits : bits + length].tobytes().decode()
    assert length == 0
    if state == INTEGER:
        return bits
    if state == DOUBLE:
        return float(batch.value_bits.view(np.float64)[entry])
    if state == LIST:
        return lists_of(batch)[entry]
    assert state in (TRUE, FALSE)
    assert bits == 0
    return bool(state == TRUE)


def answer(data: bytes, names: Sequence[str], unsupported: Unsupported = "refuse") -> Answer:
    try:
        return events_of(read_json_lines(data, WantedNames(names), unsupported), names)
    except PenstockError as error:
        return type(error), error.row, str(error)


def rows_of(data: bytes) -> Iterator[tuple[int, bytes]]:
    for row, line in enumerate(data.split(b"\n"), 1):
        content = line.removeprefix(b"\xef\xbb\xbf").strip() if row == 1 else line.strip()
        if content:
            yield row, content


def expected(data: bytes, names: Sequence[str], unsupported: Unsupported = "refuse") -> Answer:
    """The answer by the model alone, for what has only wanted names."""
    events: list[dict[str, str]] = []
    for row, line in rows_of(data):
        try:
            flat = flatten(decode_object(line), unsupported)
        except PenstockError as error:
            located = error.in_row(row)
            return type(located), located.row, str(located)
        events.append(shown({name: value for name, value in flat.items() if name in names}))
    return events


def leaves(attributes: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in attributes.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def expected_of_some(data: bytes, names: Sequence[str], unsupported: Unsupported) -> Answer:
    """The answer by the model where there are unwanted names, which may have any value."""
    events: list[dict[str, str]] = []
    for row, line in rows_of(data):
        attributes: dict[str, Value] = {}
        try:
            for path, value in leaves(decode_object(line)):
                if path not in names or value is None:
                    continue
                flat = flatten({"value": value}, unsupported)
                if flat and path in attributes:
                    raise EventError("twice")
                if flat:
                    attributes[path] = flat["value"]
        except PenstockError as error:
            return type(error), row, ""
        events.append(shown(attributes))
    return events


def paths_of(data: bytes) -> list[str]:
    """All names in the lines that are JSON."""
    paths: set[str] = set()
    for _row, line in rows_of(data):
        try:
            paths.update(path for path, _value in leaves(decode_object(line)))
        except PenstockError:
            continue
    return sorted(paths)


spaces = st.sampled_from(["", "", "", "", " ", "  ", "\t", "\r", " \t\r "])
keys = st.sampled_from(
    ["a", "b", "c", "a.b", "b.c", "a.b.c", "é", "name", "longer_than_thirty_two_bytes_it_is"]
)
escaped = st.lists(
    st.sampled_from(
        [*"ab .é😀\x7f", r"\n", r"\"", r"\\", r"\/", r"\b\f\r\t", r"\u00e9", r"\ud83d\uDE00", r"\u0041"]
    )
).map("".join)
numbers = st.one_of(
    st.sampled_from(
        [
            "0",
            "-0",
            "0.0",
            "-0.0",
            "1",
            "-1",
            "01",
            "1.",
            ".5",
            "1e5",
            "1E+5",
            "1e-5",
            "9007199254740992",
            "9007199254740993",
            "9007199254740993.0",
            "9223372036854775807",
            "9223372036854775808",
            "-9223372036854775808",
            "-9223372036854775809",
            "18446744073709551616",
            "0.1",
            "0.30000000000000004",
            "1e22",
            "1e23",
            "123e-22",
            "1e-23",
            "1e400",
            "1e-400",
            "0e999",
            "1e308",
            "5e-324",
            "2.5e+07",
            "-",
            "+",
            "1e",
            "1e+",
            "1.e5",
            "9999999999999999999",
            "1000000000000000000",
            "0.1e1",
            "123456789012345678901234567890.5",
            "NaN",
            "Infinity",
        ]
    ),
    st.from_regex(
        r"-?(0|[1-9][0-9]{0,24})(\.[0-9]{1,24})?([eE][+-]?[0-9]{1,3})?",
        fullmatch=True,
        alphabet="-+.eE0123456789",
    ),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-(2**64), 2**64).map(str),
)
strings = st.one_of(
    escaped.map(lambda text: f'"{text}"'),
    st.text(max_size=40).map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.text(max_size=40).map(json.dumps),
)
odd = st.sampled_from(["null", "[]", "{}", "{ }", "tru", '"\\x"', '"\\ud800"', '"'])
plain = st.one_of(st.integers(-99, 99).map(str), st.sampled_from(["1.5", "true", "false", '"x"']), strings)
scalars = st.one_of(plain, plain, plain, plain, plain, plain, numbers, odd)


@st.composite
def objects(draw: st.DrawFn, values: st.SearchStrategy[str], names: st.SearchStrategy[str]) -> str:
    is_unique, is_ascii = draw(st.sampled_from([(True, True), (True, False), (True, True), (False, True)]))
    before, between, after = draw(st.tuples(spaces, spaces, spaces))
    members = [
        f"{before}{json.dumps(name, ensure_ascii=is_ascii)}{between}:{after}{draw(values)}{before}"
        for name in draw(st.lists(names, min_size=1, max_size=5, unique=is_unique))
    ]
    return "{" + ",".join(members) + "}"


@st.composite
def lists(draw: st.DrawFn, values: st.SearchStrategy[str]) -> str:
    items = [draw(spaces) + item + draw(spaces) for item in draw(st.lists(values, max_size=3))]
    return "[" + ",".join(items) + "]"


def any_objects(names: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Most of them can be events."""
    anything = st.recursive(
        scalars, lambda inner: st.one_of(objects(inner, names), lists(inner)), max_leaves=6
    )
    nested = objects(st.one_of(plain, plain, objects(plain, names)), names)
    values = st.one_of(plain, plain, plain, plain, numbers, nested, anything)
    return objects(st.one_of(plain, values), names)


@st.composite
def texts(draw: st.DrawFn, names: st.SearchStrategy[str]) -> bytes:
    """Lines, some of them again and again with a few bytes changed, so that guesses are right and wrong."""
    lines: list[bytes] = []
    for line in draw(st.lists(any_objects(names), min_size=1, max_size=3)):
        encoded = draw(spaces).encode() + line.encode("utf-8", "surrogatepass") + draw(spaces).encode()
        lines += [encoded] * draw(st.integers(1, 3))
    lines = draw(st.permutations(lines))
    if draw(st.sampled_from([True, False, False])):
        lines = [mangled(draw, line) for line in lines]
    blank = st.sampled_from([b"", b"", b"", b"  ", b"\x0b\x0c", b"\r"])
    lines = [part for line in lines for part in (draw(blank), line) if part or draw(st.booleans())]
    ending = draw(st.sampled_from([b"\n", b"\r\n"]))
    mark = draw(st.sampled_from([b"", b"", b"", b"\xef\xbb\xbf"]))
    return mark + ending.join(lines) + draw(st.sampled_from([b"", ending]))


def mangled(draw: st.DrawFn, line: bytes) -> bytes:
    changed = bytearray(line)
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(changed)))
        cut = draw(st.integers(0, 2))
        piece = draw(
            st.sampled_from([*(bytes([b]) for b in b'"\\,:{}[]0-.eE a\x00\n\x1f\x80\xe9'), b"", b"null"])
        )
        changed[at : at + cut] = piece
    return bytes(changed)


modes: st.SearchStrategy[Unsupported] = st.sampled_from(["refuse", "skip"])


def without_row(data: bytes, row: int | None) -> bytes:
    assert row is not None
    lines = data.split(b"\n")
    return b"\n".join(lines[: row - 1] + lines[row:])


@pytest.mark.property
@given(texts(keys), modes)
def test_lines_are_read_as_the_model_reads_them(data: bytes, unsupported: Unsupported) -> None:
    names = paths_of(data)
    assume("" not in names)  # which is an error only in the model, since it cannot be wanted
    # After an error the rest is read without that row.
    while isinstance(found := answer(data, names, unsupported), tuple):
        assert found == expected(data, names, unsupported)
        data = without_row(data, found[1])
    assert found == expected(data, names, unsupported)


@pytest.mark.property
@given(texts(keys), st.lists(keys, unique=True, max_size=4), modes)
def test_unwanted_attributes_are_only_checked_to_be_json(
    data: bytes, names: list[str], unsupported: Unsupported
) -> None:
    while isinstance(found := answer(data, names, unsupported), tuple):
        check_some(data, names, unsupported)
        data = without_row(data, found[1])
    check_some(data, names, unsupported)


def check_some(data: bytes, names: Sequence[str], unsupported: Unsupported) -> None:
    found, wanted = answer(data, names, unsupported), expected_of_some(data, names, unsupported)
    if isinstance(found, tuple) and isinstance(wanted, tuple):
        assert found[:2] == wanted[:2]
    else:
        assert found == wanted


@pytest.mark.property
@given(st.lists(numbers, min_size=1))
@example(["9007199254740993.0", "0.1", "-0", "-0.0", "1.7976931348623157e308", "2.2250738585072011e-308"])
def test_numbers_are_read_exactly(given_numbers: list[str]) -> None:
    for number in given_numbers:
        data = b'{"a":%s}' % number.encode()
        assert answer(data, ["a"]) == expected(data, ["a"])
        check_some(data, ["b"], "refuse")


LINES = [
    b'{"a":1}\n{"a":2}',
    b'{"a":1}\r\n\r\n{"a":2}\r\n',
    b'\xef\xbb\xbf  {"a":1}\n\n \t \n{"a":}',
    b'{"a":1}\n\xef\xbb\xbf{"a":1}',
    b'\x0b{"a":1}\x0c\n\x0b\n{"a":}',
    b'{"a":1}x',
    b'{"a":1}{"a":1}',
    b'{"a":1,}',
    b'{,"a":1}',
    b'{"a":1 "b":2}',
    b'{"a":1,"b":2}\n{"a":1{"b":2}',
    b'{"c":1,"a":{"b":1}}\n{"a":{"c":1{"b":1}}',
    b'{"a" 1}',
    b'{"a":1',
    b'{"a":"x',
    b'{"a":"x\\',
    b'{"a":"\\u12',
    b'{"a":"x\ny"}',
    b'{"a":"x\ty"}',
    b'{"a":"\\t\\u0000\\u00e9\\u20ac\\ud83d\\ude00\\/\\"\\\\ \\b\\f\\n\\r"}',
    b'{"a":"\\ud83d"}',
    b'{"a":"\\ud83d\\u0041"}',
    b'{"a":"\\udc00"}',
    b'{"a":"\\x"}',
    b'{"\\u0061":1,"b":2}',
    b'{"\\u0061":1,"a":2}',
    b'{"a":1,"a":"x"}',
    b'{"a":{"b":1},"a":{"c":2}}',
    b'{"a":{"b":1},"a":5}',
    b'{"a":5,"a":{"b":1}}',
    b'{"a":{"b":1},"a.b":2}',
    b'{"a":{"b":{"c":1}},"a.b":{"d":2}}',
    b'{"a.b":{"c":1}}\n{"a":{"b.c":1}}\n{"a.b.c":1}\n{"a":{"b":{"c":1}}}',
    b'{"a":{"b":1},"c":2}\n{"a":{},"c":3}',
    b'{"a":{"b":{}},"c":2}',
    b'{"a":null}',
    b'{"a":[1,[2,{"x":[]}]]}',
    b'{"a":null,"b":1}',
    b"{}",
    b"{ }",
    b"[]",
    b"1",
    b"null",
    b'"a"',
    b'{"a":nul}',
    b'{"a":truex}',
    b'{"a":falsey}',
    b'{"a":"\xff"}\n{"a":"ok"}',
    b'{"a":"ok"}\n{"a":"\xed\xa0\x80"}',
    b'{"a":"\xc3\xa9"}\n{"\xc3\xa9":"\xf0\x9f\x98\x80"}',
    b'{"a":1}\x00',
    b'{"a":"' + b"x" * STRING_LENGTH_MAX + b'"}',
    b'{"a":"' + b"x" * (STRING_LENGTH_MAX + 1) + b'"}',
    b'{"a":"' + b"\xc3\xa9" * STRING_LENGTH_MAX + b'"}',
    b'{"a":' + b"[" * 100 + b"]" * 100 + b"}",
    b'{"a":' + b"[" * 59 + b"]" * 59 + b',"b":1}',
    b'{"a":' * 32 + b'{"b":1}' + b"}" * 32,
    b'{"a":' * 34 + b'{"b":1}' + b"}" * 34,
    b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    b"[" * 100_000,
    b'{"a":1,"%s":2}' % (b"n" * NAME_LENGTH_MAX),
    b"{" + b",".join(b'"k%d":%d' % (n, n) for n in range(ATTRIBUTES_MAX)) + b"}",
    b"{" + b",".join(b'"k%d":%d' % (n, n) for n in range(ATTRIBUTES_MAX + 1)) + b"}",
    b"",
    b"\n\n",
]


@pytest.mark.parametrize("unsupported", ["refuse", "skip"])
@pytest.mark.parametrize("data", LINES, ids=lambda data: repr(data[:40]))
def test_edges_are_read_as_the_model_reads_them(data: bytes, unsupported: Unsupported) -> None:
    names = paths_of(data) or ["a"]
    # Twice: the second time names are guessed.
    for lines in (data, data + b"\n" + data):
        assert answer(lines, names, unsupported) == expected(lines, names, unsupported)
    for some in ([], ["a"], ["a.b"], ["a", "a.b", "a.b.c"]):
        check_some(data, some, unsupported)


PLAIN = (
    b'{"kind":"trade","price":12.5,"volume":-300,"open":true,"note":"caf\xc3\xa9","extra":[1,{"x":null}]}\n'
)


@pytest.mark.parametrize(
    "line",
    [
        PLAIN,
        b' { "kind" : "x" , "price" : 1e-5 }\r\n',
        b'{"kind":{"of":"x"},"price":0.30000000000000004,"volume":9223372036854775807}\n',
        b'{"kind.of":"say \\"yes\\" \\ud83d\\ude00","other":"\\u00e9\\ud83d\\ude00"}\n',
        b'{"kind":{"of":"x","other":{}},"extra":{},"more":{"deep":[[[{"a":[]}]]]}}\n',
        b'{"kind":{"other":1},"note":{"deep":{}}}\n',
        b'{"kind":null,"price":null,"volume" : null , "note":"x"}\n',
        b'{"kind":{},"price":{ },"note":null}\n',
        b"{}\n",
        b'{"kind":null}\n',
    ],
)
def test_plain_lines_are_read_by_the_kernel(line: bytes) -> None:
    names = ["kind", "kind.of", "price", "volume", "open", "note"]
    batch, slow = _read(line * 3, WantedNames(names), "refuse")
    assert slow == 0
    assert events_of(batch, names) == expected_of_some(line * 3, names, "refuse")


def test_only_the_lines_that_need_it_are_read_slowly() -> None:
    data = PLAIN * 5 + b'{"kind":"x","price":[null]}\n' + PLAIN * 5 + b'{"k\\u0069nd":"y"}\n'
    batch, slow = _read(data, WantedNames(["kind", "price"]), "skip")
    assert slow == 2
    assert events_of(batch, ["kind", "price"]) == expected_of_some(data, ["kind", "price"], "skip")


def test_only_lines_that_are_not_ascii_are_suspected_of_not_being_text() -> None:
    data = b'{"a":"x"}\n{"a":"\xc3\xa9"}\n{"a":"y"}\n{"a":"\xc3"}\n'
    with pytest.raises(EventError, match="row 4: not a JSON object"):
        read_json_lines(data, WantedNames(["a"]))
    assert _read(data.replace(b'\xc3"', b'"'), WantedNames(["a"]), "refuse")[1] == 0


def test_the_first_error_is_the_one_raised() -> None:
    data = b'{"a":1}\n\n{"a":18446744073709551616}\n{"a":\n'
    with pytest.raises(UnsupportedValueError, match=r"^row 3: 'a': ") as caught:
        read_json_lines(data, WantedNames(["a"]))
    assert caught.value.row == 3
    with pytest.raises(EventError, match=r"^row 14: "):
        read_json_lines(data, WantedNames(["b"]), first_row=11)


def test_a_limit_is_only_that_of_wanted_attributes() -> None:
    long = b'{"a":1,"b":"' + b"x" * (STRING_LENGTH_MAX + 1) + b'"}'
    assert answer(long, ["a"]) == [{"a": "1"}]
    with pytest.raises(LimitError):
        read_json_lines(long, WantedNames(["b"]))


def test_a_byte_order_mark_is_passed_over_only_at_the_start_of_a_file() -> None:
    data = b'\xef\xbb\xbf{"a":1}'
    assert answer(data, ["a"]) == [{"a": "1"}]
    with pytest.raises(EventError, match="row 2"):
        read_json_lines(data, WantedNames(["a"]), first_row=2)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_bytes_can_be_read_and_stay_as_they_are(kind: type) -> None:
    data = PLAIN * 2 + b'{"kind":"\\n","\\u0061":1}'
    given_data = kind(data)
    batch = read_json_lines(given_data, WantedNames(["kind", "a"]))
    assert events_of(batch, ["kind", "a"]) == [{"kind": "'trade'"}] * 2 + [{"a": "1", "kind": r"'\n'"}]
    assert bytes(given_data) == data


def test_many_names_are_told_apart() -> None:
    names = [f"{group}.part{number}" for group in ("a", "b.c", "é") for number in range(3000)]
    event = {"a": {f"part{n}": n for n in range(3000)}, "b": {"c": {"part7": "x"}}, "é.part9": True}
    data = json.dumps(event, ensure_ascii=False).encode()
    assert answer(data, names) == expected(data, names)
    assert slow_lines(data, names) == 0


def test_names_are_checked() -> None:
    with pytest.raises(EventError):
        WantedNames(["a", ""])
    with pytest.raises(EventError, match="twice"):
        WantedNames(["a", "b", "a"])
    with pytest.raises(EventError, match="refuse"):
        read_json_lines(b"", WantedNames(["a"]), "drop")  # type: ignore[arg-type]


def slow_lines(data: bytes, names: Sequence[str]) -> int:
    return _read(data, WantedNames(names), "refuse")[1]


LONG = "9" * 5_000


@pytest.mark.parametrize("other", [f"{LONG}", f"-{LONG}", f"[1, {LONG}]", f'{{"y": {LONG}}}'])
def test_an_integer_of_any_length_that_nobody_names_is_no_error(other: str) -> None:
    line = f'{{"other": {other}, "x": 2, "s": "{LONG}", "t": "\\u00e9"}}'
    matcher = Matcher({"a": "x > 1 and t = '\xe9'", "b": "x = 1"})
    assert list(matcher.match_json(line + '\n{"x": 1}\n')) == [["a"], ["b"]]
    assert matcher.match_json(line).offsets.tolist() == [0, 1]


@pytest.mark.parametrize("rest", ["1e999", "NaN", "nope", f"{LONG}x", "{", "01"])
def test_a_line_with_a_long_integer_is_json_all_the_same(rest: str) -> None:
    with pytest.raises(EventError, match=r"^row 1: not a JSON object"):
        Matcher({"a": "x > 1"}).match_json(f'{{"other": {LONG}, "x": {rest}}}\n')


def test_an_integer_of_any_length_that_is_named_is_refused_or_left_out() -> None:
    matcher = Matcher({"a": "x > 1 or y = 1"})
    line = f'{{"x": {LONG}, "y": 1}}\n'
    with pytest.raises(EventError, match="an integer of hundreds of digits does not fit"):
        matcher.match_json(line)
    assert list(matcher.match_json(line, unsupported="skip")) == [["a"]]
