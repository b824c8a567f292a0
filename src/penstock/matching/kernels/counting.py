"""The forwarding function of Carzaniga and Wolf (2002), figures 3 and 6, over the flat arrays of the table.

Read from the bottom: `forward_messages` takes messages, `_count` is the body of the counting algorithm,
`_pre_process` that of the selectivity table, and what stands above them is `matching_constraints`, by type.

Arguments are the named tuples of `paper_table`, `strings_index` and `counting`, whose fields are arrays.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.matching.kernels.jit import inlined, kernel

EQUAL, LESS, GREATER, PREFIX, SUFFIX, SUBSTRING = range(6)
NUMBER_OPERATORS = 3
TERMINATOR = 0
INTEGER, STRING = 0, 1

COUNT_BITS = 16
EPOCHS = 1 << (32 - COUNT_BITS)


@inlined
def _bits(word: Any) -> Any:
    """How many bits of 64 are set."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    pairs = np.uint64(0x3333333333333333)
    word = (word & pairs) + ((word >> np.uint64(2)) & pairs)
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


# Names and integers


@inlined
def _sibling(tries: Any, node: int, char: Any) -> int:
    """The node with a character among a node and its siblings, or -1."""
    while node != -1 and tries.char[node] != char:
        node = tries.lo[node] if char < tries.char[node] else tries.hi[node]
    return node


@inlined
def _find_name(names: Any, data: Any, begin: int, end: int) -> int:
    """The attribute with a name, or -1."""
    node = names.root[0]
    for place in range(begin, end):
        node = _sibling(names, node, np.int64(data[place]) + 1)
        if node == -1:
            return -1
        node = names.eq[node]
    node = _sibling(names, node, TERMINATOR)
    return -1 if node == -1 else names.eq[node]


@inlined
def _match_number(numbers: Any, attribute: int, value: int, found: Any) -> int:
    """Write the constraints on an attribute that an integer matches; return how many."""
    start = NUMBER_OPERATORS * attribute
    low, high = numbers.bounds[start + EQUAL], numbers.bounds[start + LESS]
    equal_end = high
    while low < high:
        middle = (low + high) // 2
        if numbers.values[middle] < value:
            low = middle + 1
        else:
            high = middle
    count = 0
    if low < equal_end and numbers.values[low] == value:
        found[0] = low
        count = 1
    # Less-than constraints from the largest constant down, greater-than from the smallest up.
    constraint = numbers.bounds[start + GREATER] - 1
    while constraint >= equal_end and numbers.values[constraint] > value:
        found[count] = constraint
        count += 1
        constraint -= 1
    constraint, end = numbers.bounds[start + GREATER], numbers.bounds[start + NUMBER_OPERATORS]
    while constraint < end and numbers.values[constraint] < value:
        found[count] = constraint
        count += 1
        constraint += 1
    return count


# Strings: the multi-operator index


@inlined
def _report(strings: Any, entry: int, operator: int, found: Any, count: int) -> int:
    """Write the entry's constraint with this operator, if it has one; return the new count."""
    if strings.mask[entry] >> operator & 1 == 0:
        return count
    below = np.uint64(strings.mask[entry] & ((1 << operator) - 1))
    found[count] = strings.first[entry] + _bits(below)
    return count + 1


@inlined
def _report_substring(strings: Any, entry: int, scratch: Any, count: int) -> int:
    """Like `_report`, once for each value: a substring may occur in it again."""
    if scratch.reported[entry] == scratch.clock[1]:
        return count
    scratch.reported[entry] = scratch.clock[1]
    return _report(strings, entry, SUBSTRING, scratch.found, count)


@inlined
def _leaf_before(tries: Any, branch: int) -> Any:
    """The entry of the last leaf in a branch (see `_match_whole`), or -1."""
    if branch == -1:
        return -1
    node = branch >> 1
    whole = branch & 1 == 0
    while True:
        while whole and tries.hi[node] != -1:
            node = tries.hi[node]
        if tries.char[node] == TERMINATOR:
            return tries.eq[node]
        node = tries.eq[node]
        whole = True


@inlined
def _leaf_after(tries: Any, branch: int) -> Any:
    """The entry of the first leaf in a branch (see `_match_whole`), or -1."""
    if branch == -1:
        return -1
    node = branch >> 1
    whole = branch & 1 == 0
    while True:
        while whole and tries.lo[node] != -1:
            node = tries.lo[node]
        if tries.char[node] == TERMINATOR:
            return tries.eq[node]
        node = tries.eq[node]
        whole = True


