"""The same deliveries under every scheme and protocol: they differ in traffic, never in what is delivered."""

from collections.abc import Iterable, Iterator


def same_deliveries(runs: Iterable[tuple[str, list[tuple[str, ...]]]]) -> Iterator[str]:
    """Compare who got each event, under each scheme or protocol, with the first one that is given."""
    first: tuple[str, list[tuple[str, ...]]] | None = None
    for way, results in runs:
        if first is None:
            first = way, results
        elif results != first[1]:
            yield f"{way}: not the same deliveries as under {first[0]}"
