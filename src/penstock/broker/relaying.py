"""Events by the block: matched all at once, passed on as bytes. The counterpart of `publishing`.

Trees, table and clients are the same, and so is who gets what. What differs is what live links need: events
are numbered by their publishers, who may send again what was not acknowledged, through another broker if
need be; and what has not come is taken even if later numbers have, because links lose nothing.
"""

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.broker.clients import Client, Clients
from penstock.broker.effects import DeliverBlock, RefuseBlock, SendBlock
from penstock.broker.needs import BlockMatching
from penstock.broker.outbox import Outbox
from penstock.broker.seen import Marked, Seen
from penstock.broker.table import Table
from penstock.broker.trees import HERE, Trees
from penstock.filters.filter import ALWAYS
from penstock.filters.predicate import Predicate
from penstock.wire.blocks import HOPS_MAX

if TYPE_CHECKING:
    from penstock.wire.blocks import Block

_EVERYTHING = Predicate([ALWAYS])

KEYS_MAX: Final = 2**20
"""Keys of subscriptions in one block for a client: 4 MiB of a frame."""


class Relaying:
    """Passes blocks of events on."""

    def __init__(
        self,
        table: Table,
        trees: Trees,
        clients: Clients,
        outbox: Outbox,
        matching: BlockMatching,
        *,
        advertisements: bool,
        floods: bool,
    ) -> None:
        self.duplicates = 0
        """Events that came again, and were dropped."""
        self.late = 0
        """Events that came after later ones of the same publisher."""
        self.withheld = 0
        """Events that a client was not to see."""
        self.unrouted = 0
        """Events of trees that were not known any more."""
        self._table = table
        self._trees = trees
        self._clients = clients
        self._outbox = outbox
        self._matching = matching
        self._advertisements = advertisements
        self._floods = floods
        self._seen = Seen()
        self._rescued = Marked()

    def on_block(self, block: "Block", link: str) -> None:
        """Events come from a client or from a neighbour, or are sent again after a failure (from nowhere)."""
        client = self._clients.get(link)
        if client is not None:
            self._on_client_block(block, link, client)
        elif link and link not in self._outbox.links:
            return
        elif block.header.tree not in self._trees:
            # The way is gone for ever, and what was bound to it.
            self.unrouted += len(block)
        else:
            self._relay(block, link)

    def _on_client_block(self, block: "Block", link: str, client: Client) -> None:
        key = block.header.tree
        tree = client.advertisements.get(key) if self._advertisements else self._trees.any_through(HERE)
        if tree is None:
            self._refuse(block, link, "nothing is advertised under this key; advertise before publishing")
            return
        offered = self._trees[tree].filter
        if not self._advertisements and client.grants.advertise is not None:
            offered = client.grants.advertise
        if offered != _EVERYTHING:
            fits = self._matching.holds(offered, block)
            if not fits.all():
                why = f"the event is not among what was advertised or granted: {offered.to_sql():.200}"
                self._refuse(block.take(np.flatnonzero(~fits)), link, why)
                if not fits.any():
                    return
                block = block.take(np.flatnonzero(fits))
        origin = f"{client.origin}/{key}"
        self._relay(block.with_header(msgspec.structs.replace(block.header, tree=tree, origin=origin)), link)

    def _refuse(self, block: "Block", link: str, why: str) -> None:
        self._outbox.effects.append(RefuseBlock(link, block, why))

    def _relay(self, block: "Block", link: str) -> None:
        # Before anything is taken for come, because this is what finds events that are none.
        found = self._matching.match_block(block)
        new = self._new(block)
        if not new.any():
            return
        # What is rescued is not dropped for having come, so that nothing else would end a circle of ways.
        goes_on = block.header.hops < HOPS_MAX
        header = msgspec.structs.replace(block.header, hops=min(HOPS_MAX, block.header.hops + 1))
        if self._floods and goes_on:
            # Whichever neighbour was first: others drop the copies that come to them in a circle.
            passed = block.take(np.flatnonzero(new), header)
            self._outbox.effects += [SendBlock(to, passed) for to in self._outbox.links if to != link]
        for to, events, keys in self._table.wanting_block(found, header.tree, self._clients):
            kept = new[events]
            events, keys = events[kept], keys[kept]
            if not len(events):
                continue
            if to in self._clients:
                self._deliver(to, block, events, keys)
            elif to != link and goes_on and not self._floods:
                self._outbox.effects.append(SendBlock(to, block.take(np.unique(events), header)))

    def _new(self, block: "Block") -> NDArray[np.bool_]:
        """Which events of a block are to be passed on, because they have not come before."""
        top = self._seen.top(block.header.origin)
        new = self._seen.add(block.header.origin, block.numbers)
        if block.header.rescued:
            # Those behind the failure may not have had it; others will drop it.
            new = self._rescued.add(block.header.origin, block.header.rescued, block.numbers)
        self.duplicates += len(block) - int(np.count_nonzero(new))
        self.late += int(np.count_nonzero(new & (block.numbers < top)))
        return new

    def _deliver(self, link: str, block: "Block", events: NDArray[np.int64], keys: NDArray[np.int64]) -> None:
        """Give events to a client, those that it may see."""
        which, starts = np.unique(events, return_index=True)
        header = msgspec.structs.replace(block.header, hops=min(HOPS_MAX, block.header.hops + 1))
        grants = self._clients[link].grants
        if grants.subscribe is not None:
            allowed = self._matching.holds(grants.subscribe, block)[which]
            if not allowed.all():
                self.withheld += int(np.count_nonzero(~allowed))
                kept = np.isin(events, which[allowed])
                events, keys = events[kept], keys[kept]
                if not len(events):
                    return
                which, starts = np.unique(events, return_index=True)
        offsets = np.append(starts, len(events)).astype(np.int64)
        first = 0
        while first < len(which):
            # So many events that their keys fit a frame; one at least, however many it has.
            last = int(np.searchsorted(offsets, offsets[first] + KEYS_MAX, side="right")) - 1
            last = max(first + 1, last)
            part = block.take(which[first:last], header)
            mine = keys[offsets[first] : offsets[last]]
            self._outbox.effects.append(
                DeliverBlock(link, part.with_keys(mine, offsets[first : last + 1] - offsets[first]))
            )
            first = last
