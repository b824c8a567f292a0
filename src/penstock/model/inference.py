"""The schema that some events have: every attribute that one of them has, with all its families.

Text is taken for a time where all texts of an attribute can be read as one (`Time.parse`). Elements of lists
are shown as events, each list to an inference of its own.
"""

from collections.abc import Iterable, Mapping

from penstock.errors import LimitError, UnsupportedValueError
from penstock.model.events import is_list
from penstock.model.limits import ATTRIBUTES_MAX, NESTING_MAX
from penstock.model.names import check_name
from penstock.model.places import ELEMENT
from penstock.model.schema import NULLS, Attribute, Schema, labels
from penstock.model.values import Family, family_of, time_in, to_value


class Inference:
    """Shown events one by one, as they were decoded; what has no family is taken note of, too."""

    def __init__(self, above: "Inference | None" = None) -> None:
        """`above`: that of the events which have the list, where these are elements."""
        self._counted: list[int] = [0] if above is None else above._counted
        """How many attributes there are in all, those of elements too."""
        self._lists: dict[str, Inference] = {}
        self._has_this = False
        """Whether some record has the attribute that an element has which is none."""
        self._families: dict[str, set[Family]] = {}
        self._others: dict[str, set[str]] = {}
        """Types without a family, as JSON calls them."""
        self._paths: dict[str, set[tuple[str, ...]]] = {}
        """Where attributes stand that some event has under a key with a dot."""
        self._texts: set[str] = set()
        """Attributes that have had a text which is no time."""

    def name(self, names: Iterable[str]) -> None:
        """Take note of attributes that events may have, such as empty columns."""
        for name in names:
            self._add(name, (name,))

    def see(self, event: Mapping[str, object]) -> None:
        """Take note of an event."""
        self._see(event, (), 0)

    def _see(self, event: Mapping[str, object], above: tuple[str, ...], depth: int) -> None:
        if depth > NESTING_MAX:
            raise LimitError(f"objects nest too deep at {'.'.join(above)[:60]!r}", "NESTING_MAX", NESTING_MAX)
        for key, value in event.items():
            path = (*above, key)
            if isinstance(value, Mapping) and value:
                self._see(value, path, depth + 1)
                continue
            name = ".".join(path)
            self._add(name, path)
            self._has_this |= name == ELEMENT
            if value is None:
                self._others[name].add("null")
            elif isinstance(value, Mapping):
                self._others[name].add("object")
            else:
                self._see_value(name, value, depth)

    def _see_elements(self, name: str, elements: Iterable[object], depth: int) -> None:
        if depth >= NESTING_MAX:
            raise LimitError(f"lists nest too deep at {name[:60]!r}", "NESTING_MAX", NESTING_MAX)
        inner = self._lists.get(name)
        if inner is None:
            inner = self._lists[name] = Inference(self)
        for element in elements:
            if element is None:
                self._others[name].add(NULLS)
            elif isinstance(element, Mapping):
                inner._see(element, (), depth + 1)
                if not element:
                    inner._add(ELEMENT, (ELEMENT,))
                    inner._others[ELEMENT].add("object")
            else:
                inner._add(ELEMENT, (ELEMENT,))
                inner._see_value(ELEMENT, element, depth + 1)

    def _add(self, name: str, path: tuple[str, ...]) -> None:
        if name not in self._families:
            if self._counted[0] >= ATTRIBUTES_MAX:
                raise LimitError("events have too many attributes in all", "ATTRIBUTES_MAX", ATTRIBUTES_MAX)
            self._counted[0] += 1
            self._families[check_name(name)] = set()
            self._others[name] = set()
        if "." in name:
            self._paths.setdefault(name, set()).add(path)

    def _see_value(self, name: str, value: object, depth: int) -> None:
        if is_list(value):
            # Also one without elements, which is absent, or with some that rules cannot match.
            self._families[name].add(Family.LIST)
            self._see_elements(name, value, depth)
            return
        try:
            family = family_of(to_value(value))
        except UnsupportedValueError:
            if isinstance(value, int):
                # Beyond 64 bits.
                self._families[name].add(Family.NUMBER)
            else:
                self._others[name].add(type(value).__name__)
            return
        self._families[name].add(family)
        if family is Family.STRING and name not in self._texts and time_in(str(value)) is None:
            self._texts.add(name)

    def schema(self) -> Schema:
        """What all events had."""
        records = {name[:at] for name in self._families for at, one in enumerate(name) if one == "."}
        return Schema({name: self._attribute(name, name in records) for name in sorted(self._families)})

    def _attribute(self, name: str, is_record: bool) -> Attribute:
        families, others = set(self._families[name]), frozenset(self._others[name])
        paths = frozenset(self._paths.get(name, ()))
        if paths == {tuple(name.split("."))}:
            paths = frozenset()
        if is_record and not families:
            others |= {"object"}
        types = sorted(others - {"null", NULLS})
        if not (families or types):
            # Nothing but nulls: any family may come.
            return Attribute(frozenset(Family), "null", paths=paths)
        if Family.STRING in families and name not in self._texts:
            families = families - {Family.STRING} | {Family.TIME}
        label = labels(frozenset(families)) if families else " or ".join(types)
        return Attribute(
            frozenset(families), label, others=others, paths=paths, elements=self._elements(name)
        )

    def _elements(self, name: str) -> Schema | None:
        """What elements of a list are. Nothing is said where all lists are empty, or where the value of an
        element cannot be told from that of an attribute by this name."""
        inner = self._lists.get(name)
        return None if inner is None or inner._has_this or not inner._families else inner.schema()
