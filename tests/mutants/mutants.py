"""Deliberate defects, each a small change of the source: `make mutants` shows that something notices.

A mutant is caught by `check`, seeds of whole nodes under faults, or by a named test where no fault on bytes
or processes shows the difference. `test_mutants_list.py` notices when the code has moved on.
"""

from typing import Final, NamedTuple

CHECK: Final = "check"
"""Caught by `penstock.sim.whole`: one of the seeds fails."""


class Mutant(NamedTuple):
    """One defect."""

    name: str
    file: str
    """Relative to src/penstock."""
    old: str
    """Occurs exactly once in the file."""
    new: str
    breaks: str
    caught_by: str = CHECK
    """CHECK, or the id of a test."""

    def apply(self, source: str) -> str:
        """The source with the defect in it. Raises ValueError where the old text is not there once."""
        count = source.count(self.old)
        if count != 1:
            raise ValueError(
                f"mutant {self.name}: its old text occurs {count} times in {self.file} in place of once; "
                "the code has moved on, so write the mutant anew"
            )
        return source.replace(self.old, self.new)


_SUBSCRIBING: Final = "broker/trees/subscribing.py"
_SLICES: Final = "tests/broker/test_slices.py::"
_SESSIONS: Final = "wire/sessions.py"
_RUNTIME: Final = "node/runtime.py"
_TURNS: Final = "node/turns.py"
_ADMISSION: Final = "node/admission.py"
_PASSING: Final = "node/passing.py"
_HUB: Final = "node/hub.py"
_WATCHING: Final = "node/watching.py"
_DIALING: Final = "node/dialing.py"
_OPENING: Final = "node/opening.py"
_CORE: Final = "node/client/core.py"
_LINE: Final = "node/client/line.py"
_OUTLET: Final = "node/client/outlet.py"
_INTAKE: Final = "node/client/intake.py"
_FORWARDING: Final = "broker/forwarding.py"
_SEEN: Final = "broker/seen.py"
_BROKER: Final = "broker/trees/broker.py"
_OF_CATCHING_UP: Final = "tests/broker/test_catching_up.py::"
_ADVERTISING: Final = "broker/trees/advertising.py"
_TREES: Final = "broker/trees/trees.py"
_CATCHING: Final = "broker/trees/catching.py"
_HISTORY: Final = "node/history.py"
_REPLAYING: Final = "node/replaying.py"
_OF_REPLAYING: Final = "tests/node/test_replaying.py::"
_FRAMES: Final = "wire/frames.py"
_CONNECTION: Final = "node/connection.py"
_LINKS: Final = "node/links.py"
_BURDENED: Final = "tests/sim/test_whole_burdens.py::"
_PLANS: Final = "tests/sim/test_whole_plans.py::"
_LOSSES: Final = "tests/sim/test_whole_losses.py::"

_OF_SESSIONS: Final = "tests/wire/test_sessions.py::"
_OF_TURNS: Final = "tests/node/test_turns.py::"
_OF_CLIENT: Final = "tests/node/client/test_client_core.py::"
_FOUND: Final = "tests/node/test_mutants_found.py::"

_CUSTODY: Final = (
    Mutant(
        "custody-not-held",
        _SESSIONS,
        "            out.custody.hold(out.stage)\n",
        "            pass\n",
        "a frame is acknowledged as soon as it is passed on, before anybody has it",
    ),
    Mutant(
        "custody-failing-ignored",
        _SESSIONS,
        "        elif not self._is_mending:\n",
        "        elif False:\n",
        "what could not be passed on counts as passed on",
    ),
    Mutant(
        "custody-clients-not-waited-for",
        _RUNTIME,
        "self._send_block(link, effect.events.as_block(), custody, now, frame)",
        "self._send_block(link, effect.events.as_block(), None, now, frame)",
        "events are acknowledged before the broker's own clients have taken them",
        _FOUND + "test_what_a_subscriber_has_not_taken_is_not_acknowledged",
    ),
    Mutant(
        "custody-neighbours-not-waited-for",
        _RUNTIME,
        "self._send_block(link, effect.message, custody, now, frame)",
        "self._send_block(link, effect.message, None, now, frame)",
        "events are acknowledged before the next broker has dealt with them",
    ),
    Mutant(
        "custody-released-twice",
        _SESSIONS,
        "        custody, self.custody = self.custody, None\n",
        "        custody = self.custody\n",
        "what a slow client was let go of is released again when the client acknowledges it",
        _OF_SESSIONS + "test_who_is_let_go_and_acknowledges_all_the_same_does_not_count_for_somebody_else",
    ),
    Mutant(
        "custody-failed-at-first-holder",
        _SESSIONS,
        "        self._has_failed = True\n",
        "        self._has_failed = self._holders == 1\n",
        "a failure is forgotten if others still hold the frame",
        _FOUND + "test_what_failed_for_one_is_sent_again_though_others_have_not_dealt_with_it_yet",
    ),
    Mutant(
        "neighbours-not-waited-for",
        _RUNTIME,
        "Stage.ACCEPTED if link.is_client else Stage.NONE",
        "Stage.ACCEPTED",
        "events count as accepted before another broker has them",
        "tests/node/test_runtime.py::test_an_event_is_not_accepted_before_the_last_broker_has_it",
    ),
    Mutant(
        "stage-said-too-soon",
        _SESSIONS,
        "        if self._at_least is None or self._has_failed:\n",
        "        if self._at_least is None:\n",
        "events count as accepted though somebody could not pass them on",
        "tests/wire/test_stages.py::test_a_stage_is_reached_when_the_last_holder_has_reached_it",
    ),
    Mutant(
        "stage-not-passed-on",
        _PASSING,
        "            link.session.reach(number, stage)\n",
        "            pass\n",
        "a publisher waits for readers though it does not want to",
        _FOUND + "test_publishers_wait_for_no_more_than_the_stage_they_ask_for",
    ),
    Mutant(
        "young-subscriptions-get-all",
        "broker/clients.py",
        "        if self._last_made_at <= latest:\n",
        "        if True:\n",
        "a subscription gets events from before it was made while others catch up",
        _FOUND + "test_a_subscription_that_was_narrow_before_gets_nothing_more_from_then",
    ),
    Mutant(
        "changed-subscriptions-get-nothing",
        "broker/clients.py",
        "key: _filter_at(made, latest)",
        "key: None",
        "what two filters of a subscription match is missed if it changed while it was cut off",
        _FOUND + "test_what_all_filters_of_a_subscription_match_is_not_missed_when_it_changed_while_cut_off",
    ),
)

