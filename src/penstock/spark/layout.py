"""How a job lays events × subscriptions out on tasks: HyperCBR's grid, and a model of what a layout costs.

Castelli, Costa and Picco, *HyperCBR: Large-Scale Content-Based Routing in a Multidimensional Space*, II, III:
events and subscriptions go through different partitions of the nodes, each of one kind intersects each of the
other, and so every event meets every subscription. Here the nodes are tasks. With S subscription parts and E
event parts the table is cut into S parts, the events into E, and the cell (s, e) is a task that holds part s
and matches event part e: an event goes to the S cells of its part and meets each filter in exactly one of
them. With S = 1 nothing is replicated: events are matched where they are, or are spread once over E tasks.
Where S > 1 every event is sent S times, and what the cells found of it is brought together again. That is
worth it where a worker cannot hold the table, or where events are so few that reading the table is what
takes time.

What differs from the paper. Its model (III) counts messages over links of a full hyperspace with `d_s`
dimensions for subscriptions and `d_e` for events; its S is how many nodes a subscription partition has, here
the number of such partitions (its E), and the other way round. Routes do not matter here: any task reaches
any other in one step, so that there are no trees, no paths (ρ, η, ψ) and no shares σ(p) and μ(e) of nodes
that subscribe and receive, and two dimensions are as good as more. Events are not captured by matching
subscriptions; all S copies are sent, and the answers come back. What counts is bytes, not messages; to the
traffic come what a worker must hold, which the paper only simulates ("Node load", V), and time: reading the
table, matching at a cost that grows slower than the number of filters, tasks. The choice is the quickest
layout that fits, where the paper leaves `d_s` to whoever deploys.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from penstock.errors import InputError

CELLS_MAX: Final = 100_000
"""Tasks of a job: with more, the driver is busier with them than workers with events."""
PLAIN_MARGIN: Final = 1.25
"""So many times quicker must a layout promise to be, before events are moved that could stay in place."""
ROWS_ASSUMED: Final = 1_000_000
"""Events where nobody knows how many there are, as in a stream."""
ROW_BYTES_ASSUMED: Final = 100
"""A row of ten attributes or so, as Spark ships it."""

_SHOWN: Final = 8
_FORM: Final = re.compile(r"\s*([0-9]{1,6})\s*[xX×]\s*([0-9]{1,6})\s*", re.ASCII)


@dataclass(frozen=True)
class Layout:
    """So many parts of the table × so many parts of the events.

    >>> print(Layout.parse("3x2"))
    3x2
    """

    subscription_parts: int
    event_parts: int

    def __post_init__(self) -> None:
        if min(self.subscription_parts, self.event_parts) < 1:
            raise InputError(f"layout {self}: there is at least one part of either kind, as in 1x1")
        if self.tasks > CELLS_MAX:
            raise InputError(f"layout {self}: {self.tasks:,} tasks; the limit is {CELLS_MAX:,} (CELLS_MAX)")

    @classmethod
    def parse(cls, text: str) -> "Layout":
        """A layout as it is printed."""
        found = _FORM.fullmatch(text)
        if found is None:
            raise InputError(f"layout {text!r:.40}: give subscription parts x event parts, as in 3x2")
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.subscription_parts}x{self.event_parts}"

    @property
    def tasks(self) -> int:
        """How many cells there are."""
        return self.subscription_parts * self.event_parts

    @property
    def is_replicating(self) -> bool:
        """Whether events go to more than one cell each, so that answers have to be brought together."""
        return self.subscription_parts > 1

    def cell(self, subscription_part: int, event_part: int) -> int:
        """The number of a cell. Those of one part of the table follow each other."""
        return subscription_part * self.event_parts + event_part

    def parts(self, count: int) -> list[range]:
        """So many blocks, or filters, cut into the parts of the table: in order, as evenly as can be."""
        ends = [count * part // self.subscription_parts for part in range(self.subscription_parts + 1)]
        return [range(start, end) for start, end in pairwise(ends)]


@dataclass(frozen=True)
class Facts:
    """What the model is told of a job. A worker is an executor: a machine, or its share of one."""

    filters: int
    table_bytes: int
    rows: int | None = None
    """Events; None where nobody knows, as in a stream."""
    row_bytes: int | None = None
    partitions: int = 1
    """Those of the events, as they come."""
    cores: int = 1
    """Tasks that run at a time, on all workers together."""
    workers: int = 1
    memory: int | None = None
    """Bytes that a worker may hold of the table; None for any."""
    mapped: bool = True
    """Whether workers share a folder and map the table; it is shipped to them otherwise."""
    blocks: int | None = None
    """A part of the table is one or more of its blocks; None where it can be cut anywhere."""
    matches: float = 1.0
    """Filters that match an event, on average."""
    is_grouped: bool = True
    """Whether the answers to one event have to come together: not where each match is a row of its own."""

    def __post_init__(self) -> None:
        least = {"partitions": 1, "cores": 1, "workers": 1, "blocks": 1}
        for name in ("filters", "table_bytes", "rows", "row_bytes", "memory", "matches", *least):
            value = getattr(self, name)
            if value is not None and value < least.get(name, 0):
                raise InputError(f"facts: {name} is {value}; give at least {least.get(name, 0)}")

    @property
    def rows_assumed(self) -> int:
        """The events, or as many as are assumed."""
        return ROWS_ASSUMED if self.rows is None else self.rows

    @property
    def parts_max(self) -> int:
        """Into so many parts the table can be cut."""
        return min(CELLS_MAX, max(1, self.filters if self.blocks is None else self.blocks))

    @property
    def tasks_per_worker(self) -> int:
        """Tasks that run on a worker at a time."""
        return -(-self.cores // self.workers)

    def largest_part(self, parts: int) -> float:
        """The share of the table that the largest of so many parts has."""
        units = max(1, self.filters if self.blocks is None else self.blocks)
        return -(-units // parts) / units


@dataclass(frozen=True)
class Rates:
    """What things cost on one core: round figures of one machine. Give others where measured."""

    engine_s: float = 2e-6
    """Matching an event against 100,000 filters: between the 0.7 µs and the 15 µs of docs/MATCHING.md."""
    engine_growth: float = 0.25
    """Cost by filters to this power. Measured were 0.17 where matches stay as many, and 0.43 where they grow
    with the filters; this is what lets twice the filters cost 1.2 times as much."""
    row_s: float = 1e-6
    """Taking a row to Python and back, through Arrow."""
    mapped_bytes_per_s: float = 1e9
    """Mapping a table and looking at it once: pages that come from a disk, or from its cache."""
    shipped_bytes_per_s: float = 2e8
    """Making a broadcast and unpacking it: 200 MB took a second."""
    shuffled_bytes_per_s: float = 1e8
    """Writing rows to a shuffle and reading them on the other side, compressed, by way of the disk."""
    id_bytes: int = 16
    """An id in an answer."""
    task_s: float = 0.02
    """Starting a task, with its Python side."""
    stage_s: float = 0.1
    """A shuffle, be it of nothing."""

    def match_s(self, filters: float) -> float:
        """What it costs to match an event against so many filters."""
        return self.engine_s * float((filters / 100_000) ** self.engine_growth) if filters > 0 else 0.0


RATES: Final = Rates()


class Costs(NamedTuple):
    """What a layout costs, as far as the model goes."""

    bytes_shipped: int
    """Events, answers, and the table where it is not mapped: all that goes from one worker to another."""
    bytes_held_per_worker: int
    tasks: int
    seconds: float


class Choice(NamedTuple):
    """A layout, what else there was, and why it is this one."""

    layout: Layout
    costs: Costs
    considered: list[tuple[Layout, Costs]]
    reason: str
    facts: Facts


def costs(layout: Layout, facts: Facts, rates: Rates = RATES) -> Costs:
    """What a layout costs. One that the table has too few blocks for is refused."""
    if layout.subscription_parts > facts.parts_max:
        cut = f"{facts.parts_max:,} {'filters' if facts.blocks is None else 'blocks'}"
        raise InputError(f"layout {layout}: a table of {cut} cannot be cut into more parts than that")
    part = facts.largest_part(layout.subscription_parts)
    events, answers = _bytes_shuffled(layout, facts, rates)
    return Costs(
        bytes_shipped=events + answers + _table_shipped(layout, facts, part),
        bytes_held_per_worker=_held(layout, facts, part),
        tasks=layout.tasks,
        seconds=_matching_s(layout, facts, rates, part) + _moving_s(layout, facts, rates, events, answers),
    )


def _bytes_shuffled(layout: Layout, facts: Facts, rates: Rates) -> tuple[int, int]:
    """Bytes of events on their way to cells, and of answers on their way to each other."""
    rows = facts.rows_assumed
    row = ROW_BYTES_ASSUMED if facts.row_bytes is None else facts.row_bytes
    parts = layout.subscription_parts
    if parts == 1:
        return (0 if layout.event_parts == facts.partitions else rows * row), 0
    if not facts.is_grouped:
        return rows * row * parts, 0
    # An event comes out of the cells that found something, with what they found.
    answers = rows * (row * min(float(parts), facts.matches) + rates.id_bytes * facts.matches)
    return rows * row * parts, math.ceil(answers)


def _table_shipped(layout: Layout, facts: Facts, part: float) -> int:
    """A worker gets the parts that its cells are about, once each."""
    if facts.mapped:
        return 0
    cells = -(-layout.tasks // facts.workers)
    share = min(1.0, part * min(layout.subscription_parts, cells))
    return math.ceil(facts.table_bytes * share) * facts.workers


def _held(layout: Layout, facts: Facts, part: float) -> int:
    """A task holds one part at a time. Mapped parts are there once for all tasks, others once for each."""
    at_once = part * facts.tasks_per_worker
    # No part has more tasks than there are event parts.
    return math.ceil(facts.table_bytes * min(at_once, 1 if facts.mapped else layout.event_parts))


def _matching_s(layout: Layout, facts: Facts, rates: Rates, part: float) -> float:
    """All cells, so many at a time: reading parts of the table, and matching."""
    waves = -(-layout.tasks // facts.cores)
    # Even parts; what is matched where it stands may be uneven, which nobody knows.
    rows = -(-facts.rows_assumed // layout.event_parts)
    load = rates.mapped_bytes_per_s if facts.mapped else rates.shipped_bytes_per_s
    # A process keeps the part that it has from one cell to the next; in a stream, that is long ago.
    loads = 0 if facts.rows is None else min(waves, layout.subscription_parts)
    cell = rates.task_s + rows * (rates.row_s + rates.match_s(facts.filters * part))
    return waves * cell + loads * facts.table_bytes * part / load


def _moving_s(layout: Layout, facts: Facts, rates: Rates, events: int, answers: int) -> float:
    """The shuffles: of events as parallel as they lie there, of answers as parallel as cells are."""
    stages = (events > 0) + (layout.is_replicating and facts.is_grouped)
    spread = events / min(facts.partitions, facts.cores) + answers / min(layout.tasks, facts.cores)
    return stages * rates.stage_s + spread / rates.shuffled_bytes_per_s


def choose(facts: Facts, rates: Rates = RATES) -> Choice:
    """The quickest layout that workers have the memory for, and events left where they are if in doubt.

    Where nobody knows how many events there are, they stay as they come unless the table has to be cut.
    """
    considered = [(layout, costs(layout, facts, rates)) for layout in _candidates(facts)]
    fitting = [(layout, cost) for layout, cost in considered if _fits(cost, facts)]
    plain, plain_costs = considered[0]
    if not fitting:
        layout, cost = min(considered, key=lambda item: (item[1].bytes_held_per_worker, _order(item)))
        reason = (
            f"no layout fits: {_amount(cost.bytes_held_per_worker)} are held at least, and a worker has "
            f"{_amount(facts.memory or 0)} for the table; give workers more memory, or the table more blocks"
        )
        return Choice(layout, cost, considered, reason, facts)
    layout, cost = min(fitting, key=_order)
    plain_fits = _fits(plain_costs, facts)
    if plain_fits and (facts.rows is None or plain_costs.seconds <= cost.seconds * PLAIN_MARGIN):
        layout, cost = plain, plain_costs
    return Choice(layout, cost, considered, _reason(layout, facts, plain_fits=plain_fits), facts)


def _fits(cost: Costs, facts: Facts) -> bool:
    return facts.memory is None or cost.bytes_held_per_worker <= facts.memory


def _order(item: tuple[Layout, Costs]) -> tuple[float, int, int, int]:
    layout, cost = item
    return cost.seconds, cost.bytes_shipped, cost.tasks, layout.subscription_parts


def _candidates(facts: Facts) -> list[Layout]:
    """The plain layout first, then those worth a look, each once.

    Some of them fit wherever any layout does: what is held falls with more parts of the table, and where
    the table is shipped with fewer parts of the events.
    """
    plain = Layout(1, min(facts.partitions, CELLS_MAX))
    found = {plain: None}
    for parts in sorted(set(_subscription_parts(facts))):
        for event_parts in sorted(set(_event_parts(parts, facts))):
            found[Layout(parts, event_parts)] = None
    return list(found)


def _subscription_parts(facts: Facts) -> Iterator[int]:
    yield 1
    yield facts.parts_max
    fewest = _fewest_parts(facts)
    wanted = [fewest * times for times in (1, 2, 4)] + [facts.cores]
    wanted += [2**power for power in range(facts.cores.bit_length())]
    yield from (parts for parts in wanted if parts <= facts.parts_max)


def _fewest_parts(facts: Facts) -> int:
    """The fewest parts of which a worker can hold one for each of its tasks; all there can be, if none."""
    if facts.memory is None:
        return 1
    low, high = 1, facts.parts_max
    while low < high:
        middle = (low + high) // 2
        held = facts.table_bytes * facts.largest_part(middle) * facts.tasks_per_worker
        low, high = (low, middle) if math.ceil(held) <= facts.memory else (middle + 1, high)
    return low


def _event_parts(parts: int, facts: Facts) -> Iterator[int]:
    """As many as keep all cores busy, a few times over where cells are uneven; at most one for each event."""
    yield 1
    most = min(CELLS_MAX // parts, max(1, facts.rows_assumed))
    wanted = [-(-facts.cores // parts) * times for times in (1, 2, 4)]
    if facts.memory is not None and facts.table_bytes and not facts.mapped:
        # So many copies of the table fit.
        wanted.append(min(facts.memory // facts.table_bytes, wanted[-1]))
    yield from (count for count in wanted if 1 <= count <= most)


def _reason(layout: Layout, facts: Facts, *, plain_fits: bool) -> str:
    if layout.is_replicating:
        if plain_fits:
            return "events are few against the table: its parts are read by all cores at once"
        copies = "" if facts.mapped or facts.tasks_per_worker == 1 else f" {facts.tasks_per_worker} times"
        table, has = _amount(facts.table_bytes), _amount(facts.memory or 0)
        return f"a worker cannot hold the table of {table}{copies}: it has {has} for it"
    if layout.event_parts == facts.partitions:
        if facts.rows is None:
            return "a worker can hold the table, and events are left where they are: nobody knows how many"
        return "a worker can hold the table, and moving events first would gain little or nothing"
    if not plain_fits:
        return "fewer tasks hold fewer copies of the table, of which a worker has place for some"
    if facts.partitions < facts.cores:
        return f"a worker can hold the table, and events as they come leave some of {facts.cores} cores idle"
    return "a worker can hold the table, and events as they come are in more partitions than they are worth"


def explain(choice: Choice) -> str:
    """Which layout, why, and what the next best would have cost."""
    facts = choice.facts
    rows = "nobody knows how many" if facts.rows is None else f"{facts.rows:,}"
    where = "mapped from a shared folder" if facts.mapped else "shipped to workers"
    lines = [
        f"layout {choice.layout} (subscription parts x event parts): {choice.reason}",
        f"events: {rows}, partitions: {facts.partitions:,}; filters: {facts.filters:,}, "
        f"{_amount(facts.table_bytes)} {where}; workers: {facts.workers:,}, tasks at a time: {facts.cores:,}",
        f"  {'layout':<12}{'seconds':>10}{'shipped':>12}{'held/worker':>13}{'tasks':>9}",
    ]
    ranked = sorted(choice.considered, key=lambda item: (not _fits(item[1], facts), _order(item)))
    first = [item for item in ranked if item[0] in (choice.layout, choice.considered[0][0])]
    shown = first + [item for item in ranked if item not in first][: _SHOWN - len(first)]
    for layout, cost in sorted(shown, key=ranked.index):
        note = "  <- this one" if layout == choice.layout else ""
        note += "" if _fits(cost, facts) else "  does not fit"
        lines.append(
            f"  {layout!s:<12}{cost.seconds:>10,.2f}{_amount(cost.bytes_shipped):>12}"
            f"{_amount(cost.bytes_held_per_worker):>13}{cost.tasks:>9,}{note}"
        )
    if facts.rows is None:
        lines.append(f"  seconds and bytes are for {ROWS_ASSUMED:,} events")
    return "\n".join(lines)


def _amount(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:,.0f} {unit}" if unit == "B" or count >= 100 else f"{count:,.1f} {unit}"
        count /= 1000
    return f"{count:,.1f} TB"
