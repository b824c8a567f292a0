"""The same deliveries under every scheme: schemes may differ in traffic, never in what is delivered."""

from collections.abc import Iterable, Iterator


def same_deliveries(runs: Iterable[tuple[str, list[tuple[str, ...]]]]) -> Iterator[str]:
    """Compare who got each event, under each scheme, with the first one that is given."""
    first: tuple[str, list[tuple[str, ...]]] | None = None
    for scheme, results in runs:
        if first is None:
            first = scheme, results
        elif results != first[1]:
            yield f"{scheme}: not the same deliveries as under {first[0]}"