_OF_LINKS: Final = (
    Mutant(
        "resume-skips-a-frame",
        _SESSIONS,
        "if out.number > their_received]",
        "if out.number > their_received + 1]",
        "after a lost connection the first missing frame is not sent again",
        _FOUND + "test_a_line_that_breaks_for_a_moment_loses_nothing_whatever_was_under_way",
    ),
    Mutant(
        "resume-sends-nothing",
        _SESSIONS,
        "        return [out.data for out in self._unacked.values() if out.number > their_received]",
        "        return []",
        "after a lost connection nothing is sent again",
    ),
    Mutant(
        "resume-keeps-ack-to-itself",
        _SESSIONS,
        "        self._ack_said = -1\n",
        "",
        "an acknowledgement that was lost with a connection is not said again",
    ),
    Mutant(
        "resume-forgets-acks-out-of-turn",
        _SESSIONS,
        "        self._unsaid = sorted(self._dealt)\n",
        "        self._unsaid = []\n",
        "acknowledgements out of turn that were lost with a connection are not said again",
        "tests/wire/test_acks_out_of_turn.py::"
        "test_frames_come_once_in_order_and_are_done_once_whatever_is_lost",
    ),
    Mutant(
        "ack-covers-earlier-frames",
        _SESSIONS,
        "        if number != self._dealt_to + 1:\n",
        "        if number <= self._dealt_to:\n",
        "a frame that is dealt with acknowledges those before it too",
    ),
    Mutant(
        "acks-out-of-turn-ignored",
        _SESSIONS,
        "        done += [self._unacked.pop(number) for number in others if number in self._unacked]\n",
        "",
        "frames that are dealt with out of turn wait for those before them",
    ),
    Mutant(
        "duplicate-frames-taken",
        _SESSIONS,
        "        if number <= self.received:\n            return None\n",
        "        if number <= self.received:\n            return number, payload[_NUMBER:]\n",
        "a frame that comes again is taken again",
        _OF_SESSIONS + "test_frames_that_come_twice_are_dropped_and_gaps_are_errors",
    ),
    Mutant(
        "window-ignored",
        _SESSIONS,
        "while self._urgent or (self._pending and self._unacked_bytes < self.window):",
        "while self._urgent or self._pending:",
        "more than a window of bytes is sent before any of it is acknowledged",
        _OF_SESSIONS + "TestResuming",
    ),
    Mutant(
        "abandon-forgets-unsent",
        _SESSIONS,
        "        left = [*self._unacked.values(), *self._urgent, *self._pending]\n",
        "        left = list(self._unacked.values())\n",
        "when a session is over, nobody is told of frames that were never sent",
    ),
    Mutant(
        "abandon-unsent-succeeds",
        _SESSIONS,
        "            if failed:\n                custody.fail()\n",
        "            if failed and self.number:\n                custody.fail()\n",
        "when a session is over, frames that were never sent count as dealt with",
        _FOUND + "test_what_was_for_a_link_that_is_cut_for_good_comes_another_way",
    ),
    Mutant(
        "drop-pending-drops-messages",
        _SESSIONS,
        "        self._pending = deque(out for out in self._pending if out.block is None)\n",
        "        self._pending = deque()\n",
        "messages for a slow client are dropped together with the events",
        _OF_SESSIONS + "test_what_is_pending_can_be_dropped_and_messages_stay",
    ),
    Mutant(
        "hand-over-without-pending",
        _SESSIONS,
        "        left = [*self._unacked.values(), *self._pending]\n",
        "        left = list(self._unacked.values())\n",
        "a client that goes to another broker forgets what it had not sent yet",
    ),
)

_RESCUE: Final = (
    Mutant(
        "rescue-not-marked",
        _PASSING,
        "rescued=runtime.world.mark()",
        "rescued=block.header.rescued",
        "brokers drop events that are sent again as duplicates",
    ),
    Mutant(
        "rescue-mark-reused",
        _PASSING,
        "rescued=runtime.world.mark()",
        "rescued=block.header.rescued or runtime.world.mark()",
        "events that are sent again a second time are dropped as duplicates",
        _FOUND + "test_what_was_sent_again_is_sent_again_when_the_other_way_is_cut_too",
    ),
    Mutant(
        "rescue-given-up-early",
        _PASSING,
        "ATTEMPTS_MAX: Final = 5",
        "ATTEMPTS_MAX: Final = 1",
        "events are given up after they were sent again once",
        _FOUND + "test_events_are_sent_again_five_times_and_then_given_up_which_the_publisher_is_told",
    ),
    Mutant(
        "rescue-never-given-up",
        _PASSING,
        "            frame.attempts += 1\n",
        "            frame.attempts = 1\n",
        "events that nobody can pass on are sent again for ever",
        _FOUND + "test_events_are_sent_again_five_times_and_then_given_up_which_the_publisher_is_told",
    ),
    Mutant(
        "rescue-at-once",
        _PASSING,
        "runtime.world.time() + self._times.settle, frame",
        "runtime.world.time(), frame",
        "events are sent again before another path is known",
        "tests/node/test_runtime.py::test_what_a_link_that_failed_had_is_sent_again_after_a_while",
    ),
    Mutant(
        "rescue-to-new-session",
        _PASSING,
        "        session = link.session\n",
        "        link = runtime.links.get(link.name, link)\n        session = link.session\n",
        "events of a session that is over are acknowledged in the next one",
        "tests/node/test_runtime.py::"
        "test_what_is_to_be_sent_again_is_not_mixed_up_with_a_new_session_of_its_publisher",
    ),
    Mutant(
        "returned-not-sent",
        _PASSING,
        "        if frame.is_returned or link.phase is LinkPhase.GONE:\n",
        "        if True:\n",
        "a broker that could not pass on events acknowledges them as if it had",
        _FOUND + "test_what_was_for_a_link_that_is_cut_for_good_comes_another_way",
    ),
    Mutant(
        "returned-not-heard",
        _RUNTIME,
        "            link.session.fail(message.number)\n",
        "            pass\n",
        "a broker takes no notice of events that come back",
        _FOUND + "test_what_was_for_a_link_that_is_cut_for_good_comes_another_way",
    ),
    Mutant(
        "ack-before-returned",
        _PASSING,
        "        self._runtime.say(link, Returned(frame.number), told)\n",
        "        self._runtime.say(link, Returned(frame.number))\n",
        "events are acknowledged before the other side knows that they came back",
        "tests/node/test_runtime.py::test_events_of_a_neighbour_that_cannot_be_passed_on_are_returned_to_it",
    ),
    Mutant(
        "rescued-dropped-as-seen",
        _FORWARDING,
        "            new = self._rescued.add(",
        "            new = new & self._rescued.add(",
        "a broker drops events that are sent again if it had them",
    ),
    Mutant(
        "rescued-marks-not-remembered",
        _FORWARDING,
        "            new = self._rescued.add(",
        "            new = True | self._rescued.add(",
        "events that are sent again go round in circles",
    ),
    Mutant(
        "marks-shared-by-origins",
        _SEEN,
        "given = [(origin, mark, number) for number in numbers.tolist()]",
        'given = [("", mark, number) for number in numbers.tolist()]',
        "of two publishers' events that are sent again under one mark, one is dropped",
        "tests/broker/test_forwarding.py::test_numbers_of_two_advertisements_are_not_mixed_up",
    ),
    Mutant(
        "late-events-dropped",
        _FORWARDING,
        "        self.duplicates += len(events) - events.count(new)\n",
        "        new = new & (numbers > top)\n        self.duplicates += len(events) - events.count(new)\n",
        "an event that comes after later ones counts as a duplicate",
    ),
)

