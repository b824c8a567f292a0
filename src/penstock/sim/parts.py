"""Which brokers can reach each other: the parts of an overlay, for every kind of simulated network."""

from collections.abc import Callable, Iterable


def part_of(name: str, near: Callable[[str], Iterable[str]]) -> set[str]:
    """All that can be reached from a broker, itself among them; `near` gives those one link away."""
    found, left = {name}, [name]
    while left:
        new = set(near(left.pop())) - found
        found |= new
        left += new
    return found


def parts_of(names: Iterable[str], near: Callable[[str], Iterable[str]]) -> list[set[str]]:
    """Brokers, those that can reach each other together. Each is looked at once."""
    parts: list[set[str]] = []
    seen: set[str] = set()
    for name in names:
        if name not in seen:
            parts.append(part_of(name, near))
            seen |= parts[-1]
    return parts