@inlined
def _walk_chains(strings: Any, less: int, greater: int, found: Any, count: int) -> int:
    """Report all less-than constraints from an entry on, and all greater-than ones from an entry back."""
    while less != -1:
        count = _report(strings, less, LESS, found, count)
        less = strings.next_less[less]
    while greater != -1:
        count = _report(strings, greater, GREATER, found, count)
        greater = strings.next_greater[greater]
    return count


@inlined
def _match_whole(strings: Any, node: int, data: Any, begin: int, end: int, scratch: Any, count: int) -> int:
    """Look the whole value up: every operator.

    On the way down, the branches nearest to the value on either side are remembered: a subtree's root, twice,
    plus one where its siblings on the value's side do not belong to it.
    """
    tries = strings.tries
    before = after = -1
    place = begin
    while node != -1:
        wanted = np.int64(data[place]) + 1 if place < end else TERMINATOR
        if wanted < tries.char[node]:
            after = 2 * node + 1
            node = tries.lo[node]
        elif wanted > tries.char[node]:
            before = 2 * node + 1
            node = tries.hi[node]
        else:
            if tries.lo[node] != -1:
                before = 2 * tries.lo[node]
            if tries.hi[node] != -1:
                after = 2 * tries.hi[node]
            if wanted == TERMINATOR:
                break
            if tries.partial[node] != -1:
                count = _report(strings, tries.partial[node], PREFIX, scratch.found, count)
                count = _report_substring(strings, tries.partial[node], scratch, count)
            node = tries.eq[node]
            place += 1
    if node != -1:  # a complete match
        entry = tries.eq[node]
        count = _report(strings, entry, EQUAL, scratch.found, count)
        count = _report(strings, entry, SUFFIX, scratch.found, count)
        less, greater = strings.next_less[entry], strings.next_greater[entry]
    else:  # the chains start at the closest leaves, which `_report` passes over if they are no links of them
        less, greater = _leaf_after(tries, after), _leaf_before(tries, before)
    return _walk_chains(strings, less, greater, scratch.found, count)


@inlined
def _match_rest(strings: Any, node: int, data: Any, begin: int, end: int, scratch: Any, count: int) -> int:
    """Look up what is left of a value from a later character on: substring and suffix only."""
    tries = strings.tries
    for place in range(begin, end):
        node = _sibling(tries, node, np.int64(data[place]) + 1)
        if node == -1:
            return count
        if tries.partial[node] != -1:
            count = _report_substring(strings, tries.partial[node], scratch, count)
        node = tries.eq[node]
    node = _sibling(tries, node, TERMINATOR)
    if node != -1:
        count = _report(strings, tries.eq[node], SUFFIX, scratch.found, count)
    return count


@inlined
def _match_string(strings: Any, attribute: int, data: Any, begin: int, end: int, scratch: Any) -> int:
    """Write the constraints on an attribute that a string matches; return how many."""
    root = strings.tries.root[attribute]
    if root == -1:
        return 0
    scratch.clock[1] += 1
    count = 0
    empty = strings.tries.root_partial[attribute]
    if empty != -1:
        count = _report(strings, empty, PREFIX, scratch.found, count)
        count = _report_substring(strings, empty, scratch, count)
    count = _match_whole(strings, root, data, begin, end, scratch, count)
    for start in range(begin + 1, end + 1):
        count = _match_rest(strings, root, data, start, end, scratch, count)
    return count


# Counting


@inlined
def _pre_process(selectivity: Any, rounds: int, present: Any, message: int, ignored: Any, total: int) -> int:
    """Exclude the interfaces that need a name that the message lacks; return how many they are."""
    count = 0
    for row in range(min(rounds, selectivity.names.size)):
        if present[selectivity.names[row]] == message:
            continue
        excluded = selectivity.rows[row * ignored.size : (row + 1) * ignored.size]
        for word in range(ignored.size):
            count += _bits(excluded[word] & ~ignored[word])
            ignored[word] |= excluded[word]
        if count == total:
            break
    return count


@inlined
def _count_up(
    gathered: Any, count: Any, counters: Any, size: Any, interfaces: Any, ignored: Any, stamp: Any, out: Any
) -> int:
    """Count up the filters gathered; write the interfaces that match by that, return how many.

    A counter below this message's stamp was left by an earlier message, and stands for zero.
    """
    matched = 0
    one = np.uint64(1)
    for k in range(count):
        f = np.uint32(gathered[k])
        counter = max(np.int64(counters[f]), stamp) + 1
        counters[f] = counter
        if counter == stamp + size[f]:
            interface = interfaces[f]
            word, bit = interface >> 6, one << np.uint64(interface & 63)
            if ignored[word] & bit == 0:  # it is set if a filter gathered together with this one matched
                ignored[word] |= bit
                out[matched] = interface
                matched += 1
    return matched