_FAILOVER: Final = (
    Mutant(
        "numbers-restart",
        _OUTLET,
        "        again, mark = 0, self._world.mark()\n",
        "        again, mark = 0, self._world.mark()\n        self._numbers.clear()\n",
        "a client that goes to another broker numbers its events from 1 again",
    ),
    Mutant(
        "published-again-unmarked",
        _OUTLET,
        "header = msgspec.structs.replace(block.header, rescued=mark, age=age)",
        "header = msgspec.structs.replace(block.header, age=age)",
        "events that a client publishes again are dropped as duplicates",
        _FOUND + "test_what_is_published_again_at_a_broker_that_has_had_it_goes_on_to_those_who_have_not",
    ),
    Mutant(
        "published-again-under-one-mark",
        _OUTLET,
        "again, mark = 0, self._world.mark()",
        "again, mark = 0, 1",
        "events that a client publishes again a second time are dropped as duplicates",
        _OF_CLIENT + "test_what_is_published_again_has_another_mark_each_time",
    ),
    Mutant(
        "advertisements-not-restated",
        _CORE,
        "self.advertised.items():\n            self._say(self._offer(0, key, text))\n",
        "self.advertised.items():\n            pass\n",
        "a new broker is not told what a client publishes",
    ),
    Mutant(
        "only-last-subscription-restated",
        _CORE,
        "        for key, text in self.wanted.items():\n",
        "        for key, text in list(self.wanted.items())[-1:]:\n",
        "a new broker is told of one subscription only",
    ),
    Mutant(
        "requests-not-repeated",
        _CORE,
        "            self._say(request)\n        return self.outlet.use(session, ",
        "            pass\n        return self.outlet.use(session, ",
        "a new broker is not asked what the old one had not answered",
    ),
    Mutant(
        "stale-session-counted-on",
        _LINE,
        "            self._sessions += 1\n",
        "",
        "a client that comes back to an earlier broker offers its old session again and again",
        _OF_CLIENT + "test_a_session_that_another_took_the_place_of_is_not_gone_on_with",
    ),
    Mutant(
        "stale-session-resumed",
        _LINE,
        "        if welcome.resumed and home != self._home:\n",
        "        if welcome.resumed and not self._home:\n",
        "a client goes on with a session that an earlier broker has kept",
        _OF_CLIENT + "test_a_session_that_another_took_the_place_of_is_not_gone_on_with",
    ),
    Mutant(
        "first-way-only",
        _LINE,
        "following = (current + 1) % len(self._ways)",
        "following = 0",
        "a client waits for its first broker in place of trying the others",
        _OF_CLIENT
        + "test_when_a_broker_is_gone_the_next_is_told_everything_and_sent_what_was_not_acknowledged",
    ),
    Mutant(
        "duplicates-handed-out",
        _INTAKE,
        "        return new, numbers < top\n",
        "        return new | True, numbers < top\n",
        "a client hands out events twice that two brokers sent",
    ),
    Mutant(
        "restating-not-noticed",
        _CORE,
        "self._intake.is_restating = bool(self.wanted)",
        "self._intake.is_restating = False",
        "an event that came for some subscriptions while all are said anew never comes for the others",
        _OF_CLIENT + "test_while_subscriptions_are_said_again_an_event_may_come_for_each_of_them_in_turn",
    ),
    Mutant(
        "restating-forgets-keys",
        _INTAKE,
        "        came_for.add(key)\n",
        "",
        "an event that comes twice while subscriptions are said anew is handed out twice",
        "tests/node/client/test_intake.py::test_while_restating_an_event_is_due_once_for_each_subscription",
    ),
    Mutant(
        "client-acks-at-once",
        _CORE,
        "        custody = Custody(dealt_with)\n        if block.number is None:\n",
        "        dealt_with(True)\n        custody = Custody(str)\n        if block.number is None:\n",
        "a client acknowledges events before the program has handled them",
        _OF_CLIENT + "test_events_are_acknowledged_when_whoever_has_them_lets_go",
    ),
    Mutant(
        "silent-broker-not-left",
        _LINE,
        "                connection.abort()\n            elif silent > _SILENT_MAX / _LOOKS:\n",
        "                connection.ping()\n            elif silent > _SILENT_MAX / _LOOKS:\n",
        "a client waits for ever for a broker that says nothing any more",
        _OF_CLIENT + "test_a_broker_that_says_nothing_any_more_is_left",
    ),
)

