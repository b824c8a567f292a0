"""The write-ahead folder: what is in it stays, whatever happens to who writes."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InputError
from penstock.spark.source.log import Entry, Log, read, segments
from penstock.spark.source.reading import EVENTS_PER_PARTITION, stretches


def entries(first: int, count: int) -> list[Entry]:
    return [Entry(f"event {n}".encode(), "p", n, 10 * n) for n in range(first, first + count)]


def contents(folder: Path, start: int, end: int, together: int = 16_384) -> list[int]:
    found: list[int] = []
    for batch in read(folder, start, end, together=together):
        assert batch["data"].to_pylist() == [f"event {n}".encode() for n in batch["number"].to_pylist()]
        found += batch["number"].to_pylist()
    return found


steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 5)),
        st.tuples(st.just("forget"), st.integers(0, 30)),
        st.tuples(st.just("reopen"), st.just(0)),
        st.tuples(st.just("crash"), st.just(0)),
    ),
    max_size=12,
)


@pytest.mark.property
@settings(deadline=None)
@given(steps=steps, data=st.data())
def test_a_log_has_what_was_appended_and_not_forgotten(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("log")
    log, end, forgotten, dealt_with = Log.open(folder), 0, 0, 0
    try:
        for step, argument in steps:
            if step == "append":
                assert log.append(entries(end, argument)) == end + argument
                end += argument
            elif step == "forget":
                log.forget(argument)
                forgotten = max(forgotten, min(argument, end))
                dealt_with = max(dealt_with, min(argument, end))
            else:
                log.close()
                if step == "crash":
                    (folder / "half.unfinished").write_bytes(b"ARROW1")
                # What was dealt with, Spark will say again.
                log, dealt_with = Log.open(folder), 0
            assert log.end == end
            assert log.first <= forgotten
            waiting = [one for one in segments(folder) if one.end > dealt_with]
            assert log.nbytes == sum(one.path.stat().st_size for one in waiting)
        start = data.draw(st.integers(log.first, end))
        until = data.draw(st.integers(start, end))
        assert contents(folder, start, until, data.draw(st.integers(1, 8))) == list(range(start, until))
        assert log.known() == {("p", n) for n in range(log.first, end)}
        assert not list(folder.glob("*.unfinished"))
    finally:
        log.close()


def test_a_last_file_that_is_torn_is_put_aside(tmp_path: Path) -> None:
    log = Log.open(tmp_path)
    log.append(entries(0, 3))
    log.append(entries(3, 3))
    log.close()
    torn = segments(tmp_path)[-1].path
    torn.write_bytes(torn.read_bytes()[:-20])
    with pytest.raises(InputError, match="cannot be read as a file of the log"):
        contents(tmp_path, 0, 6)
    log = Log.open(tmp_path)
    assert log.end == 3
    log.append(entries(3, 1))
    assert contents(tmp_path, 0, 4) == [0, 1, 2, 3]
    log.close()


def test_what_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    log = Log.open(tmp_path)
    for first in range(0, 9, 3):
        log.append(entries(first, 3))
    log.forget(3)
    with pytest.raises(InputError, match="from position 0 to 9 are not in this log"):
        contents(tmp_path, 0, 9)
    with pytest.raises(InputError, match="from position 9 to 12 are not in this log"):
        contents(tmp_path, 3, 12)
    log.close()
    segments(tmp_path)[0].path.unlink()
    Log.open(tmp_path).close()
    log = Log.open(tmp_path)
    log.append(entries(9, 1))
    log.append(entries(10, 1))
    log.close()
    segments(tmp_path)[1].path.unlink()
    with pytest.raises(InputError, match="the log has a gap: no events from position 9 to 10"):
        Log.open(tmp_path)


def test_one_process_writes(tmp_path: Path) -> None:
    log = Log.open(tmp_path)
    with pytest.raises(InputError, match="each query needs a log of its own"):
        Log.open(tmp_path, patience=0.1)
    log.close()
    Log.open(tmp_path).close()


def test_a_folder_that_cannot_be_one_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"option\('log'\): .*file"):
        Log.open(tmp_path / "file" / "log")
    with pytest.raises(InputError, match="a folder that driver and workers can read"):
        segments(tmp_path / "nowhere")


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 9))
def test_stretches_are_the_whole_in_order(start: int, length: int, most: int) -> None:
    cut = [one.value for one in stretches(start, start + length, most)]
    assert len(cut) <= most
    at = start
    for first, end in cut:
        assert first == at < end
        at = end
    assert at == start + length
    assert len(cut) == 1 or length == 0 or length > EVENTS_PER_PARTITION


def test_what_is_dealt_with_counts_no_more_though_the_last_file_stays(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "log")
    end = log.append([Entry(b"x" * 1_000, "p", 1, 0)])
    assert log.nbytes > 1_000
    log.forget(end)
    assert log.nbytes == 0
    assert len(segments(log.folder)) == 1
    log.close()
