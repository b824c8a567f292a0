"""What can only be seen of a pipeline's settings together, or by reading what they say."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import PenstockError
from penstock.filters.parsing import parse
from penstock.net.addresses import parse_url

if TYPE_CHECKING:
    from penstock.spark.pipeline.config import Pipeline

TRIGGER_WORDS: Final = ("available-now", "once")
_EVERY: Final = re.compile(r"\s*(\d+)\s*(milliseconds?|seconds?|minutes?|hours?)\s*", re.IGNORECASE)
REMOTE: Final = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]+:/")
FORMATS: Final = {
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
}
_COMPRESSED: Final = (".gz", ".bz2", ".xz", ".zst", ".snappy")

_Found = Iterator[tuple[str, str]]


def mistakes(made: "Pipeline") -> _Found:
    """Yield (key, what is wrong), for all that is."""
    yield from _about_streams(made)
    yield from _about_source(made)
    yield from _about_sinks(made)
    if made.master is not None and made.master.startswith("sc://"):
        yield "master", "Spark Connect is no master: give local[N], spark://host:7077, yarn or k8s://…"
    if made.route.layout is not None and not _is_layout(made.route.layout):
        yield (
            "route.layout",
            f"is auto, or parts of the table x parts of the events (2x3), not {made.route.layout!r:.40}",
        )
    for key in made.settings:
        if key in ("spark.master", "spark.app.name"):
            yield key, f"is set as {'master' if key == 'spark.master' else 'name'}, above all tables"


def trigger_of(text: str) -> dict[str, Any] | None:
    """A trigger as Spark's `trigger(…)` takes it; None where it is none that we know."""
    if text == "available-now":
        return {"availableNow": True}
    if text == "once":
        return {"once": True}
    every = _EVERY.fullmatch(text)
    return {"processingTime": f"{every[1]} {every[2].lower()}"} if every else None


def format_of(path: str) -> str | None:
    """The format that a file's name tells, also where it is compressed."""
    name = Path(path.rstrip("/*"))
    if name.suffix.lower() in _COMPRESSED:
        name = name.with_suffix("")
    return FORMATS.get(name.suffix.lower())


def _about_streams(made: "Pipeline") -> _Found:
    if not made.is_stream:
        for key in ("checkpoint", "trigger"):
            if getattr(made, key) is not None:
                yield key, 'is for streams; files are read once (kind = "folder" is a stream of them)'
        return
    if made.checkpoint is None:
        yield "checkpoint", "is missing; a stream notes there what it has done: a folder of its own"
    elif REMOTE.match(made.checkpoint):
        yield (
            "checkpoint",
            "is a folder of this machine, or one that is mounted: plain files are written there",
        )
    if made.trigger is not None and trigger_of(made.trigger) is None:
        yield "trigger", f'is "available-now", "once" or as "5 seconds", not {made.trigger!r:.40}'
    kind = _kind(made.source)
    if made.trigger in TRIGGER_WORDS and kind in ("rate", "socket"):
        yield (
            "trigger",
            f'{made.trigger} has no end to wait for in a source of kind "{kind}"; give "5 seconds"',
        )


def _about_source(made: "Pipeline") -> _Found:
    source: Any = made.source
    kind = _kind(source)
    if kind == "files" and source.format is None:
        paths = [source.path] if isinstance(source.path, str) else source.path
        untold = [path for path in paths if format_of(path) is None]
        if untold:
            yield "source.format", f"is missing; {untold[0]} does not end in .json, .jsonl, .csv or .parquet"
        elif len({format_of(path) for path in paths}) > 1:
            yield "source.path", "files of several formats; give those of one"
    if kind == "penstock":
        yield from _about_network("source", source)
        if source.filter is not None:
            yield from _about_filter("source.filter", source.filter)
    for name in source.columns:
        if not name:
            yield "source.columns", "a column has no name"


def _about_sinks(made: "Pipeline") -> _Found:
    taken: dict[str, str] = {}
    source: Any = made.source
    paths = getattr(source, "path", [])
    for path in [paths] if isinstance(paths, str) else paths:
        taken[str(path)] = "source.path"
    if made.checkpoint is not None:
        taken[made.checkpoint] = "checkpoint"
    for at, sink in enumerate(made.sinks):
        key = f"sinks[{at}]"
        path = getattr(sink, "path", None)
        if path is not None:
            if path in taken:
                yield f"{key}.path", f"is {taken[path]} already; each has a folder of its own"
            taken[path] = f"{key}.path"
        if _kind(sink) == "penstock":
            yield from _about_network(key, sink)
            advertise = getattr(sink, "advertise", None)
            if advertise is not None:
                yield from _about_filter(f"{key}.advertise", advertise)


def _about_network(where: str, given: Any) -> _Found:
    for url in [given.url] if isinstance(given.url, str) else given.url:
        try:
            parse_url(url)
        except PenstockError as error:
            yield f"{where}.url", str(error)
    if given.key is not None and given.cert is None:
        yield f"{where}.key", "is the key of a certificate: give cert too"


def _about_filter(where: str, text: str) -> _Found:
    try:
        parse(text)
    except PenstockError as error:
        yield where, " ".join(str(error).split())


def _is_layout(text: str) -> bool:
    from penstock.spark.layout import Layout

    if text == "auto":
        return True
    try:
        Layout.parse(text)
    except PenstockError:
        return False
    return True


def _kind(given: Any) -> str:
    return str(given.__struct_config__.tag)