_LEASES: Final = (
    Mutant(
        "lease-never-ends",
        _BROKER,
        "now - state.heard_at > self._lease:",
        "now - state.heard_at > 1e9 * self._lease:",
        "what a neighbour said stays for ever though nothing is heard of it",
        "tests/broker/test_core.py::test_a_lease_that_runs_out_ends_what_it_was_for",
    ),
    Mutant(
        "orphans-kept",
        _ADVERTISING,
        "if now - branch.orphan_since > lease]",
        "if now - branch.orphan_since > 1e9 * lease]",
        "trees whose publishers are gone are never forgotten",
    ),
    Mutant(
        "orphan-not-asked-for",
        _ADVERTISING,
        "        self._orphan(trees, link, now, silent)\n        self._ask_for(trees, now)\n",
        "        self._orphan(trees, link, now, silent)\n",
        "a broker that has lost the path to a publisher waits for the next tick to ask for another",
        _FOUND + "test_another_path_is_asked_for_as_soon_as_one_is_lost",
    ),
    Mutant(
        "orphans-never-asked-for",
        _ADVERTISING,
        "        if wanted:\n            self._losses += 1\n",
        "        if False:\n            self._losses += 1\n",
        "a broker that has lost the path to a publisher never asks for another",
    ),
    Mutant(
        "epoch-not-raised",
        _ADVERTISING,
        "self.plant(tree, branch.filter, epoch + 1, HERE, now, branch.publisher)",
        "self.plant(tree, branch.filter, epoch, HERE, now, branch.publisher)",
        "an advertisement that is asked for anew is taken for the old one",
    ),
    Mutant(
        "same-epoch-is-news",
        _TREES,
        "return known is None or epoch > known.epoch",
        "return known is None or epoch >= known.epoch",
        "each copy of an advertisement changes the path, so that paths lead in circles",
    ),
    Mutant(
        "lost-not-passed-on",
        _ADVERTISING,
        "        self._outbox.tell_all(message, link)\n        for tree, epoch in message.trees:\n",
        "        for tree, epoch in message.trees:\n",
        "only direct neighbours hear that a path is lost",
    ),
    Mutant(
        "lost-counted-across-lives",
        _ADVERTISING,
        "Lost(self._name, (self._incarnation, self._losses), tuple(wanted))",
        "Lost(self._name, (0, self._losses), tuple(wanted))",
        "what a restarted broker asks for is taken for a question of its earlier life",
        _FOUND + "test_another_path_is_asked_for_by_a_broker_that_asked_in_an_earlier_life_too",
    ),
    Mutant(
        "resync-not-sent",
        _BROKER,
        "            self._outbox.send(link, Resync())\n        if arrival is not Arrival.DROP:\n",
        "            pass\n        if arrival is not Arrival.DROP:\n",
        "a broker that has missed something does not ask for it",
        "tests/broker/test_core.py::test_a_missing_number_is_noticed_and_all_is_said_again",
    ),
    Mutant(
        "link-down-keeps-nothing",
        _BROKER,
        "            if message.keep:\n",
        "            if False:\n",
        "what is wanted behind a broken link is forgotten before another path is found",
        _FOUND + "test_what_is_wanted_behind_a_broken_link_is_known_until_another_path_is_found",
    ),
    Mutant(
        "stump-forgotten",
        _TREES,
        "        self._stumps[tree] = stump\n",
        "        return\n",
        "an old copy of an advertisement brings back a tree that is gone",
        _FOUND + "test_an_old_copy_does_not_bring_back_a_tree_that_is_gone",
    ),
    Mutant(
        "dead-keeper-not-told",
        _CATCHING,
        "        self._expire(now)\n",
        "",
        "nobody is told that the broker that kept events has died",
        "tests/sim/test_whole_plans.py::test_a_part_that_stays_cut_off_is_told_that_it_may_have_missed_something",
    ),
    Mutant(
        "publishers-report-not-read",
        _CATCHING,
        "        if not gap.count:\n            self._answer(tree, 0)\n",
        "        if True:\n            self._answer(tree, 0)\n",
        "a publisher that says what was acknowledged is taken to say that nothing was",
        "tests/sim/test_whole_plans.py::test_who_was_away_when_the_broker_that_kept_events_died_is_told",
    ),
    Mutant(
        "earlier-broker-forgotten",
        _CATCHING,
        "                self.miss_earlier(link, tree, now)\n",
        "",
        "a client whose broker died too is not told what the publisher's broker took with it",
        "tests/sim/test_whole_plans.py::test_who_was_away_and_lost_its_own_broker_too_is_told_by_the_publisher",
    ),
    Mutant(
        "earlier-broker-of-a-neighbour-only",
        _ADVERTISING,
        "                    self._catching.miss_earlier(link, tree, at)\n",
        "                    pass\n",
        "a client is not told what was lost with the earlier broker of a publisher that comes to its own",
        _PLANS + "test_seeds_that_failed_pass",
    ),
    Mutant(
        "age-of-messages-ignored",
        _RUNTIME,
        "message.aged(waited) if waited > _WAITED_S else message",
        "message",
        "a broker that stood still asks for too little of what it missed",
        _PLANS + "test_seeds_that_failed_pass",
    ),
    Mutant(
        "published-again-without-age",
        _OUTLET,
        "age = 0.0 if accepted_at is None else self._world.time() - accepted_at",
        "age = 0.0",
        "a subscription gets an event that was acknowledged before it was made",
        _PLANS + "test_what_is_published_again_after_it_was_acknowledged_is_not_for_later_subscriptions",
    ),
    Mutant(
        "age-stands-still-while-events-wait",
        _PASSING,
        "age=header.age + seconds",
        "age=header.age",
        "a subscription that was made while such an event waited gets it",
        "tests/node/test_over_quota.py::test_events_that_wait_grow_older_if_they_have_an_age",
    ),
    Mutant(
        "change-forgets-what-was-missed",
        _SUBSCRIBING,
        "        pending = self._pending.pop((link, message.key), None)\n",
        "        pending, _old = None, self._pending.pop((link, message.key), None)\n",
        "a filter that changes before it is bound forgets what its client missed",
        _SLICES + "test_what_a_client_missed_is_asked_for_though_its_filter_changes_before_it_is_bound",
    ),
    Mutant(
        "departed-clients-are-neighbours",
        _SUBSCRIBING,
        "            self._table.departed.add(link)\n",
        "",
        "events for a client that has left are sent to nobody, and waited for",
        _SLICES + "test_a_client_that_has_left_gets_nothing_while_its_subscriptions_are_forgotten",
    ),
    Mutant(
        "bound-to-everything",
        _SUBSCRIBING,
        "            is_wanted = overlaps(entry.filter, predicate)\n",
        "            is_wanted = True\n",
        "neighbours are asked for what they do not advertise",
        _SLICES + "test_a_subscription_is_bound_to_no_tree_that_it_does_not_overlap",
    ),
    Mutant(
        "given-up-at-the-next-look",
        _RUNTIME,
        "        if link.is_given_up and not link.session.is_waiting:\n            custody = None\n",
        "",
        "each event for a reader that was given up waits for the next look at who is slow",
        _FOUND + "test_nobody_waits_for_a_reader_that_has_been_given_up_at_another_broker",
    ),
    Mutant(
        "goodbye-not-said",
        "broker/trees/broker.py",
        "            self._advertising.fell(tree, now, used=used, ended=True)\n",
        "            pass\n",
        "clients are told in vain that they missed events of a broker that was stopped",
        "tests/sim/test_whole_plans.py::test_a_broker_that_ends_as_it_should_has_nobody_told_in_vain",
    ),
    Mutant(
        "due-soon-told-by-itself",
        _CATCHING,
        "        for tree in list(self._gaps) if found else ():\n",
        "        for tree in ():\n",
        "a client is told again some seconds later of each tree that was lost with the first",
        _OF_CATCHING_UP + "test_what_is_due_soon_is_told_with_what_is_due",
    ),
    Mutant(
        "history-shorter-than-questions",
        _RUNTIME,
        "History(times.kept_at_most, ",
        "History(times.kept, ",
        "events are dropped while there is room, and clients are told of what they did not want",
        _PLANS + "test_while_there_is_room_events_are_kept_for_as_long_as_they_can_be_asked_for",
    ),
    Mutant(
        "schema-on-the-loop",
        _TURNS,
        "return self._schema is None and has_plain_filters(request)",
        "return has_plain_filters(request)",
        "plain filters are not held against the schema, or only on the event loop",
        _OF_TURNS + "test_what_has_to_fit_a_schema_is_compared_with_it_elsewhere_and_counted_to_its_subject",
    ),
    Mutant(
        "goodbye-without-a-reason",
        "broker/trees/broker.py",
        "fell(tree, now, used=used, ended=True)",
        "fell(tree, now, used=used)",
        "what went with a broker that was stopped is told only if its publisher reports it",
        _PLANS + "test_what_went_with_a_drained_broker_is_told_though_its_publisher_is_gone",
    ),
    Mutant(
        "earlier-brokers-believed-unasked",
        _CATCHING,
        "            if self._is_looked_after(other, gap)\n",
        "",
        "a publisher's report of a broker is ignored because its tree is known, though nobody asks for it",
        _OF_CATCHING_UP + "test_a_report_of_a_tree_that_nobody_asks_for_counts",
    ),
    Mutant(
        "offers-not-asked-for",
        _ADVERTISING,
        "gone = [tree for tree in self._trees.offered() if tree not in self._trees]",
        "gone: list[Tree] = []",
        "a tree that was forgotten stays so though neighbours know a path",
        "tests/sim/test_plans.py::test_what_went_wrong_once_goes_right",
    ),
    Mutant(
        "restarted-neighbour-trusted",
        _ADVERTISING,
        "there = frozenset() if anew else frozenset(",
        "there = frozenset(",
        "paths through a neighbour that has lost its memory are kept, and may lead in circles",
        _FOUND + "test_paths_through_a_neighbour_that_has_lost_its_memory_are_asked_for_anew",
    ),
    Mutant(
        "old-path-left-at-once",
        _ADVERTISING,
        "if before is not None and self._linger and self._subscribing.knows(before):",
        "if before is not None and not self._linger and self._subscribing.knows(before):",
        "events that are on the old path when a new one is found are dropped there",
        "tests/broker/test_core.py::"
        "test_events_are_asked_for_on_a_new_way_before_they_no_longer_are_on_the_old",
    ),
    Mutant(
        "unreachable-not-passed-on",
        _ADVERTISING,
        "            self._outbox.tell_all(Unreachable(tree, max(",
        "            (lambda *_: None)(Unreachable(tree, max(",
        "brokers further on keep a path that is cut",
    ),
    Mutant(
        "flood-nobody-says-that-a-life-is-over",
        "broker/flood/node.py",
        "        if keeps_events:",
        "        if False:",
        "what died with a node that floods is told to nobody",
        "tests/sim/test_whole_plans.py::test_who_was_away_when_the_broker_that_kept_events_died_is_told",
    ),
    Mutant(
        "flood-those-who-are-out-of-reach-are-not-waited-for",
        "broker/flood/whereabouts.py",
        "            elif not said.left and not is_answered:",
        "            elif False:",
        "a publisher that is yet to report counts as one that lost nothing",
        "tests/broker/test_flood_losses.py::test_what_is_known_does_not_depend_on_the_order_of_statements",
    ),
    Mutant(
        "flood-newcomers-are-not-told-who-publishes",
        "broker/flood/node.py",
        "                effects += [Send(link, known) for known in self._register.all(now)]",
        "                effects += []",
        "a node that has just started takes the dead for harmless",
        "tests/sim/test_whole_plans.py::test_flood_a_node_that_has_just_started_learns_who_publishes",
    ),
    Mutant(
        "reports-of-all-turns-alike",
        "broker/publishers.py",
        "if turn not in others and at >=",
        "if at >=",
        "what arrived from a publisher's later brokers counts as missing",
        _OF_CATCHING_UP + "test_what_was_acknowledged_at_other_brokers_is_not_missing",
    ),
    Mutant(
        "nobody-waits-for-publishers-out-of-reach",
        "broker/trees/reports.py",
        ">= apart_since:",
        "== float('inf'):",
        "a publisher that was at a lost broker and cannot be found is taken for one that has nothing to say",
        _OF_CATCHING_UP + "test_a_publisher_that_cannot_be_reached_itself_may_have_been_there",
    ),
    Mutant(
        "young-brokers-not-taught",
        "broker/trees/catching.py",
        "self._is_taught |= all_of_them",
        "self._is_taught = False",
        "clients of a broker that has just started ask the next one for too much",
        _OF_CATCHING_UP + "test_a_broker_that_has_just_started_is_told_what_its_clients_may_miss",
    ),
    Mutant(
        "gone-trees-not-missed",
        "broker/trees/catching.py",
        "since is not None and now - client.came_at < self._keep",
        "since is None",
        "clients that came before a broker was taught are not told what they miss",
        _OF_CATCHING_UP + "test_a_broker_that_has_just_started_is_told_what_its_clients_may_miss",
    ),
    Mutant(
        "all-behind-for-one-tree",
        _CATCHING,
        "self._affected(tree).items():\n                behind[link] =",
        "dict.fromkeys(self._clients, 0.0).items():\n                behind[link] =",
        "one tree that is gone keeps all clients behind",
        _OF_CATCHING_UP + "test_who_wants_nothing_of_a_tree_that_is_gone_is_not_behind_because_of_it",
    ),
)

