"""Stages that events reach before they are dealt with: custody against a plain model, and sessions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import WireError
from penstock.wire.blocks import Block, Header
from penstock.wire.frames import FrameReader, Kind
from penstock.wire.sessions import Custody, Session, Stage

stages = st.sampled_from([Stage.NONE, Stage.ACCEPTED, Stage.TAKEN])


@pytest.mark.property
@given(st.lists(stages, max_size=5), st.data())
def test_a_stage_is_reached_when_the_last_holder_has_reached_it(
    first: list[Stage], data: st.DataObject
) -> None:
    told: list[Stage] = []
    done: list[bool] = []
    custody = Custody(done.append)
    holders = list(first)
    for stage in first:
        custody.hold(stage)
    custody.watch(told.append)
    assert not told  # whoever made it holds it too
    custody.release()
    has_failed = False
    while holders:
        if told:
            assert told == sorted(set(told))
        wanted = Stage.NONE if has_failed else min(holders)
        assert custody.stage == wanted
        assert (told[-1] if told else Stage.NONE) >= wanted
        at = data.draw(st.integers(0, len(holders) - 1))
        what = data.draw(st.sampled_from(["release", "advance", "advance", "fail"]))
        if what == "advance":
            stage = data.draw(st.sampled_from([s for s in Stage if holders[at] <= s < Stage.HANDLED]))
            custody.advance(holders[at], stage)
            holders[at] = stage
            continue
        if what == "fail":
            custody.fail()
            has_failed = True
        custody.release(holders.pop(at))
    assert custody.is_done
    assert done == [not has_failed]


def block(number: int) -> Block:
    return Block.of(Header("t", "o"), [number], [b"event"])


def carry(frames: list[bytes], to: Session) -> None:
    """Have frames arrive."""
    reader = FrameReader(2**20)
    for kind, payload in reader.feed(b"".join(frames)):
        if kind is Kind.ACK:
            to.on_ack(payload)
        elif kind is Kind.REACHED:
            to.on_reached(payload)
        else:
            to.take(payload)


def said(session: Session) -> list[bytes]:
    return [due for due in (session.reached_due(), session.ack_due()) if due is not None]


def test_what_has_been_reached_is_said_once_and_again_after_a_lost_connection() -> None:
    here, there = Session(2**20), Session(2**20)
    told: list[Stage] = []
    custody = Custody(lambda _succeeded: told.append(Stage.HANDLED))
    custody.watch(told.append)
    here.push_block(block(1), custody)
    custody.release()
    carry(here.sendable(), there)
    there.reach(1, Stage.ACCEPTED)
    assert len(said(there)) == 1
    assert said(there) == []
    # It is lost with the connection; in the next one it is said anew.
    assert told == []
    there.resume(0)
    carry(said(there), here)
    assert told == [Stage.ACCEPTED]
    there.reach(1, Stage.TAKEN)
    there.dealt_with(1)
    carry(said(there), here)
    assert told == [Stage.ACCEPTED, Stage.HANDLED]


def test_a_stage_in_an_old_session_counts_for_nothing_in_the_next() -> None:
    old, new = Session(2**20), Session(2**20)
    told: list[Stage] = []
    custody = Custody(lambda _succeeded: None)
    old.push_block(block(1), custody)
    custody.release()
    old.sendable()
    old.on_reached((1).to_bytes(8, "big") + bytes([Stage.TAKEN]))
    ((handed, held),) = old.hand_over()
    assert held is custody
    new.push_block(handed, held)
    held.release()
    custody.watch(told.append)
    assert told == []
    assert custody.stage is Stage.NONE


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\0" * 8,
        (1).to_bytes(8, "big") + b"\0",
        (1).to_bytes(8, "big") + b"\3",
        (2).to_bytes(8, "big") + b"\1",
    ],
)
def test_what_cannot_have_been_reached_is_refused(payload: bytes) -> None:
    session = Session(2**20)
    session.push_block(block(1))
    session.sendable()
    with pytest.raises(WireError):
        session.on_reached(payload)


@pytest.mark.parametrize(("kind", "size"), [("ack", 8), ("reached", 9)])
def test_no_more_is_acknowledged_at_once_than_a_session_says(kind: str, size: int) -> None:
    session = Session(2**20)
    many = b"".join(bytes(7) + bytes([1]) + bytes([1] * (size - 8)) for _ in range(4_098))
    session.push_block(block(1))
    session.sendable()
    take = session.on_ack if kind == "ack" else session.on_reached
    with pytest.raises(WireError, match=r"is made of|is said in"):
        take(many)
    take(many[: 4_096 * size])
