"""`penstock pub`, `sub` and `advertise`, with real brokers."""

import asyncio
import json
import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock
from live_commands import (
    NOWHERE,
    Capture,
    failure,
    run,
    running,
    subscribed,
    three_brokers,
    typed,
    until,
)
from penstock.cli.streams import Line, Splitter


@pytest.fixture(scope="module")
def network() -> Iterator[list[str]]:
    with three_brokers() as urls:
        yield urls


@pytest.fixture
def b1(network: list[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """The first of them, which commands talk to if nothing else is said."""
    monkeypatch.setenv("PENSTOCK_URL", network[0])
    monkeypatch.delenv("PENSTOCK_TOKEN", raising=False)
    return network[0]


# Publishing and subscribing


def test_what_is_published_at_one_broker_is_printed_at_another(
    network: list[str], b1: str, capsysbinary: Capture
) -> None:
    event = '{"kind": "far", "at": "2026-01-02T03:04:05.5+01:00", "delay": 1.5, "on": true}'
    with subscribed("kind = 'far'", "--meta", "--url", network[2]) as sub:

        def comes() -> bool:
            # The way from one broker to the other is there a moment after it is advertised.
            assert run(capsysbinary, "pub", event, "--family", "at=time", "--quiet") == (0, "", "")
            return not sub.out.empty()

        until(comes)
        line = json.loads(sub.line())
        assert line["event"] == {"kind": "far", "at": "2026-01-02T02:04:05.5Z", "delay": 1.5, "on": True}
        assert (line["number"], line["hops"], line["late"]) == (1, 3, False)
        assert line["origin"]
        status, _more, err = sub.end(signal.SIGINT)
        assert (status, err) == (0, [])


def test_standard_input_is_published_in_order(
    b1: str, capsysbinary: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [
        json.dumps({"kind": "order", "n": n, "text": "x" * 50}, separators=(",", ":")) for n in range(20_000)
    ]
    with subscribed("kind = 'order'", "--count", "20000") as sub:
        typed(monkeypatch, ("\ufeff" + "\n\n".join(lines)).encode())
        status, out, err = run(capsysbinary, "pub")
        assert (status, out, err) == (0, "", "penstock: 20,000 events published and acknowledged\n")
        assert sub.end() == (0, lines, [])


def test_without_acknowledgements_all_is_published_before_it_ends(
    b1: str, capsysbinary: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [json.dumps({"kind": "fast", "n": n}, separators=(",", ":")) for n in range(20_000)]
    with subscribed("kind = 'fast'", "--count", "20000") as sub:
        typed(monkeypatch, "\n".join(lines).encode())
        assert run(capsysbinary, "pub", "--no-ack") == (
            0,
            "",
            "penstock: 20,000 events published and acknowledged\n",
        )
        assert sub.end() == (0, lines, [])


def test_an_event_that_matches_several_filters_is_printed_once(b1: str, capsysbinary: Capture) -> None:
    with subscribed("kind = 'two' and x > 1", "kind = 'two' and x > 2", "--count", "3") as sub:
        events = [f'{{"kind":"two","x":{x}}}' for x in (1, 2, 3, 4)]
        assert run(capsysbinary, "pub", *events)[0] == 0
        assert sub.end() == (0, events[1:], [])


def test_nested_events_come_back_nested(b1: str, capsysbinary: Capture) -> None:
    with subscribed("order.price > 1", "--count", "2") as sub:
        given = ('{"order":{"price":2,"by":{"name":"ann"}},"n":1}', '{"order.price":3,"order":{"n":2}}')
        assert run(capsysbinary, "pub", *given)[0] == 0
        assert sub.end() == (0, [given[0], '{"order":{"price":3,"n":2}}'], [])


def test_null_is_absence_and_an_event_may_have_nothing_else(b1: str, capsysbinary: Capture) -> None:
    with subscribed("kind is null and there is null", "--count", "3") as sub:
        assert run(capsysbinary, "pub", "{}", '{"kind":null}', '{"kind":null,"n":{"x":null,"y":1}}')[0] == 0
        assert sub.end() == (0, ["{}", "{}", '{"n":{"y":1}}'], [])


def test_events_of_a_pipe_that_does_not_end_are_published_as_they_come(b1: str) -> None:
    with subscribed("kind = 'pipe'") as sub, running("pub", stdin=True) as pub:
        for n in range(3):
            pub.give(f'{{"kind":"pipe","n":{n}}}')
            assert sub.line() == f'{{"kind":"pipe","n":{n}}}'
        until(lambda: pub.process.poll() is None)
        status, _out, err = pub.end(signal.SIGINT)
        assert status == 130
        assert err[-1] == "penstock: interrupted"


def test_a_bad_line_is_told_with_its_number_and_what_stands_before_it_is_published(
    b1: str, capsysbinary: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subscribed("kind = 'bad'", "--count", "2") as sub:
        typed(monkeypatch, b'{"kind":"bad","n":1}\n\n{"kind":"bad","n":2}\nnope\n{"kind":"bad","n":3}\n')
        status, out, err = run(capsysbinary, "pub")
        assert (status, out) == (2, "")
        counted, told = err.splitlines()
        assert counted == "penstock: 2 events published and acknowledged"
        assert told.startswith("penstock: standard input:4: not a JSON object")
        assert sub.end() == (0, ['{"kind":"bad","n":1}', '{"kind":"bad","n":2}'], [])


def test_bad_lines_can_be_skipped(b1: str, capsysbinary: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    with subscribed("kind = 'skip'", "--count", "2") as sub:
        lines = [
            b'{"kind":"skip","n":1}',
            b"nope",
            b'{"x":[]}',
            b'{"kind":null}',
            b'{"kind":"skip","n":2}',
        ]
        typed(monkeypatch, b"\n".join(lines))
        arguments = ("--on-error", "skip", "--advertise", "kind = 'skip'")
        status, out, err = run(capsysbinary, "pub", *arguments)
        assert (status, out) == (0, "")
        *skipped, counted = err.splitlines()
        assert counted == "penstock: 2 events published and acknowledged, 3 skipped"
        places = [line.removeprefix("penstock: skipped: standard input:").split(":")[0] for line in skipped]
        assert places == ["2", "3", "4"]
        assert skipped[2].endswith("the event is not as advertised: kind = 'skip'")
        assert sub.end() == (0, ['{"kind":"skip","n":1}', '{"kind":"skip","n":2}'], [])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["pub", "nope"], "event 1: not a JSON object"),
        (["pub", '{"x": 1}', "[]"], "event 2: an event is a JSON object, not an array"),
        (["pub", '{"x": "soon"}', "--family", "x=time"], "event 1: 'x': 'soon'"),
        (["pub", '{"x": 1}', "--family", "x"], "--family 'x': write NAME=FAMILY"),
        (["pub", '{"x": 1}', "--advertise", "x >"], "--advertise: column 4: expected a value"),
        (["pub", '{"x": 1}', "--advertise", "x > 1"], "event 1: the event is not as advertised: x > 1"),
        (["pub", '{"x": 1}', "--url", "b1"], "'b1': a broker's address begins with penstock://"),
        (["pub", '{"x": 1}', "--ca", "ca.pem"], "--ca is for penstocks://, and penstock://127.0.0.1:"),
        (["pub", '{"x": 1}', "--url", "penstocks://b", "--ca", "gone"], "gone: no such file"),
        (["pub", '{"x": 1}', "--url", "penstocks://b", "--key", "gone"], "a certificate and its key go"),
        (["pub", '{"x": 1}', "--token-file", "gone"], "gone: no such file or directory"),
        (["pub", '{"x": 1}', "--token", ""], "--token: there is no token"),
        (["pub", '{"x": 1}', "--token", "ä"], "--token: not a token"),
        (["sub", "x >"], "FILTER: column 4: expected a value"),
        (["sub", "x > 1", "y >"], "filter 2: column 4: expected a value"),
        (["sub", "x > 1 and x < 1"], "no event can match this"),
        (["advertise", "x >"], "FILTER: column 4: expected a value"),
        (["trace", "nope"], "EVENT: not a JSON object"),
        (["trace", '{"x": 1}', "--advertise", "x > 1"], "the event is not as advertised: x > 1"),
        (["top", "b1"], "'b1': a broker's address begins with penstock://"),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], said: str, b1: str, capsysbinary: Capture) -> None:
    assert failure(capsysbinary, *arguments).startswith(said)


def test_a_mistake_says_what_was_perhaps_meant(capsysbinary: Capture) -> None:
    assert failure(capsysbinary, "pub", "f.jsonl").endswith(
        "; to publish the lines of a file: penstock pub < FILE"
    )
    assert "FILE" not in failure(capsysbinary, "pub", '{"x": }')
    for arguments in (["pub", '{"x": 1}', "--url"], ["sub", "x > 1", "--url"], ["top"]):
        said = failure(capsysbinary, *arguments, "http://127.0.0.1:7480")
        assert said.endswith("; this is a gateway's address, a broker's is penstock://host:7400")


@pytest.mark.parametrize(
    "arguments", [["pub", '{"x": 1}'], ["sub", "x > 1"], ["advertise", "x > 1"], ["trace", '{"x": 1}']]
)
def test_a_broker_that_cannot_be_reached_is_told_with_status_1(
    arguments: list[str], capsysbinary: Capture
) -> None:
    said = failure(capsysbinary, *arguments, "--url", NOWHERE, status=1)
    assert said == f"{NOWHERE}: connection refused"


def test_of_several_brokers_the_first_that_answers_is_taken(
    b1: str, capsysbinary: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_URL", f"{NOWHERE}, {b1}")
    assert run(capsysbinary, "pub", '{"x": 1}')[0] == 0
    assert run(capsysbinary, "pub", '{"x": 1}', "--url", NOWHERE, "--url", b1)[0] == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_the_normal_end_of_a_subscription(number: signal.Signals, b1: str) -> None:
    with subscribed("kind = 'none'") as sub:
        assert sub.end(number) == (0, [], [])


def test_time_ends_a_subscription(b1: str, capsysbinary: Capture) -> None:
    arguments = ("sub", "kind = 'none'", "--timeout", "0.05", "--quiet")
    assert run(capsysbinary, *arguments) == (0, "", "")
    assert run(capsysbinary, *arguments, "--count", "1") == (1, "", "")


def test_a_reader_that_leaves_early_is_no_error(b1: str, capsysbinary: Capture) -> None:
    with subscribed("kind = 'left'", read=False) as sub:
        assert sub.process.stdout is not None
        sub.process.stdout.close()
        sub.process.stdout = None
        assert run(capsysbinary, "pub", '{"kind": "left"}')[0] == 0
        assert sub.end() == (0, [], [])


def test_a_reader_that_does_not_read_does_not_keep_a_subscription_from_its_end(
    b1: str, capsysbinary: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subscribed("kind = 'unread'", read=False) as sub:
        # More than a pipe holds.
        typed(monkeypatch, json.dumps({"kind": "unread", "text": "x" * 10_000}).encode() + b"\n")
        line = sys.stdin.buffer.read()
        typed(monkeypatch, line * 100)
        assert run(capsysbinary, "pub", "--quiet") == (0, "", "")
        assert sub.end(signal.SIGINT)[0] == 0


# Advertising


def test_an_advertisement_stays_and_counts_what_is_acknowledged(b1: str) -> None:
    with (
        subscribed("kind = 'ad' and x > 1") as sub,
        running("advertise", "kind = 'ad'", "--name", "the feed", "--hold", stdin=True) as feed,
    ):
        assert feed.told() == "penstock: note: advertised at b1: kind = 'ad'"
        feed.give('{"kind":"ad","x":1}')
        assert feed.line() == "1"
        feed.give('{"kind":"ad","x":2}')
        assert feed.line() == "2"
        assert sub.line() == '{"kind":"ad","x":2}'
        assert feed.process.stdin is not None
        feed.process.stdin.close()

        async def advertisements() -> list[int]:
            async with await penstock.connect(b1) as net:
                clients = (await net.status())["clients"]
                return [client["advertisements"] for client in clients if client["name"] == "the feed"]

        assert asyncio.run(advertisements()) == [1]
        said = ["penstock: 2 events published and acknowledged", "penstock: interrupted"]
        assert feed.end(signal.SIGINT) == (130, [], said)
        until(lambda: asyncio.run(advertisements()) == [])


def test_an_advertisement_ends_with_the_input_and_refuses_what_is_not_as_advertised(
    b1: str, capsysbinary: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed(monkeypatch, b'{"kind":"end","x":1}\n{"kind":"end","x":2}\n')
    assert run(capsysbinary, "advertise", "kind = 'end'", "--quiet") == (0, "2\n", "")
    typed(monkeypatch, b'{"kind":"end","x":1}\n{"kind":"other","x":2}\n')
    status, out, err = run(capsysbinary, "advertise", "kind = 'end'", "--quiet")
    assert (status, out) == (2, "1\n")
    assert err == "penstock: standard input:2: the event is not as advertised: kind = 'end'\n"


# Lines


@pytest.mark.property
@given(
    st.lists(st.sampled_from([b"", b" ", b"a", b"bc", b"\r", b"\n", b"\n\n", b"\xef\xbb\xbf"]), max_size=30),
    st.integers(0, 3),
)
def test_lines_are_the_same_however_they_are_cut(chunks: list[bytes], width: int) -> None:
    whole = b"".join(chunks)
    if width:
        chunks = [whole[at : at + width] for at in range(0, len(whole), width)]
    splitter = Splitter()
    found = [line for chunk in chunks for line in splitter.feed(chunk)] + splitter.end()
    texts = whole.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    assert found == [Line(n, text.strip()) for n, text in enumerate(texts, 1) if text.strip()]


def test_a_line_that_is_too_long_is_known_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.cli.streams.LINE_LENGTH_MAX", 5)
    splitter = Splitter()
    found = [line for chunk in (b"123", b"45\n123", b"456", b"\n1\n123456") for line in splitter.feed(chunk)]
    assert found + splitter.end() == [Line(1, b"12345"), Line(2, None), Line(3, b"1"), Line(4, None)]


# Composites


def test_matches_of_a_composite_are_printed_as_they_are_found(b1: str, capsysbinary: Capture) -> None:
    text = (
        "select a.n, b.n as next.n from [step = 1 and k = $k] as a then [step = 2 and k = $k] as b within 1 h"
    )
    with subscribed("--composite", text, "--count", "1") as sub:
        for event in (
            '{"step": 1, "k": 1, "n": 1}',
            '{"step": 2, "k": 2, "n": 2}',
            '{"step": 2, "k": 1, "n": 3}',
        ):
            assert run(capsysbinary, "pub", event, "--quiet") == (0, "", "")
        assert json.loads(sub.line()) == {"a": {"n": 1}, "next": {"n": 3}}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["sub", "--meta", "--composite", "[x = 1]"], "--meta says where one event comes from"),
        (
            ["sub", "--composite", "[x = 1] then [x = 2]"],
            "--composite: a composite of several events needs a window",
        ),
        (["sub", "--composite", "[x = ]"], "--composite: column"),
    ],
)
def test_mistakes_in_composites_are_told_before_anything_is_connected(
    arguments: list[str], says: str, capsysbinary: Capture
) -> None:
    status, out, err = run(capsysbinary, *arguments)
    assert (status, out) == (2, "")
    assert says in err