_TIME: Final = (
    Mutant(
        "resume-and-grace-mixed-up",
        _WATCHING,
        "link.phase is LinkPhase.CUT and now - link.since > self._times.resume:",
        "link.phase is LinkPhase.CUT and now - link.since > self._times.grace:",
        "a broken link is given up after another time than the one that is set",
        _FOUND + "test_a_broken_link_is_given_up_after_resume_and_over_after_grace",
    ),
    Mutant(
        "never-gives-up",
        _WATCHING,
        "link.phase is LinkPhase.CUT and now - link.since > self._times.resume:",
        "link.phase is LinkPhase.GONE:",
        "no path around a broken link is looked for",
    ),
    Mutant(
        "away-for-ever",
        _WATCHING,
        "link.phase is LinkPhase.AWAY and now - link.since > self._times.grace:",
        "link.phase is LinkPhase.GONE:",
        "events for a neighbour that is gone are never sent another way",
        _FOUND + "test_what_was_for_a_link_that_is_cut_for_good_comes_another_way",
    ),
    Mutant(
        "away-succeeds",
        _WATCHING,
        "link.phase is LinkPhase.AWAY and now - link.since > self._times.grace:\n"
        "            self._runtime.end(link, now, failed=True)",
        "link.phase is LinkPhase.AWAY and now - link.since > self._times.grace:\n"
        "            self._runtime.end(link, now, failed=False)",
        "events for a neighbour that is gone count as passed on",
    ),
    Mutant(
        "half-dead-link-kept",
        _HUB,
        "                connection.abort()\n            elif silent > times.ping:\n",
        "                connection.ping()\n            elif silent > times.ping:\n",
        "a connection whose other side is dead is kept for ever",
    ),
    Mutant(
        "own-pause-held-against-others",
        _HUB,
        "for connection in [] if was_away else list(self._links):",
        "for connection in list(self._links):",
        "a broker that stood still takes all others for dead",
        "tests/net/test_hub.py::test_nobody_is_taken_for_dead_because_the_broker_itself_stood_still",
    ),
    Mutant(
        "no-settling-after-a-neighbour",
        _RUNTIME,
        "        self.passing.wait_until(now + self.times.settle)\n",
        "",
        "events are routed before a new neighbour has said what it wants",
        _FOUND + "test_events_wait_until_a_new_neighbour_has_said_what_it_wants",
    ),
    Mutant(
        "no-settling-after-an-advertisement",
        _RUNTIME,
        "            link.born[str(request.key)] = now\n",
        "            pass\n",
        "events are routed before subscribers have heard of their advertisement",
    ),
)

_CONNECTIONS: Final = (
    Mutant(
        "resumed-in-any-phase",
        _RUNTIME,
        "return link if link.phase in (LinkPhase.UP, LinkPhase.CUT) else None",
        "return link",
        "a session goes on that this broker has given up",
    ),
    Mutant(
        "resumed-after-giving-up",
        _HUB,
        "link.session_id != hello.session or link.phase is not LinkPhase.CUT:",
        "link.session_id != hello.session:",
        "a session goes on that this broker gave up while the answer was on its way",
        "tests/net/test_hub.py::"
        "test_a_session_that_was_given_up_while_the_other_side_took_it_up_does_not_go_on",
    ),
    Mutant(
        "old-connection-left-open",
        _HUB,
        "            self._links.pop(old, None)\n            old.close()\n",
        "            self._links.pop(old, None)\n",
        "a connection that another has taken the place of stays open",
        _FOUND + "test_a_connection_that_another_takes_the_place_of_is_closed",
    ),
    Mutant(
        "old-connection-cuts-the-new",
        _HUB,
        "            self._links.pop(old, None)\n            old.close()\n",
        "            self._runtime.on_cut(link, self._clock())\n            old.close()\n",
        "the end of an old connection takes the new one from its link",
        _FOUND + "test_a_connection_that_another_takes_the_place_of_is_closed",
    ),
    Mutant(
        "replaced-link-forgets-wants",
        _RUNTIME,
        "self.end(old, now, failed=True, replaced=not old.is_client)",
        "self.end(old, now, failed=True)",
        "what a neighbour wants is forgotten when it comes with a new session",
        "tests/net/test_resuming.py::test_what_a_neighbour_asked_for_stays_until_it_says_it_anew",
    ),
    Mutant(
        "replaced-link-succeeds",
        _RUNTIME,
        "self.end(old, now, failed=True, replaced=not old.is_client)",
        "self.end(old, now, failed=False, replaced=not old.is_client)",
        "what a neighbour had not dealt with when it came with a new session counts as dealt with",
        _FOUND + "test_what_a_neighbour_had_when_it_comes_with_a_new_session_is_sent_again",
    ),
    Mutant(
        "resumed-without-flush",
        _RUNTIME,
        "link.phase, link.since, link.moved_at = LinkPhase.UP, now, now\n        self.dirty[link] = None\n",
        "link.phase, link.since, link.moved_at = LinkPhase.UP, now, now\n",
        "what waited while the connection was lost is not sent until something else is",
        _FOUND + "test_a_line_that_breaks_for_a_moment_loses_nothing_whatever_was_under_way",
    ),
    Mutant(
        "both-dials-kept",
        _HUB,
        "if hello.incarnation == known.incarnation and known.dialed and self._is_settled(known, hello.name):",
        "if False:",
        "two brokers that connect to each other replace each other's connection",
        _FOUND + "test_of_two_connections_between_two_brokers_the_one_that_the_lesser_name_made_stays",
    ),
    Mutant(
        "lost-link-not-dialed",
        _DIALING,
        "        connection.when_closed.append(self._lost)\n",
        "",
        "a connection to a peer that is lost is not made again",
    ),
    Mutant(
        "failed-dial-not-repeated",
        _DIALING,
        "        self._note(error)\n        self._try_later()\n",
        "        self._note(error)\n",
        "a peer that could not be reached is not tried again",
    ),
    Mutant(
        "no-limit-on-opening",
        _OPENING,
        "        self._limit = self._world.call_later(self._timeout, self._out_of_time)\n",
        "",
        "whoever dials a machine that does not answer waits for ever",
    ),
)

