"""Compiling: from filters as columns to a table.

    cuts of all filters  →  the cells of each attribute (slot)
    conditions           →  words: a range of codes, a set of ranges, a pattern
    filters              →  the place where each is found, by the chance that an event looks there

Chances come from a sample of events where there is one, mixed with a guess: that attributes are as common
in events as in filters, and that every cell of an attribute is as likely as any other.
"""

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.errors import LimitError
from penstock.filters.patterns import ignores_case, is_regex, regex_text, symbols
from penstock.filters.wildcards import ONE, RUN
from penstock.matching.batch import Batch
from penstock.matching.columns import NEVER, Columns, literals_in_order, offsets_of
from penstock.matching.kernels import build_words
from penstock.matching.kernels import patterns as pattern_kernels
from penstock.matching.kernels.patterns import Automaton, Patterns, build_automaton
from penstock.matching.kernels.resolve import Cells, resolve
from penstock.matching.kernels.search import build_hash
from penstock.matching.kernels.words import SLOT_BITS, Draft
from penstock.matching.placing import Chances, place_filters
from penstock.matching.regex_programs import program_of
from penstock.matching.table import Table
from penstock.model.values import Family

TABLE_ATTRIBUTES_MAX: Final = 2**SLOT_BITS
"""Attributes that the filters of one matcher name: a condition has so many bits for its attribute."""

_SURE: Final = 32.0
"""How many events of a sample weigh as much as the guess."""

_MARKED: Final = 4
"""Where strings have at most so many keys for each cut, places of keys are looked up, not searched."""

_BLOCK: Final = 2**20
"""Cuts that are looked at at a time."""


def compile_table(columns: Columns, sample: Batch | None = None) -> tuple[Table, NDArray[np.int64]]:
    """The table of the filters, and for each of its filters the position in the columns."""
    slot_of, names = _slots(columns)
    if len(names) > TABLE_ATTRIBUTES_MAX:
        raise LimitError(
            f"filters name {len(names):,} attributes", "TABLE_ATTRIBUTES_MAX", TABLE_ATTRIBUTES_MAX
        )
    literals, literal_offsets, rank = _literals(columns)
    cells = _cells(columns, slot_of, len(names), literals, literal_offsets, rank)
    patterns, automaton, needles, pattern_number = _patterns(columns, slot_of, len(names))
    filters = _words(columns, slot_of, rank, cells, pattern_number)
    chances = _chances(columns, slot_of, len(names), cells, automaton, patterns, filters, sample)
    never = np.zeros(columns.filters, np.bool_)
    never[np.repeat(np.arange(columns.filters), np.diff(columns.offsets))[columns.kind == NEVER]] = True
    ends = build_words.slot_ends(cells, len(names))
    arranged, lists, places, order = place_filters(filters, never, ends, chances, len(patterns.slot))
    ids = np.unique(columns.ids)
    return (
        Table(
            names=names,
            cells=cells,
            automaton=automaton,
            patterns=patterns,
            needles=needles,
            filters=arranged,
            lists=lists,
            places=places,
            constraints=len(filters.words),
            distinct=len(ids) == columns.filters,
            distinct_ids=len(ids),
        ),
        order,
    )


def _slots(columns: Columns) -> tuple[NDArray[np.int32], list[str]]:
    """For each attribute its slot, or -1; and the names of the slots."""
    used = np.zeros(len(columns.names) + 1, np.bool_)
    used[columns.attribute[columns.kind != NEVER]] = True
    numbers = np.flatnonzero(used)
    slot_of = np.full(len(columns.names) + 1, -1, np.int32)
    slot_of[numbers] = np.arange(len(numbers), dtype=np.int32)
    return slot_of, [columns.names[number] for number in numbers.tolist()]


def _literals(columns: Columns) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """The literals in use, sorted, as bytes and offsets; and the rank of each literal of the columns."""
    strings = np.repeat(columns.kind == Family.STRING, np.diff(columns.cut_offsets))
    numbers, rank = literals_in_order(columns.literals, columns.cut_high[strings])
    joined = [columns.literals[number] for number in numbers]
    return (*_joined(joined), rank)


