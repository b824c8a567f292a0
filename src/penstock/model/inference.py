"""The schema that some events have: every attribute that one of them has, with all its families.

Text is taken for a time where all texts of an attribute can be read as one (`Time.parse`).
"""

from collections.abc import Mapping

from penstock.errors import LimitError, UnsupportedValueError
from penstock.model.events import is_list, read_list
from penstock.model.limits import ATTRIBUTES_MAX, NESTING_MAX
from penstock.model.names import check_name
from penstock.model.schema import Attribute, Schema, labels
from penstock.model.values import Family, Time, family_of, to_value


class Inference:
    """Shown events one by one, as they were decoded; what has no family is taken note of, too."""

    def __init__(self) -> None:
        self._families: dict[str, set[Family]] = {}
        self._other: dict[str, str] = {}
        """Types without a family."""
        self._texts: set[str] = set()
        """Attributes that have had a text which is no time."""

    def see(self, event: Mapping[str, object]) -> None:
        """Take note of an event."""
        self._see(event, "", 0)

    def _see(self, event: Mapping[str, object], prefix: str, depth: int) -> None:
        if depth > NESTING_MAX:
            raise LimitError(f"objects nest too deep at {prefix[:60]!r}", "NESTING_MAX", NESTING_MAX)
        for key, value in event.items():
            name = prefix + key
            if isinstance(value, Mapping) and value:
                self._see(value, name + ".", depth + 1)
                continue
            if name not in self._families:
                self._add(name)
            if value is not None:
                self._see_value(name, value)

    def _add(self, name: str) -> None:
        if len(self._families) >= ATTRIBUTES_MAX:
            raise LimitError("events have too many attributes in all", "ATTRIBUTES_MAX", ATTRIBUTES_MAX)
        self._families[check_name(name)] = set()

    def _see_value(self, name: str, value: object) -> None:
        try:
            read = read_list(value, name) if is_list(value) else to_value(value)
        except UnsupportedValueError:
            self._other[name] = "array" if is_list(value) else type(value).__name__
            return
        if read is None:
            return
        family = family_of(read)
        self._families[name].add(family)
        if family is Family.STRING and name not in self._texts and not _is_time(str(value)):
            self._texts.add(name)

    def schema(self) -> Schema:
        """What all events had."""
        return Schema({name: self._attribute(name) for name in sorted(self._families)})

    def _attribute(self, name: str) -> Attribute:
        families = set(self._families[name])
        if not families:
            # Nothing but nulls: any family may come.
            other = self._other.get(name)
            return Attribute(frozenset(Family), "null") if other is None else Attribute(frozenset(), other)
        if Family.STRING in families and name not in self._texts:
            families = families - {Family.STRING} | {Family.TIME}
        return Attribute(frozenset(families), labels(frozenset(families)))


def _is_time(text: str) -> bool:
    try:
        Time.parse(text)
    except UnsupportedValueError:
        return False
    return True