_CATCHING_UP: Final = (
    Mutant(
        "gap-not-noted",
        _ADVERTISING,
        "        self._catching.miss(trees, now - silent, now)\n",
        "",
        "a broker that has lost the path to a publisher does not ask for what it missed",
    ),
    Mutant(
        "gap-begins-too-late",
        _RUNTIME,
        "silent = now - link.last_heard(now) + self.standstill.seconds(now)",
        "silent = 0.0",
        "what came to nothing before a failure was noticed is not asked for",
        _PLANS + "test_a_subscribers_broker_that_stands_still_misses_nothing",
    ),
    Mutant(
        "behind-forgotten-by-clients",
        _LINE,
        "        self._missing_since = min(self._missing_since, self._heard_at - _SILENT_SLACK)\n",
        "        self._missing_since = self._heard_at - _SILENT_SLACK\n",
        "a client asks its next broker only for what it missed since it heard the last one",
        _LOSSES + "test_a_client_remembers_what_its_broker_was_missing_when_that_had_forgotten_the_path",
    ),
    Mutant(
        "behind-reachable-only",
        _CATCHING,
        "            # Those that are gone may come back.\n",
        "            if tree not in self._trees:\n                continue\n",
        "a client takes it that nothing is missing of a publisher that was out of reach for long",
        _LOSSES + "test_a_client_remembers_what_its_broker_was_missing_when_that_had_forgotten_the_path",
    ),
    Mutant(
        "gap-ends-when-told",
        _CATCHING,
        "            if tree not in self._trees and (is_harmless or gap.count):\n",
        "            if tree not in self._trees:\n",
        "what is missed after a client was told that nobody knows is lost when its broker dies",
        _LOSSES + "test_what_is_missed_after_a_client_was_told_is_sent_to_it_though_its_broker_has_died",
    ),
    Mutant(
        "reports-after-a-notice-ignored",
        _CATCHING,
        "                self._tell_again(self._gaps[other], now)\n",
        "                pass\n",
        "what died with a broker after clients were told that nobody knows is told to nobody",
        _LOSSES + "test_what_is_acknowledged_after_a_client_was_told_is_told_when_the_publisher_says_so",
    ),
    Mutant(
        "reports-for-newcomers-only",
        _CATCHING,
        "        if since is None or not has_come:\n            since = client.wants_since\n",
        "        if since is None or not has_come:\n            return\n",
        "a client that has been there for long is not told what died with a broker that nobody had heard of",
        _LOSSES + "test_who_was_there_all_the_time_is_told_what_an_unknown_broker_of_a_publisher_took",
    ),
    Mutant(
        "neighbours-that-are-away-know-nobody-else",
        _CATCHING,
        "            unheard = max(apart_since, client.wants_since)\n",
        '            unheard = float("inf")\n',
        "a client does not ask its next broker for what publishers sent that the last one had not heard of",
        _LOSSES + "test_who_leaves_a_broker_is_sent_what_that_had_not_heard_of",
    ),
    Mutant(
        "withdrawn-is-forgotten",
        _CORE,
        "        self._withdrawn[key] = text\n",
        "        pass\n",
        "a publisher does not report what was acknowledged under what it has withdrawn",
        _LOSSES + "test_who_was_away_is_told_what_a_publisher_that_withdrew_reports",
    ),
    Mutant(
        "reports-end-with-their-tree",
        _BROKER,
        "        if self._keep and (used or (self._advertisements and self.trees.publisher(tree).acked)):\n",
        "        if self._keep and used:\n",
        "what a publisher reports and withdraws is forgotten before those who were away are back",
        _LOSSES + "test_who_was_away_is_told_what_a_publisher_that_withdrew_reports",
    ),
    Mutant(
        "the-young-have-heard-of-all",
        _CATCHING,
        "            if is_young:\n",
        "            if False:\n",
        "a broker that has just started, alone, has its clients take it that nothing is missing",
        _LOSSES + "test_a_client_of_a_broker_that_started_anew_twice_while_cut_off_is_sent_what_was_missed",
    ),
    Mutant(
        "told-again-for-nothing",
        _CATCHING,
        "            since, waited = min(asker.told_at for asker in gap.askers.values()), 0.0\n",
        "            pass\n",
        "a client is told again of what it was told of",
        _LOSSES + "test_who_was_told_is_not_told_again_of_the_same",
    ),
    Mutant(
        "flood-strangers-missed-nothing",
        "broker/flood/node.py",
        '            self._missing[link] = self._began_at, float("inf")\n',
        "            pass\n",
        "a node that has just started does not ask a neighbour for what it missed since then",
        _LOSSES + "test_brokers_that_both_started_anew_while_apart_send_each_other_what_was_missed",
    ),
    Mutant(
        "flood-newcomers-taken-for-apart",
        "broker/flood/node.py",
        "        if link not in self._lives and (is_young or not self.links):\n",
        "        if link not in self._lives:\n",
        "whenever a node joins the network, clients are told of what was dropped long ago",
        _LOSSES + "test_flood_a_new_node_has_nothing_sent_again_to_others",
    ),
    Mutant(
        "flood-unheard-lives-lost-nothing",
        "broker/flood/losses.py",
        "        yield from self._weigh_unheard(now)\n",
        "",
        "where all have died who could have noticed, what publishers report is told to nobody",
        _LOSSES + "test_flood_a_client_is_told_what_nodes_took_that_all_died",
    ),
    Mutant(
        "flood-earlier-homes-not-passed-on",
        "broker/flood/whereabouts.py",
        "        return msgspec.structs.replace(later, homes=self.homes)\n",
        "        return later\n",
        "a node that has just started takes what its publishers' earlier nodes keep for lost",
        "tests/broker/test_flood_losses.py::test_what_is_kept_by_a_node_that_others_have_heard_of_is_not_lost",
    ),
    Mutant(
        "flood-told-twice-of-the-same",
        "broker/flood/losses.py",
        "            waiting.accounted |= self._gaps.keys()\n",
        "            pass\n",
        "a client is told by whoever noticed that a node died, and by what its publishers report",
        "tests/broker/test_flood_losses.py::test_a_client_is_not_told_of_the_same_by_both_who_noticed_and_who_reports",
    ),
    Mutant(
        "alone-and-sure",
        _CATCHING,
        "        is_new_and_alone = is_young and self._is_alone\n",
        "        is_new_and_alone = False\n",
        "a broker that has met nobody since it started takes it that nobody is missing",
        _LOSSES + "test_a_client_remembers_what_its_broker_was_missing_when_that_starts_anew_twice",
    ),
    Mutant(
        "flood-alone-and-sure",
        "broker/flood/node.py",
        "        is_alone = not self._lives\n",
        "        is_alone = False\n",
        "a node that has met nobody since it started takes it that nobody is missing",
        _LOSSES + "test_a_client_remembers_what_its_broker_was_missing_when_that_starts_anew_twice",
    ),
    Mutant(
        "flood-strangers-took-nothing",
        "broker/flood/node.py",
        "                self._losses.miss_unheard(one, max(self._began_at, client.wants_since), now)\n",
        "                pass\n",
        "who has been at a node since it started is not told what a stranger's earlier life took",
        _LOSSES + "test_flood_those_who_were_there_are_told_what_strangers_took",
    ),
    Mutant(
        "flood-cuts-elsewhere-are-nobodys-affair",
        "broker/flood/node.py",
        "        since = min(self._since(now), self._absences.since(now))\n",
        "        since = self._since(now)\n",
        "a client that leaves a node far from a cut does not know what was missed behind it",
        _LOSSES + "test_who_leaves_a_broker_far_from_a_cut_is_told_what_was_missed_behind_the_cut",
    ),
    Mutant(
        "flood-a-new-life-misses-nothing",
        "broker/flood/absences.py",
        "            since = min(since, known.since)\n",
        "            pass\n",
        "what a node was missing that starts anew is forgotten",
        "tests/broker/test_flood_losses.py::test_clients_know_what_another_node_is_missing",
    ),
    Mutant(
        "flood-publishers-miss-their-own",
        "broker/flood/losses.py",
        "            count -= self._register.own(origins, waiting.since, gap.asked_at, self._linger)\n",
        "            pass\n",
        "a publisher is told of what it has published itself",
        "tests/broker/test_flood_losses.py::test_who_published_what_a_node_took_with_it_has_not_missed_it",
    ),
    Mutant(
        "flood-who-was-there-has-noticed",
        "broker/flood/node.py",
        "                self._losses.miss_unheard(one, max(since, client.wants_since), now)\n",
        "                pass\n",
        "nobody is told of a node that died where the one that would have noticed ended too",
        _LOSSES + "test_a_client_far_from_a_cut_is_told_though_the_broker_at_the_cut_has_ended_too",
    ),
    Mutant(
        "flood-behind-for-ever",
        "broker/flood/node.py",
        "                effects.append(Behind(link, 0.0))\n",
        "                pass\n",
        "a client asks each further node for what it had long ago",
        "tests/broker/test_flood_losses.py::test_clients_know_when_nothing_is_missing_any_more",
    ),
    Mutant(
        "catch-up-not-passed-on",
        _CATCHING,
        "            self._subscribing.ask_behind(branch.way, CatchUp(tree, gap.number, seconds), now)\n",
        "            pass\n",
        "nobody hears what a broker asks for",
    ),
    Mutant(
        "catch-up-not-asked-again",
        _CATCHING,
        """        if tree in self._gaps:
            self._ask(tree, now)
""",
        """        if False:
            self._ask(tree, now)
""",
        "what is missing is not asked for when there is a path again",
    ),
    Mutant(
        "replayed-to-nobody",
        _CATCHING,
        "        return gap is not None and link in gap.askers\n",
        "        return False\n",
        "events that are sent again are dropped by brokers that have had them",
    ),
    Mutant(
        "nothing-replayed",
        _REPLAYING,
        "deque() if since is None else deque(history.since(tree, since))",
        "deque()",
        "nothing is sent again",
    ),
    Mutant(
        "replayed-since-its-turn",
        _REPLAYING,
        "questions = self._questions.pop(tree)\n",
        "questions = [_Question(one.replay, now) for one in self._questions.pop(tree)]\n",
        "what was missed is counted from when a question has its turn, not from when it was asked",
        _OF_REPLAYING + "test_a_question_that_has_to_wait_is_about_the_time_before_it_was_asked",
    ),
    Mutant(
        "replay-takes-as-long-as-there-are-trees",
        _REPLAYING,
        "                if world.cpu_time() - began >= _TURN_S:\n                    break\n",
        "",
        "a turn of the loop is as long as what it sends again takes",
        _OF_REPLAYING + "test_no_turn_of_the_loop_takes_longer_than_a_few_milliseconds",
    ),
    Mutant(
        "replay-in-one-turn",
        _REPLAYING,
        "while ready and blocks < self.turn_blocks and size < _TURN_BYTES:",
        "while ready:",
        "what all trees are asked for is sent in one turn of the loop",
        _OF_REPLAYING + "test_no_turn_of_the_loop_sends_more_however_many_trees_there_are",
    ),
    Mutant(
        "not-kept-until-finished",
        _HISTORY,
        "            self._put(now, kept)\n",
        "            pass\n",
        "events are forgotten as soon as those who can be reached have them",
    ),
    Mutant(
        "kept-by-when-published",
        _HISTORY,
        "takewhile(lambda one: one[0] >= time,",
        "takewhile(lambda one: one[0] >= time + 4,",
        "the first seconds of a gap are not sent again",
        "tests/node/test_history.py::test_what_was_finished_since_a_time_is_found_and_what_is_not_finished",
    ),
    Mutant(
        "dropped-not-counted",
        _HISTORY,
        "            self._note_dropped(block, at)\n",
        "",
        "nobody is told of events that are no longer kept",
    ),
    Mutant(
        "tree-felled-at-once",
        _BROKER,
        "        if self._keep and (used or ",
        "        if False and (used or ",
        "what a publisher that left had published cannot be asked for",
    ),
    Mutant(
        "behind-not-told",
        _CORE,
        "            self.line.is_behind(answer.seconds, answer.unheard)\n",
        "            pass\n",
        "a client whose broker dies before it has caught up asks for nothing",
        _OF_CLIENT + "test_the_next_broker_is_asked_for_what_the_last_one_had_yet_to_send",
    ),
    Mutant(
        "client-asks-for-nothing",
        _CORE,
        "key, text, silent, age, were, self.line.unheard))",
        "key, text, 0.0, age, were, 0.0))",
        "a client that goes to another broker is not sent what it missed",
    ),
    Mutant(
        "own-standstill-not-noticed",
        _LINE,
        "self._heard_at = min(connection.heard_at, now) - self._standstill.seconds(now)",
        "self._heard_at = min(connection.heard_at, now)",
        "a client that stood still takes what it reads after that for what came after that",
    ),
    Mutant(
        "retired-unknown-acknowledged",
        _FORWARDING,
        """            if link:
                effects.append(Refuse(""",
        """            if False:
                effects.append(Refuse(""",
        "events of a tree that a broker does not know yet are acknowledged",
        "tests/broker/test_forwarding.py::test_events_from_nobody_go_nowhere_and_those_of_no_tree_go_back",
    ),
    Mutant(
        "head-not-checked",
        _FRAMES,
        "        if crc32(head) & _CHECK_MASK != check_high << 16 | check_low:\n",
        "        if False:\n",
        "a flipped bit in the length of a frame is not noticed",
        "tests/wire/test_frames.py::test_a_wrong_length_is_noticed_before_anything_is_waited_for",
    ),
    Mutant(
        "payload-not-checked",
        _FRAMES,
        "        if len(payload) == length and crc32(payload) != check:\n",
        "        if False:\n",
        "a flipped bit in an event is not noticed",
        "tests/wire/test_frames.py::test_a_flipped_bit_is_noticed_wherever_it_is",
    ),
    Mutant(
        "damage-ends-the-session",
        _CONNECTION,
        "            if self._has_heard:\n",
        "            if False:\n",
        "a damaged frame ends a session in place of a connection",
        _FOUND + "test_a_damaged_frame_ends_a_connection_and_not_its_session",
    ),
)