def _joined(texts: list[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Strings of bytes end to end, and where each starts."""
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    return np.frombuffer(b"".join(texts), np.uint8).copy(), offsets_of(lengths)


def _hash_slots(count: int) -> NDArray[np.int32]:
    """An empty hash table with room to spare for so many entries."""
    return np.zeros(1 << max(3, (2 * count).bit_length()), np.int32)


def _cells(
    columns: Columns,
    slot_of: NDArray[np.int32],
    slots: int,
    literals: NDArray[np.uint8],
    literal_offsets: NDArray[np.int64],
    rank: NDArray[np.int64],
) -> Cells:
    """The cuts of each slot."""
    counts = np.diff(columns.cut_offsets)
    kind = np.repeat(columns.kind, counts)
    slot = np.repeat(slot_of[columns.attribute], counts)
    number_offsets, number_high, number_low = _number_cuts(
        slot, kind == Family.NUMBER, slots, columns.cut_high, columns.cut_low
    )
    time_offsets, time_key = _grouped(slot, kind == Family.TIME, slots, columns.cut_high)
    string_offsets, string_key = _string_cuts(columns, slot, kind, slots, len(literal_offsets), rank)
    integer_first, integer_offsets, integer_codes = _integers(number_offsets, number_high, number_low)
    hashed = _hash_slots(len(literal_offsets) - 1)
    build_hash(literals, literal_offsets, hashed)
    return Cells(
        number_offsets=number_offsets,
        number_high=number_high,
        number_low=number_low,
        integer_first=integer_first,
        integer_offsets=integer_offsets,
        integer_codes=integer_codes,
        time_offsets=time_offsets,
        time_key=time_key,
        string_offsets=string_offsets,
        string_key=string_key,
        string_ordered=_ordered(columns, slot_of, slots, literal_offsets, rank),
        literals=literals,
        literal_offsets=literal_offsets,
        literal_hash=hashed,
    )


def _grouped(
    slot: NDArray[np.int32], mask: NDArray[np.bool_], slots: int, keys: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The keys of each slot, sorted, each once."""
    groups = np.where(mask, slot, -1)
    starts = np.zeros(slots + 1, np.int64)
    grouped = np.empty(int(mask.sum()), np.int64)
    build_words.group_by(groups, keys, starts, grouped)
    offsets = np.zeros(slots + 1, np.int32)
    left = build_words.unique_in_groups(grouped, starts, offsets)
    return offsets, grouped[:left].copy()


def _number_cuts(
    slot: NDArray[np.int32],
    mask: NDArray[np.bool_],
    slots: int,
    high: NDArray[np.int64],
    low: NDArray[np.int16],
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int16]]:
    """Like `_grouped`, for numbers, whose cuts may lie just after a double, or at an integer that none is."""
    if not low[mask].any():
        offsets, keys = _grouped(slot, mask, slots, high)
        return offsets, keys, np.empty(0, np.int16)
    s, h, rest = slot[mask], high[mask], low[mask]
    if rest.max() == 1:
        # Nearly always. Grouping both kinds first leaves far fewer to be sorted, as most come again.
        parts = [(which, *_grouped(slot, mask & (low == which), slots, high)) for which in (0, 1)]
        s = np.concatenate([np.repeat(np.arange(slots), np.diff(starts)) for _, starts, _ in parts])
        h = np.concatenate([keys for _, _, keys in parts])
        rest = np.repeat(np.array([0, 1], np.int16), [len(keys) for _, _, keys in parts])
    order = np.lexsort((rest, h, s))
    s, h, rest = s[order], h[order], rest[order]
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = (s[1:] != s[:-1]) | (h[1:] != h[:-1]) | (rest[1:] != rest[:-1])
    counts = np.bincount(s[fresh], minlength=slots)
    return offsets_of(counts.astype(np.int64)).astype(np.int32), h[fresh], rest[fresh]


def _integers(
    offsets: NDArray[np.int32], high: NDArray[np.int64], low: NDArray[np.int16]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
    """For slots whose cuts lie among few integers, the code of each of these.

    Cuts that lie beyond doubles of 52 bits are left to searching: no integer of a range reaches them.
    """
    slots = len(offsets) - 1
    first, size = np.zeros(slots, np.int64), np.zeros(slots, np.int64)
    build_words.integer_range(offsets, high, first, size)
    starts = offsets_of(size)
    codes = np.empty(int(starts[-1]), np.int32)
    build_words.integer_codes(offsets, high, low, first, starts, codes)
    return first, starts, codes


def _string_cuts(
    columns: Columns,
    slot: NDArray[np.int32],
    kind: NDArray[np.uint8],
    slots: int,
    literals: int,
    rank: NDArray[np.int64],
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Like `_grouped`, for strings. Where there are far more cuts than keys, they are marked, not sorted."""
    width = 2 * literals
    if slots * width > _MARKED * len(kind):
        strings = kind == Family.STRING
        key = np.zeros(len(kind), np.int64)
        key[strings] = 2 * rank[columns.cut_high[strings]] + columns.cut_low[strings]
        offsets, found = _grouped(slot, strings, slots, key)
        return offsets, found.astype(np.int32)
    is_cut = np.zeros((slots, width), np.bool_)
    for first in range(0, len(kind), _BLOCK):
        block = slice(first, first + _BLOCK)
        strings = kind[block] == Family.STRING
        key = 2 * rank[columns.cut_high[block][strings]] + columns.cut_low[block][strings]
        is_cut[slot[block][strings], key] = True
    offsets = offsets_of(np.count_nonzero(is_cut, axis=1).astype(np.int64)).astype(np.int32)
    return offsets, (np.flatnonzero(is_cut) % max(1, width)).astype(np.int32)


def _string_places(cells: Cells, slots: int, cuts: int) -> NDArray[np.int32]:
    """The place of each key of a string in its slot, where that takes little room; else nothing."""
    width = 2 * len(cells.literal_offsets)
    if not len(cells.string_key) or slots * width > _MARKED * cuts:
        return np.empty(0, np.int32)
    counts = np.diff(cells.string_offsets)
    places = np.zeros(slots * width, np.int32)
    first = np.repeat(np.arange(slots, dtype=np.int64) * width, counts)
    place = np.arange(len(cells.string_key), dtype=np.int32) - np.repeat(cells.string_offsets[:-1], counts)
    places[first + cells.string_key] = place
    return places


def _ordered(
    columns: Columns,
    slot_of: NDArray[np.int32],
    slots: int,
    literal_offsets: NDArray[np.int64],
    rank: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """For each slot, whether some condition tells apart strings that are no literals."""
    ordered = np.zeros(slots, np.bool_)
    empty = 0 if len(literal_offsets) > 1 and literal_offsets[1] == 0 else -1
    build_words.mark_ordered(
        slot_of[columns.attribute],
        columns.kind,
        columns.cut_offsets,
        columns.cut_high,
        columns.cut_low,
        rank,
        empty,
        ordered,
    )
    return ordered


class _Shape(NamedTuple):
    """How a pattern is decided: by its needle alone, or by a program."""

    needle: str
    kind: int


@lru_cache(maxsize=100_000)
def shape_of(pattern: str) -> _Shape:
    """The longest literal stretch of a pattern, and how the pattern is decided."""
    if is_regex(pattern):
        folded = pattern_kernels.FOLDED if ignores_case(pattern) else 0
        return _Shape(shape_of(symbols(pattern)).needle, pattern_kernels.GENERAL | folded)
    if ignores_case(pattern):
        needle, kind = shape_of(symbols(pattern))
        return _Shape(needle, kind | pattern_kernels.FOLDED)
    stretches = [part for run in pattern.split(RUN) for part in run.split(ONE)]
    needle = max(stretches, key=len)
    if pattern == RUN + needle and needle:
        return _Shape(needle, pattern_kernels.SUFFIX)
    if pattern == RUN + needle + RUN and needle:
        return _Shape(needle, pattern_kernels.SUBSTRING)
    return _Shape(needle, pattern_kernels.GENERAL)


def symbols_of(pattern: str) -> NDArray[np.int32]:
    """The pattern as the kernels read it."""
    if is_regex(pattern):
        return program_of(regex_text(pattern))
    wild = {ONE: pattern_kernels.ONE, RUN: pattern_kernels.RUN}
    return np.array(
        [wild[symbol] if symbol in wild else ord(symbol) for symbol in symbols(pattern)], np.int32
    )


def _patterns(
    columns: Columns, slot_of: NDArray[np.int32], slots: int
) -> tuple[Patterns, Automaton, tuple[NDArray[np.uint8], NDArray[np.int64]], NDArray[np.int64]]:
    """The patterns on each slot, and for each entry of `columns.pattern` its number among them."""
    of_entry = np.repeat(np.arange(len(columns.kind)), np.diff(columns.pattern_offsets))
    entry_slot = slot_of[columns.attribute[of_entry]].astype(np.int64)
    plain = np.where(columns.pattern < 0, ~columns.pattern, columns.pattern).astype(np.int64)
    shapes = [shape_of(pattern) for pattern in columns.patterns]
    used = np.zeros(len(shapes), np.bool_)
    used[plain] = True
    texts = sorted({shapes[i].needle.encode() for i in np.flatnonzero(used) if shapes[i].needle})
    number_of = {text: number for number, text in enumerate(texts)}
    # Those without a needle come last, under a number of their own.
    needle_of = np.array([number_of.get(shape.needle.encode(), len(texts)) for shape in shapes], np.int64)
    pairs = (needle_of[plain] * max(1, slots) + entry_slot) * max(1, len(shapes)) + plain
    distinct, number = np.unique(pairs, return_inverse=True)
    which = distinct % max(1, len(shapes))
    slot = (distinct // max(1, len(shapes)) % max(1, slots)).astype(np.int32)
    needle = needle_of[which] if len(which) else np.empty(0, np.int64)
    kinds = np.array([shape.kind for shape in shapes], np.uint8)
    kind = kinds[which] if len(which) else np.empty(0, np.uint8)
    general = kind & pattern_kernels.KINDS == pattern_kernels.GENERAL
    programs = np.unique(which[general])
    program_symbols = [symbols_of(columns.patterns[i]) for i in programs]
    slot_has = np.zeros(slots, np.uint8)
    folded = kind & pattern_kernels.FOLDED != 0
    slot_has[slot[~folded]] = pattern_kernels.HAS_PLAIN
    slot_has[slot[folded]] |= pattern_kernels.HAS_FOLDED
    program = np.full(len(which), -1, np.int32)
    program[general] = np.searchsorted(programs, which[general])
    made = Patterns(
        needle_patterns=np.searchsorted(needle, np.arange(len(texts) + 2)).astype(np.int32),
        slot=slot,
        kind=kind,
        program=program,
        program_offsets=offsets_of(np.array([len(s) for s in program_symbols], np.int64)),
        symbols=np.concatenate([np.zeros(0, np.int32), *program_symbols]),
        slot_has=slot_has,
    )
    data, offsets = _joined(texts)
    return made, _automaton(data, offsets), (data, offsets), number.astype(np.int64)


def _automaton(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> Automaton:
    nodes = len(data) + 1
    edges = 1 << max(3, (2 * nodes).bit_length())
    key, child = np.zeros(edges, np.int64), np.zeros(edges, np.int32)
    fail, needle, link = (np.zeros(nodes, np.int32) for _ in range(3))
    count = build_automaton(data, offsets, key, child, fail, needle, link)
    smaller = 1 << max(3, (2 * count).bit_length())
    if smaller < edges:
        # Prefixes are shared: far fewer nodes than bytes. Build once more at the right size.
        key, child = np.zeros(smaller, np.int64), np.zeros(smaller, np.int32)
        build_automaton(data, offsets, key, child, fail, needle, link)
    return Automaton(key, child, fail[:count].copy(), needle[:count].copy(), link[:count].copy())


def _words(
    columns: Columns,
    slot_of: NDArray[np.int32],
    rank: NDArray[np.int64],
    cells: Cells,
    pattern_number: NDArray[np.int64],
) -> Draft:
    """The filters' conditions as words, in the order of the columns."""
    conditions = len(columns.kind)
    slot = slot_of[columns.attribute]
    code_offsets = np.empty(conditions + 1, np.int64)
    codes = np.empty(len(columns.cut_high) + 2 * conditions, np.int32)
    build_words.codes_of_cuts(
        slot,
        columns.kind,
        columns.cut_offsets,
        columns.cut_high,
        columns.cut_low,
        rank,
        _string_places(cells, len(cells.string_ordered), len(columns.cut_high)),
        cells,
        code_offsets,
        codes,
    )
    word_offsets = np.empty(columns.filters + 1, np.int32)
    words = np.empty(conditions + len(columns.pattern), np.uint64)
    set_slot = np.empty(conditions, np.int32)
    set_offsets = np.empty(conditions + 1, np.int64)
    set_codes = np.empty(len(codes), np.int32)
    n, sets, set_end = build_words.make_words(
        columns.offsets,
        slot,
        columns.kind,
        code_offsets,
        codes,
        columns.pattern_offsets,
        columns.pattern,
        pattern_number,
        cells,
        word_offsets,
        words,
        set_slot,
        set_offsets,
        set_codes,
    )
    return Draft(
        ids=columns.ids,
        word_offsets=word_offsets,
        words=words[:n],
        set_slot=set_slot[:sets].copy(),
        set_offsets=set_offsets[: sets + 1].copy(),
        set_codes=set_codes[:set_end].copy(),
    )


def _chances(
    columns: Columns,
    slot_of: NDArray[np.int32],
    slots: int,
    cells: Cells,
    automaton: Automaton,
    patterns: Patterns,
    filters: Draft,
    sample: Batch | None,
) -> Chances:
    """How likely each code of each slot is."""
    ends = build_words.slot_ends(cells, slots)[:, 2]
    cell_base = offsets_of(ends + 1)
    named = np.bincount(slot_of[columns.attribute[columns.kind != NEVER]], minlength=slots)
    presence = np.clip(named / max(1, columns.filters), 0.001, 0.999)
    share = np.repeat(presence / np.maximum(1, ends - 1), ends + 1)
    share[cell_base[:-1]] = 1.0 - presence
    pattern_chance = np.full(len(patterns.slot), 0.02, np.float32)
    pattern_chance[patterns.kind & pattern_kernels.KINDS == pattern_kernels.GENERAL] = 0.05
    pattern_chance *= presence[patterns.slot].astype(np.float32) if slots else 1.0
    events = 0 if sample is None else len(sample.start)
    if sample is not None and events:
        attributes = np.full(int(sample.value_attribute.max(initial=0)) + 1, -1, np.int32)
        known = min(len(attributes), len(slot_of))
        attributes[:known] = slot_of[:known]
        seen = np.zeros(len(automaton.fail), np.int64)
        codes, offsets, numbers, _ = resolve(sample, attributes, cells, automaton, patterns, seen, 0)
        slot = attributes[sample.value_attribute]
        times = np.bincount(sample.entries, minlength=len(codes))
        counted = np.zeros(len(share))
        np.add.at(counted, cell_base[slot[slot >= 0]] + codes[slot >= 0], times[slot >= 0])
        present = np.add.reduceat(counted, cell_base[:-1]) if slots else counted
        counted[cell_base[:-1]] = events - present
        share = (share * _SURE + counted) / (_SURE + events)
        if len(offsets):
            hits = np.zeros(len(patterns.slot))
            np.add.at(hits, numbers[: offsets[-1]], np.repeat(times, np.diff(offsets)))
            pattern_chance = ((pattern_chance * _SURE + hits) / (_SURE + events)).astype(np.float32)
    cumulative = np.zeros(len(share), np.float64)
    total = np.cumsum(share)
    cumulative[1:] = total[:-1]
    cumulative -= np.repeat(cumulative[cell_base[:-1]], ends + 1)
    chance = build_words.chances(filters, cumulative, cell_base, pattern_chance)
    return Chances(chance, cumulative, cell_base, 1.0 - share[cell_base[:-1]])
