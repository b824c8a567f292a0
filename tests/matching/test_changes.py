"""Any interleaving of changes, merges, saves and loads leaves the engine equal to the reference."""

import tempfile
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from clause_cases import clauses_of, keep_all
from matching_cases import EVENTS, IDS, NAMES, PREDICATE, Attributes
from penstock.errors import UnknownSubscriptionError
from penstock.filters.expression import Expression, normalise
from penstock.filters.predicate import Predicate
from penstock.matching import store as store_module
from penstock.matching.matcher import Matcher
from penstock.matching.reference import ReferenceMatcher
from penstock.model.names import Id, id_order
from strategies import all_constraints

pytestmark = pytest.mark.property

CLAUSES = clauses_of(all_constraints(NAMES))


class Changes(RuleBasedStateMachine):
    """Any interleaving of adds, removes, merges, saves and loads leaves the engine equal to the reference."""

    known = Bundle("known")

    @initialize()
    def start(self) -> None:
        self.patch = pytest.MonkeyPatch()
        self.limit()
        self.engine = Matcher()
        self.held: dict[Id, list[Predicate]] = {}

    def limit(self) -> None:
        # Small limits, so that a few filters make parts, and parts are merged.
        for name, value in (("_BUFFER", 2), ("_SEAL", 6), ("_DELTA", 12), ("_TINY", 6), ("_SMALL", 6)):
            self.patch.setattr(store_module, name, value)

    def teardown(self) -> None:
        self.patch.undo()

    @rule(target=known, key=IDS, expression=PREDICATE)
    def add(self, key: Id, expression: Expression) -> tuple[Id, Predicate]:
        predicate = normalise(expression)
        self.engine.add(key, predicate)
        self.held.setdefault(key, []).append(predicate)
        return key, predicate

    @rule(pairs=st.lists(st.tuples(IDS, PREDICATE), max_size=6))
    def add_many(self, pairs: list[tuple[Id, Expression]]) -> None:
        made = [(key, normalise(expression)) for key, expression in pairs]
        self.engine.add_many(made)
        for key, predicate in made:
            self.held.setdefault(key, []).append(predicate)

    @rule(one=known)
    def remove_one(self, one: tuple[Id, Predicate]) -> None:
        key, predicate = one
        if predicate in self.held.get(key, []):
            self.engine.remove(key, predicate)
            self.held[key].remove(predicate)
            if not self.held[key]:
                del self.held[key]

    @rule(key=IDS)
    def remove_all(self, key: Id) -> None:
        if key in self.held:
            self.engine.remove(key)
            del self.held[key]
        else:
            with pytest.raises(UnknownSubscriptionError):
                self.engine.remove(key)

    @rule(keys=st.lists(IDS, unique=True, max_size=4))
    def remove_many(self, keys: list[Id]) -> None:
        if all(key in self.held for key in keys):
            self.engine.remove_many(keys)
            for key in keys:
                del self.held[key]
        else:
            with pytest.raises(UnknownSubscriptionError):
                self.engine.remove_many(keys)

    @rule()
    def compact(self) -> None:
        self.engine.compact()

    @rule(events=EVENTS)
    def learn(self, events: list[Attributes]) -> None:
        self.engine.learn(events)

    @rule()
    def save_and_load(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.engine.save(Path(folder) / "saved")
            self.engine = Matcher.load(Path(folder) / "saved")

    @rule(events=EVENTS)
    def match(self, events: list[Attributes]) -> None:
        reference = ReferenceMatcher((key, p) for key, held in self.held.items() for p in held)
        expected = [reference.match(event) for event in events]
        assert list(self.engine.match_batch(events)) == expected
        assert self.engine.match(events[0]) == expected[0]
        assert sorted({one.id for one in self.engine.explain(events[0])}, key=id_order) == expected[0]
        if self.held:
            integers = not any(isinstance(key, str) for key in self.held)
            assert self.engine.match_batch(events).ids().dtype == (np.int64 if integers else np.object_)

    @rule(values=st.lists(st.one_of(st.integers(-3, 3), st.text("abé", max_size=4)), min_size=1, max_size=6))
    def match_other_inputs(self, values: list[int | str]) -> None:
        reference = ReferenceMatcher((key, p) for key, held in self.held.items() for p in held)
        expected = [reference.match({"x": value, "y": value}) for value in values]
        lines = msgspec.json.Encoder().encode_lines({"x": value, "y": value} for value in values)
        assert list(self.engine.match_json(lines)) == expected
        texts = [value for value in values if isinstance(value, str)]
        table = pa.table({"x": pa.array(texts, pa.string()), "y": pa.array(texts, pa.string())})
        assert list(self.engine.match_batch(table)) == [reference.match({"x": t, "y": t}) for t in texts]

    @invariant()
    def knows_its_ids(self) -> None:
        if hasattr(self, "engine"):
            assert len(self.engine) == len(self.held)
            for key in ("alice", "bob", -2, 0):
                assert (key in self.engine) == (key in self.held)


Changes.TestCase.settings = settings(stateful_step_count=20)
TestChanges = Changes.TestCase


class ChangesOfClauses(Changes):
    """The same interleavings, with filters most of which have clauses."""

    def limit(self) -> None:
        super().limit()
        keep_all(self.patch)

    @rule(target=Changes.known, key=IDS, expression=CLAUSES)
    def add_clauses(self, key: Id, expression: Expression) -> tuple[Id, Predicate]:
        made: tuple[Id, Predicate] = self.add(key, expression)  # type: ignore[assignment]
        return made

    @rule(pairs=st.lists(st.tuples(IDS, CLAUSES), max_size=6))
    def add_many_clauses(self, pairs: list[tuple[Id, Expression]]) -> None:
        self.add_many(pairs)

    @rule()
    def filters_read_back(self) -> None:
        for key, held in self.held.items():
            kept = [f for predicate in held for f in predicate.filters if f.clauses]
            assert sorted(map(str, (f for f in self.engine.filters(key) if f.clauses))) == sorted(
                map(str, kept)
            )


ChangesOfClauses.TestCase.settings = settings(stateful_step_count=20)
TestChangesOfClauses = ChangesOfClauses.TestCase