_STRANGERS: Final = (
    Mutant(
        "requests-overtake",
        _TURNS,
        "        if not link.requests and not self._has_to_wait(link, request, now):\n",
        "        if not self._has_to_wait(link, request, now):\n",
        "an unsubscribe overtakes the subscribe before it, which still waits",
        _OF_TURNS + "test_requests_of_one_client_are_served_and_answered_in_their_order",
    ),
    Mutant(
        "events-before-their-advertisement",
        _PASSING,
        "        if now < self._waits_until or key in link.awaited:\n",
        "        if now < self._waits_until:\n",
        "events are refused because their advertisement still waits",
        _OF_TURNS + "test_events_under_an_advertisement_that_waits_wait_for_it_and_keep_their_order",
    ),
    Mutant(
        "costs-counted-to-nobody",
        _TURNS,
        "            account.until = max(account.until, self._world.time()) + wait\n",
        "            account.until = max(account.until, self._world.time())\n",
        "a subject may send expensive filters without a pause",
        _OF_TURNS + "test_who_has_used_much_waits_with_filters_only_and_others_do_not",
    ),
    Mutant(
        "one-subject-served-first",
        _TURNS,
        "                del self._order[payer]\n                self._order[payer] = None\n",
        "",
        "the subject that came first is served until it has no filters left",
        _OF_TURNS + "test_subjects_take_turns_however_many_filters_and_connections_each_has",
    ),
    Mutant(
        "certificate-is-enough",
        _ADMISSION,
        "            if self._secret is None and not self._peers:\n",
        "            if False:\n",
        "a client with a certificate joins as a broker",
        "tests/node/test_admission.py::test_a_certificate_alone_lets_nobody_join",
    ),
    Mutant(
        "secret-is-enough",
        _ADMISSION,
        "        if self._has_ca:\n            if not is_tls:\n",
        "        if self._has_ca and self._secret is None:\n            if not is_tls:\n",
        "a broker with the secret joins without a certificate",
        "tests/node/test_admission.py::test_a_broker_needs_all_that_is_set_up_to_know_it_by",
    ),
    Mutant(
        "unfinished-frame-kept",
        _HUB,
        "now - begun > times.frame + connection.held / _SLOWEST:",
        "now - begun > 1e9 * times.frame:",
        "a frame that is never whole is kept for ever",
        "tests/node/test_strangers.py::test_a_frame_that_is_not_whole_in_time_ends_its_connection",
    ),
)

