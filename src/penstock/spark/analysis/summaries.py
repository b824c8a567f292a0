"""What is known of one attribute from a part of the events: pure functions over Arrow columns.

`summary_of` looks at a column of a batch, `merged` puts two together. Counts, ends and the sample of distinct
values are exactly the same however the events were cut into parts and in whatever order these are merged.
"""

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import numpy as np

from penstock.model.arrow import NANOSECONDS_OF_UNIT, family_of_arrow
from penstock.model.limits import INTEGER_MAX, STRING_LENGTH_MAX
from penstock.model.values import Family
from penstock.spark.analysis import sketches
from penstock.spark.analysis.sketches import Counted

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLE: Final = 2_048
"""Up to so many distinct values are counted exactly. The number of more is estimated, with a standard error
of about 1 / sqrt(SAMPLE), 2.2 %."""

COMMON: Final = 512
"""Values that are watched as possibly frequent: each with a share above 1 / (COMMON + 1) is found."""

TEXT_MAX: Final = 256
"""Characters of a string that is kept: a longer one is counted, but not shown."""

_DAY: Final = 86_400 * 1_000_000_000


class Usable(NamedTuple):
    """The values of a column that events can have, and how many there were besides."""

    values: "pa.Array"
    """Integers (also for bools and nanoseconds of times), doubles (also for decimals, rounded) or strings; no
    null, no NaN, no -0.0."""
    nan: int
    unusable: int
    """Times outside of 64-bit nanoseconds; strings that are not UTF-8 or longer than a string may be."""


class Summary(NamedTuple):
    """What is known of an attribute. `low` to `high` are all values, `first` to `last` the finite ones."""

    rows: int
    present: int
    nan: int
    unusable: int
    low: Any
    high: Any
    first: Any
    last: Any
    sample: Counted
    common: Counted

    @property
    def is_complete(self) -> bool:
        """Whether every distinct value is in the sample."""
        return len(self.sample.hashes) <= SAMPLE


NOTHING: Final = Summary(0, 0, 0, 0, None, None, None, None, sketches.nothing("O"), sketches.nothing("O"))
"""Of no events."""


def usable(array: "pa.Array") -> Usable:
    """The values of a column that has a family, as they are counted."""
    import pyarrow as pa

    array = array.drop_null()
    family = family_of_arrow(array.type)
    if family is Family.STRING:
        return _usable_texts(array)
    if family is Family.TIME:
        return _usable_times(array)
    if pa.types.is_decimal(array.type):
        # By way of text, which rounds correctly: what prints alike is counted together.
        array = array.cast(pa.string()).cast(pa.float64())
    if not pa.types.is_floating(array.type):
        return Usable(array.cast(pa.int64()), 0, 0)
    # Adding zero makes 0.0 of -0.0.
    doubles = array.cast(pa.float64()).to_numpy(zero_copy_only=False) + 0.0
    is_nan = np.isnan(doubles)
    return Usable(pa.array(doubles[~is_nan]), int(is_nan.sum()), 0)


def _usable_texts(array: "pa.Array") -> Usable:
    import pyarrow as pa
    import pyarrow.compute as pc

    count = len(array)
    array = array.cast(pa.large_string())
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        texts = [_decoded(raw) for raw in array.cast(pa.large_binary()).to_pylist()]
        array = pa.array([text for text in texts if text is not None], pa.large_string())
    array = array.filter(pc.less_equal(pc.utf8_length(array), STRING_LENGTH_MAX))
    return Usable(array, 0, count - len(array))


def _decoded(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _usable_times(array: "pa.Array") -> Usable:
    import pyarrow as pa

    if pa.types.is_timestamp(array.type):
        scale, ticks = NANOSECONDS_OF_UNIT[array.type.unit], array.cast(pa.int64())
    elif pa.types.is_date32(array.type):
        scale, ticks = _DAY, array.cast(pa.int32()).cast(pa.int64())
    else:
        scale, ticks = 1_000_000, array.cast(pa.int64())
    given = ticks.to_numpy(zero_copy_only=False)
    inside = given[(given >= -((INTEGER_MAX + 1) // scale)) & (given <= INTEGER_MAX // scale)]
    return Usable(pa.array(inside * scale, pa.int64()), 0, len(given) - len(inside))


def summary_of(array: "pa.Array") -> Summary:
    """What a column of a batch tells."""
    values, nan, unusable = usable(array)
    found, low, high, first, last = _texts(values) if _is_text(values) else _numbers(values)
    return Summary(
        rows=len(array),
        present=len(values) + nan,
        nan=nan,
        unusable=unusable,
        low=low,
        high=high,
        first=first,
        last=last,
        sample=sketches.smallest(found, SAMPLE + 1),
        common=sketches.frequent(found, COMMON),
    )


def _is_text(values: "pa.Array") -> bool:
    import pyarrow as pa

    return bool(pa.types.is_large_string(values.type))


def _texts(values: "pa.Array") -> tuple[Counted, Any, Any, None, None]:
    import pyarrow.compute as pc

    if not len(values):
        return sketches.nothing("O"), None, None, None, None
    each = pc.value_counts(values)
    texts = each.field("values").to_pylist()
    kept = np.empty(len(texts), np.object_)
    kept[:] = [text if len(text) <= TEXT_MAX else None for text in texts]
    counts = each.field("counts").to_numpy(zero_copy_only=False)
    # Cutting keeps the order: the start of the least text is the least of the starts.
    low, high = min(texts)[:TEXT_MAX], max(texts)[:TEXT_MAX]
    return sketches.counted(sketches.hash_texts(texts), kept, counts), low, high, None, None


def _numbers(values: "pa.Array") -> tuple[Counted, Any, Any, Any, Any]:
    numbers = values.to_numpy(zero_copy_only=False)
    found = sketches.counted(sketches.hash_numbers(numbers), numbers)
    finite = numbers[np.isfinite(numbers)] if numbers.dtype.kind == "f" else numbers
    return found, *_ends(numbers), *_ends(finite)


def _ends(numbers: Any) -> tuple[Any, Any]:
    return (numbers.min().item(), numbers.max().item()) if len(numbers) else (None, None)


def merged(a: Summary, b: Summary) -> Summary:
    """What two parts tell together."""
    return Summary(
        rows=a.rows + b.rows,
        present=a.present + b.present,
        nan=a.nan + b.nan,
        unusable=a.unusable + b.unusable,
        low=min(_known(a.low, b.low), default=None),
        high=max(_known(a.high, b.high), default=None),
        first=min(_known(a.first, b.first), default=None),
        last=max(_known(a.last, b.last), default=None),
        sample=sketches.smallest(sketches.united(a.sample, b.sample), SAMPLE + 1),
        common=sketches.frequent(sketches.united(a.common, b.common), COMMON),
    )


def _known(*values: Any) -> list[Any]:
    return [value for value in values if value is not None]


def encode(summary: Summary) -> bytes:
    """A summary as bytes, to be sent."""
    *plain, sample, common = summary
    return msgspec.msgpack.encode([*plain, sketches.pack(sample), sketches.pack(common)])


def decode(sent: bytes) -> Summary:
    """What `encode` made."""
    plain = msgspec.msgpack.decode(sent)
    return Summary._make([*plain[:-2], sketches.unpack(plain[-2]), sketches.unpack(plain[-1])])