@inlined
def _count(table: Any, scratch: Any, constraints: int, ignored_count: int, out: Any, place: int) -> Any:
    """Count up the filters of the constraints found; write interfaces that now match from a place on.

    Filters whose interfaces are ignored are left out by arithmetic: half of them or more may be, in no
    pattern, and a branch on each would be mispredicted more often than a counter costs. So each filter is
    written, and only those to be counted move the place of the next; a buffer of them is counted together.
    Unsigned numbers, because Numba checks signed indexes for being counted from the end.
    """
    filters, link_interface, ignored, gathered = (
        table.filters,
        table.link_interface,
        scratch.ignored,
        scratch.gathered,
    )
    stamp = scratch.clock[0] << COUNT_BITS
    enough = gathered.size // 2
    one, six, low = np.uint64(1), np.uint64(6), np.uint64(63)
    count = np.uint64(0)
    for c in range(constraints):
        constraint = scratch.found[c]
        last = table.links[constraint + 1]
        for begin in range(table.links[constraint], last, enough):
            for link in range(begin, min(begin + enough, last)):
                interface = np.uint64(link_interface[link])
                gathered[count] = filters[link]
                count += one ^ (ignored[interface >> six] >> (interface & low) & one)
            if np.int64(count) < enough and c < constraints - 1:
                continue
            matched = _count_up(
                gathered,
                np.int64(count),
                scratch.counters,
                table.size,
                table.interface,
                ignored,
                stamp,
                out[place:],
            )
            count = np.uint64(0)
            place += matched
            ignored_count += matched
            if ignored_count == table.interface_ids.size:
                return ignored_count, place
    return ignored_count, place


@inlined
def _begin(scratch: Any) -> None:
    """A new message: a new stamp for the counters, which are cleared only when the stamps run out."""
    scratch.clock[0] += 1
    if scratch.clock[0] == EPOCHS:
        scratch.clock[0] = 1
        scratch.counters[:] = 0
        scratch.present[:] = 0
    scratch.ignored[:] = 0


@inlined
def _forward(table: Any, selectivity: Any, rounds: int, messages: Any, m: int, scratch: Any, out: Any) -> Any:
    """Forward message `m`: write its interfaces and return how many they are."""
    _begin(scratch)
    first, last = messages.offsets[m], messages.offsets[m + 1]
    for a in range(first, last):
        begin, end = messages.name_offsets[a], messages.name_offsets[a + 1]
        attribute = _find_name(table.names, messages.name_data, begin, end)
        scratch.attributes[a - first] = attribute
        if attribute != -1:
            scratch.present[attribute] = scratch.clock[0]
    total = table.interface_ids.size
    ignored = _pre_process(selectivity, rounds, scratch.present, scratch.clock[0], scratch.ignored, total)
    place = 0
    for a in range(first, last):
        if ignored == total:
            break
        attribute = scratch.attributes[a - first]
        if attribute == -1:
            continue
        constraints = 0
        if messages.kind[a] == INTEGER:
            constraints = _match_number(table.numbers, attribute, messages.number[a], scratch.found)
        elif messages.kind[a] == STRING:
            begin, end = messages.text_offsets[a], messages.text_offsets[a + 1]
            constraints = _match_string(table.strings, attribute, messages.text_data, begin, end, scratch)
        ignored, place = _count(table, scratch, constraints, ignored, out, place)
    return place


@kernel
def forward_messages(
    table: Any, selectivity: Any, rounds: int, messages: Any, scratch: Any
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The interfaces of each message, by their ranks, in the order in which they were found to match."""
    count = messages.offsets.size - 1
    total = table.interface_ids.size
    offsets = np.zeros(count + 1, np.int64)
    interfaces = np.empty(total + count, np.int32)
    for m in range(count):
        place = offsets[m]
        if interfaces.size < place + total:
            grown = np.empty(2 * (place + total), np.int32)
            grown[:place] = interfaces[:place]
            interfaces = grown
        offsets[m + 1] = place + _forward(
            table, selectivity, rounds, messages, m, scratch, interfaces[place:]
        )
    return offsets, interfaces[: offsets[count]].copy()