_BURDENS: Final = (
    Mutant(
        "reader-never-let-go",
        _WATCHING,
        "            if link.waited(now) > times.patience:\n                link.session.release_sent()\n"
        "                if not link.is_given_up:\n",
        "            if link.waited(now) > 1e9:\n                if not link.is_given_up:\n",
        "a reader that never acknowledges holds its publishers for ever",
    ),
    Mutant(
        "patience-begins-anew",
        _WATCHING,
        "            elif 0 < link.session.first_unacked <= overdue:\n"
        "                link.session.release_sent(overdue)\n",
        "",
        "each event that a reader acknowledges slowly lets it hold the next one as long again",
        _BURDENED
        + "test_each_event_is_held_for_the_patience_however_slowly_those_before_it_are_acknowledged",
    ),
    Mutant(
        "left-aside-is-held",
        _WATCHING,
        "                # It goes on taking events, and leaves some aside.\n"
        "                link.session.release_sent(overdue)\n",
        "                pass\n",
        "a reader that takes others holds an event as long as somebody has a window full",
        _BURDENED + "test_a_reader_that_leaves_an_event_aside_holds_nobody_while_others_have_windows_full",
    ),
    Mutant(
        "answers-count-as-taking",
        _LINKS,
        "if session.queued_bytes - session.message_bytes < events:",
        "if True:",
        "a reader that answers notices counts as one that takes events",
        _BURDENED + "test_a_reader_whose_window_is_full_is_paused_in_time_though_it_answers_that_it_is_slow",
    ),
    Mutant(
        "looks-before-writing",
        _RUNTIME,
        "        # What waits only to be written is not in the way of anybody.\n        self.flush()\n",
        "",
        "a reader that holds events is paused though its window has room",
        _BURDENED + "test_a_reader_that_never_acknowledges_is_not_paused_while_its_window_has_room",
    ),
    Mutant(
        "lost-reader-holds",
        _WATCHING,
        "is_missed = link.session.has_events and now - link.since > times.resume",
        "is_missed = False",
        "a reader that died with events in its hands holds publishers for `linger`",
    ),
    Mutant(
        "drain-forgets-held",
        _RUNTIME,
        "            link.session.is_idle and not link.held and not link.requests and not link.inbox\n",
        "            link.session.is_idle and not link.requests and not link.inbox\n",
        "a broker ends though it holds events back",
        _BURDENED + "test_a_broker_that_drains_sends_what_it_holds_back_first",
    ),
    Mutant(
        "drain-without-end",
        "node/node.py",
        "if self._world.time() >= until or self.runtime.is_idle:",
        "if self.runtime.is_idle:",
        "a broker that drains waits for a reader for ever",
        _BURDENED + "test_a_broker_that_drains_waits_no_longer_than_it_may_for_a_reader",
    ),
    Mutant(
        "hostile-frame-raises",
        _SESSIONS,
        '            raise WireError(f"an acknowledgement is made of',
        '            raise ValueError(f"an acknowledgement is made of',
        "what a client sends counts as a mistake of the broker's",
    ),
    Mutant(
        "long-frame-awaited",
        _FRAMES,
        "        if length > self.limit:\n",
        "        if length > 2**40:\n",
        "a broker waits for frames of any length",
    ),
    Mutant(
        "stranger-stays",
        _HUB,
        "            if now - since > times.greet:\n",
        "            if now - since > 1e9 * times.greet:\n",
        "who connects and says nothing stays for ever",
    ),
    Mutant(
        "made-up-session-resumed",
        _HUB,
        "            except WireError:\n                resumed = False\n",
        "            except WireError:\n                pass\n",
        "a client goes on with more of its session than there was",
    ),
)

MUTANTS: Final = (
    *_BURDENS,
    *_STRANGERS,
    *_CATCHING_UP,
    *_CUSTODY,
    *_OF_LINKS,
    *_RESCUE,
    *_FAILOVER,
    *_LEASES,
    *_TIME,
    *_CONNECTIONS,
)

SURVIVORS: Final[dict[str, str]] = {}
"""Mutants that nothing catches today, each with the reason."""
