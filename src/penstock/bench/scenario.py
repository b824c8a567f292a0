"""Scenarios: what `penstock bench matching` measures, on which workload, and which bar it sets itself.

A scenario is a TOML file in `scenarios`. To add one of a known measure and workload, add a file. Keys are
those of the classes here; a key that they do not have is refused.
"""

import tomllib
from importlib.resources import files
from typing import ClassVar, Literal, TypeAlias

import msgspec

from penstock.errors import InputError
from penstock.workloads import adversarial

Input = Literal["arrow", "dictionary", "json", "dicts"]
"""How events are handed over: Arrow rows with plain or dictionary columns, JSON lines, or dicts."""


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Refuses keys that it does not know."""


class Bar(_Strict, frozen=True, kw_only=True):
    """What one of the measured figures should be: at most `bar`, or at least; `goal` is better still."""

    what: str
    unit: str
    bar: float
    goal: float | None = None
    at_least: bool = False


class ForwardingWorkload(_Strict, frozen=True, kw_only=True, tag_field="kind", tag="forwarding"):
    """See `penstock.workloads.forwarding`. Without `ids`, each filter has an id of its own."""

    filters: int
    ids: int | None = None
    text_ids: bool = False


class RulesWorkload(_Strict, frozen=True, kw_only=True, tag_field="kind", tag="rules"):
    """See `penstock.workloads.rules`."""

    filters: int
    values: int
    text_ids: bool = False

    def grown(self, filters: int) -> "RulesWorkload":
        """With more filters, or fewer, and as many matches: values grow like the square root of filters."""
        values = round(self.values * (filters / self.filters) ** (1 / 2))
        return msgspec.structs.replace(self, filters=filters, values=max(3, values))


class RangesWorkload(_Strict, frozen=True, kw_only=True, tag_field="kind", tag="ranges"):
    """See `penstock.workloads.ranges`."""

    filters: int
    width: float
    text_ids: bool = False

    def grown(self, filters: int) -> "RangesWorkload":
        """With more filters, or fewer, and as many matches: intervals shrink like their cubic root."""
        width = self.width * (self.filters / filters) ** (1 / 3)
        return msgspec.structs.replace(self, filters=filters, width=min(1.0, width))


Workload: TypeAlias = ForwardingWorkload | RulesWorkload | RangesWorkload


class _Scenario(_Strict, frozen=True, kw_only=True):
    """What all scenarios say."""

    figures: ClassVar[tuple[str, ...]] = ()
    """What is measured: bars can be set for these."""

    name: str
    title: str
    why: str
    seed: int
    bars: list[Bar] = []


class MatchScenario(_Scenario, frozen=True, kw_only=True, tag_field="measure", tag="match"):
    """Match batches of events, and take the median over batches and passes."""

    figures: ClassVar[tuple[str, ...]] = ("time", "rate", "memory", "matches")

    workload: Workload
    input: Input
    warm_up: int
    events: int
    batch: int
    passes: int


class GrowthScenario(_Scenario, frozen=True, kw_only=True, tag_field="measure", tag="growth"):
    """The same at several sizes, with the workload adapted so that the number of matches stays the same."""

    figures: ClassVar[tuple[str, ...]] = ("growth",)

    workload: RulesWorkload | RangesWorkload
    input: Input
    warm_up: int
    events: int
    batch: int
    passes: int
    sizes: list[int]


class CompileScenario(_Scenario, frozen=True, kw_only=True, tag_field="measure", tag="compile"):
    """From an Arrow table of constraints to a batch matched; the median of some passes."""

    figures: ClassVar[tuple[str, ...]] = ("compile",)

    workload: Workload
    input: Input
    batch: int
    passes: int


class ChurnScenario(_Scenario, frozen=True, kw_only=True, tag_field="measure", tag="churn"):
    """Match for some seconds, and as long while another thread adds and removes groups of filters, in rounds.

    Of the filters added, so many are `standing` before the first ones are removed.
    """

    figures: ClassVar[tuple[str, ...]] = ("changes", "slowdown", "before", "during")

    workload: ForwardingWorkload
    input: Input
    warm_up: int
    events: int
    batch: int
    seconds: float
    rounds: int
    changes_per_second: int
    group: int
    standing: int


class StartScenario(_Scenario, frozen=True, kw_only=True, tag_field="measure", tag="start"):
    """Fresh processes: one that imports, one that loads a saved matcher, one that compiles some filters."""

    figures: ClassVar[tuple[str, ...]] = ("import", "load and match", "compile and match")

    workload: Workload
    passes: int
    compiled: int


class TextsWorkload(_Strict, frozen=True, kw_only=True):
    """See `penstock.workloads.adversarial`."""

    rules: adversarial.Kind
    filters: int


class TextsScenario(_Scenario, frozen=True, kw_only=True, tag_field="measure", tag="texts"):
    """Load rules that are given as text, and match one event by itself."""

    figures: ClassVar[tuple[str, ...]] = ("load", "ratio", "match", "peak")

    workload: TextsWorkload


class FiguresScenario(_Scenario, frozen=True, kw_only=True, tag_field="measure", tag="figures"):
    """The paper's figures; see `penstock.bench.figures`."""


Scenario: TypeAlias = (
    MatchScenario
    | GrowthScenario
    | CompileScenario
    | TextsScenario
    | ChurnScenario
    | StartScenario
    | FiguresScenario
)


def parse(text: str, source: str) -> Scenario:
    """A scenario from TOML; `source` is the name of the file, for errors."""
    try:
        made: Scenario = msgspec.convert(tomllib.loads(text), Scenario)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise InputError(f"{source}: {error}") from None
    for bar in made.bars:
        if bar.what not in made.figures:
            known = ", ".join(made.figures) or "nothing that can have a bar"
            raise InputError(f"{source}: there is a bar for {bar.what!r}, but what is measured is {known}")
    if source != f"{made.name}.toml":
        raise InputError(
            f"{source}: the scenario is called {made.name!r}; its file should be {made.name}.toml"
        )
    return made


def scenarios() -> dict[str, Scenario]:
    """All scenarios by name: those that match first, as others build on what they show."""
    found = [
        parse(file.read_text("utf-8"), file.name)
        for file in files("penstock.bench.scenarios").iterdir()
        if file.name.endswith(".toml")
    ]
    order = (
        *(MatchScenario, GrowthScenario, CompileScenario, TextsScenario),
        *(ChurnScenario, StartScenario, FiguresScenario),
    )
    found.sort(key=lambda scenario: (order.index(type(scenario)), scenario.name))
    return {scenario.name: scenario for scenario in found}


def scaled(scenario: Scenario, scale: float) -> Scenario:
    """The scenario with fewer filters."""
    if isinstance(scenario, FiguresScenario):
        return scenario
    if isinstance(scenario, GrowthScenario):
        sizes = [_scaled(size, scale) for size in scenario.sizes]
        return msgspec.structs.replace(scenario, sizes=sizes)
    workload: Workload | TextsWorkload = scenario.workload
    return msgspec.structs.replace(
        scenario, workload=msgspec.structs.replace(workload, filters=_scaled(workload.filters, scale))
    )


def _scaled(filters: int, scale: float) -> int:
    """So few that every id of every scenario still has a filter, at the least."""
    return max(round(filters * scale), min(filters, 100))
