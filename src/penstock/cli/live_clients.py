"""Arguments and help of the commands of a client of the live network."""

import argparse

from penstock.cli.arguments import FAMILY_HELP, Commands, add_command, command, positive, seconds

_CONNECTING = (
    "\nWithout --url the brokers are those in PENSTOCK_URL, else penstock://127.0.0.1:7400; without a token\n"
    "it is the one in PENSTOCK_TOKEN. Status 1: no broker can be reached. Status 2: a mistake in what was\n"
    "given, or something that the token does not allow.\n"
)


def add_client_commands(commands: "Commands[argparse.ArgumentParser]") -> None:
    """`penstock pub`, `sub`, `advertise`, `trace` and `top`."""
    _add_pub(commands)
    _add_sub(commands)
    _add_advertise(commands)
    _add_trace(commands)
    _add_top(commands)


def _add_pub(commands: "Commands[argparse.ArgumentParser]") -> None:
    pub = add_command(
        commands,
        "pub",
        "publish events on the live network",
        '  penstock pub \'{"origin": "JFK", "dep_delay": 75}\'\n'
        "  penstock pub < events.jsonl\n"
        "  tail -f log.jsonl | penstock pub --on-error skip --family at=time\n"
        "  penstock pub --url penstock://b1 --url penstock://b2 --advertise \"origin = 'JFK'\" < jfk.jsonl\n"
        "  penstock pub --no-ack < many.jsonl\n"
        "  penstock pub --ack handled < orders.jsonl\n"
        "\nWithout events as arguments they are read from standard input, a JSON object on each line, and\n"
        "published as they come, in order. The next lines are published after those before them are\n"
        "acknowledged, unless --no-ack is given. A lost connection is made again, and what was not\n"
        "acknowledged is published again.\n"
        "\nWhat an acknowledgement means (--ack):\n"
        "  accepted   every broker of a client that wants the event has it; readers hold this up only if\n"
        "             a window (8 MiB) of events is under way\n"
        "  taken      every such client has it, or has not taken it for 10 s (times.patience)\n"
        "  handled    every such client has acknowledged it, or has held it for 10 s; you are not told\n"
        "             which of the two\n" + _CONNECTING,
    )
    pub.add_argument("events", nargs="*", metavar="EVENT", help="a JSON object (default: standard input)")
    pub.add_argument(
        "--advertise", metavar="FILTER", help="what the events are like, in SQL (default: true, everything)"
    )
    pub.add_argument(
        "--no-ack",
        action="store_true",
        help="publish more before events are acknowledged; only wait for all of them in the end",
    )
    pub.add_argument(
        "--ack",
        choices=("accepted", "taken", "handled"),
        default="accepted",
        help="what to wait for (default: accepted)",
    )
    _add_reading(pub)
    _add_quiet(pub)
    _add_connecting(pub)
    pub.set_defaults(run=command("cli.pub", "run"))


def _add_sub(commands: "Commands[argparse.ArgumentParser]") -> None:
    sub = add_command(
        commands,
        "sub",
        "subscribe to events of the live network, and print them as they come",
        '  penstock sub "dep_delay > 60"\n'
        "  penstock sub \"origin = 'JFK'\" \"dest = 'JFK'\" --meta\n"
        '  penstock sub "dep_delay > 60" --count 10 > ten.jsonl\n'
        '  penstock sub "dep_delay > 60" --count 1 --timeout 5 || echo "none came"\n'
        "  penstock sub true | jq .origin\n"
        "  penstock sub --composite '[late > 60 and to = $x] then [cancelled and to = $x] within 2 h'\n"
        "\nOut comes a JSON line for each event that matches one of the filters, at once; times are text as\n"
        "in RFC 3339. With --meta the line is\n"
        '  {"event": {...}, "origin": <who published it>, "number": <its number there>,\n'
        '   "hops": <brokers that it came through>, "late": <whether later ones came before it>}\n'
        "With --composite, out comes a line for each match of several events: what is selected, or all that\n"
        "they have, under the names of its parts. docs/COMPOSITES.md has the language.\n"
        "Ctrl-C ends it, with status 0. A lost connection is made again; that, and what may have been\n"
        "missed meanwhile, is told on standard error.\n" + _CONNECTING,
    )
    wanted = sub.add_mutually_exclusive_group(required=True)
    # The default is one object, by which argparse knows that none was given.
    wanted.add_argument("filters", nargs="*", default=[], metavar="FILTER", help="a filter, in SQL")
    wanted.add_argument(
        "--composite", metavar="TEXT", help="in place of filters: a composite of several events"
    )
    sub.add_argument("--count", type=positive, metavar="N", help="end after so many events")
    sub.add_argument(
        "--timeout",
        type=seconds,
        metavar="SECONDS",
        help="end after so long; with --count, the status is 1 if there were not enough by then",
    )
    sub.add_argument("--meta", action="store_true", help="print where each event comes from, too")
    _add_quiet(sub)
    _add_connecting(sub)
    sub.set_defaults(run=command("cli.sub", "run"))


def _add_advertise(commands: "Commands[argparse.ArgumentParser]") -> None:
    advertise = add_command(
        commands,
        "advertise",
        "hold an advertisement on the live network, and publish standard input under it",
        "  penstock advertise \"origin = 'JFK'\" < jfk.jsonl\n"
        "  feed | penstock advertise \"origin = 'JFK'\" --on-error skip > acknowledged.txt\n"
        "  penstock advertise \"origin = 'JFK'\" --hold < /dev/null\n"
        "\nThe advertisement stands until the input ends, or with --hold until Ctrl-C: brokers have the\n"
        "ways to subscribers ready when something comes. Each time that events are acknowledged, the\n"
        "number of all so far is printed on a line. An event that is not as advertised is a mistake.\n"
        + _CONNECTING,
    )
    advertise.add_argument("filter", metavar="FILTER", help="what will be published, in SQL")
    advertise.add_argument("--hold", action="store_true", help="stay when the input ends, until Ctrl-C")
    _add_reading(advertise)
    _add_quiet(advertise)
    _add_connecting(advertise)
    advertise.set_defaults(run=command("cli.pub", "advertise"))


def _add_trace(commands: "Commands[argparse.ArgumentParser]") -> None:
    trace = add_command(
        commands,
        "trace",
        "publish one event, and print the way that it takes, broker by broker",
        '  penstock trace \'{"origin": "JFK", "dep_delay": 75}\'\n'
        '  penstock trace \'{"origin": "JFK"}\' --url penstock://b1 --json\n'
        "\nThe event is delivered as any other. Out comes a tree of brokers:\n"
        "  b1\n"
        "  └─ b2  +0.81 ms  delivered to 2 clients\n"
        "     └─ b3  +0.72 ms  delivered to 1 client\n"
        "  3 brokers, 3 clients\n"
        "Milliseconds are from one broker to the next by their own clocks, and mean something only where\n"
        "both run on one machine. With tokens, this needs the right to monitor.\n" + _CONNECTING,
    )
    trace.add_argument("event", metavar="EVENT", help="a JSON object")
    trace.add_argument(
        "--advertise", metavar="FILTER", help="what the event is like, in SQL (default: true, everything)"
    )
    _add_family(trace)
    trace.add_argument("--json", action="store_true", help="print the report as JSON")
    _add_connecting(trace)
    trace.set_defaults(run=command("cli.trace", "run"))


def _add_top(commands: "Commands[argparse.ArgumentParser]") -> None:
    top = add_command(
        commands,
        "top",
        "watch brokers of the live network: rates, queues, tables, links and clients",
        "  penstock top\n"
        "  penstock top penstock://127.0.0.1:7401 penstock://127.0.0.1:7402 --interval 0.5\n"
        "  penstock top --once\n"
        "  penstock top --json | jq .status.counts\n"
        "\nEach URL is a broker; one that is down is shown as such, until it comes back. Where the output\n"
        "is no terminal, tables are printed one after the other. With --json, each broker is a line:\n"
        '  {"url": ..., "status": {...}} or {"url": ..., "error": "..."}, with "refused": true\n'
        "if it only does not let us look: with tokens, this needs the right to monitor. With --once, the\n"
        "numbers of events are those since each broker began, and the status is 1 if a broker did not\n"
        "answer, or else 2 if one refused. Ctrl-C ends the others, with status 0. In a narrow terminal,\n"
        "some columns are left out.\n" + _CONNECTING,
    )
    top.add_argument("urls", nargs="*", metavar="URL", help="a broker, as with --url")
    top.add_argument("--once", action="store_true", help="look once, and end")
    top.add_argument("--json", action="store_true", help="print what brokers say as JSON lines")
    top.add_argument(
        "--interval", type=seconds, default=1.0, metavar="SECONDS", help="how often to look (default: 1)"
    )
    _add_connecting(top, "a broker; repeat for more")
    top.set_defaults(run=command("cli.top", "run"))


def _add_connecting(
    parser: argparse.ArgumentParser, urls: str = "a broker; repeat for others to try if one does not answer"
) -> None:
    parser.add_argument("--url", action="append", default=[], metavar="URL", help=urls)
    tokens = parser.add_mutually_exclusive_group()
    tokens.add_argument(
        "--token", metavar="TOKEN", help="who you are (others on this machine may see it: see --token-file)"
    )
    tokens.add_argument("--token-file", metavar="FILE", help="read the token from this file")
    parser.add_argument(
        "--ca", metavar="FILE", help="for penstocks://: who vouches for brokers (default: as the system says)"
    )
    parser.add_argument("--cert", metavar="FILE", help="for penstocks://: your own certificate")
    parser.add_argument("--key", metavar="FILE", help="its key, where that is not in the same file")
    parser.add_argument("--name", metavar="NAME", help="what brokers call you when they list their clients")


def _add_reading(parser: argparse.ArgumentParser) -> None:
    _add_family(parser)
    parser.add_argument(
        "--unsupported",
        choices=("refuse", "skip"),
        default="refuse",
        help="what to do with values that have no family, such as integers beyond 64 bits: take the event "
        "for a mistake, or leave the attribute out (default: refuse)",
    )
    parser.add_argument(
        "--on-error",
        choices=("stop", "skip"),
        default="stop",
        help="what to do at a mistake in an event: stop, or tell it and go on (default: stop)",
    )


def _add_family(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--family",
        action="append",
        default=[],
        metavar="NAME=FAMILY",
        help=f"{FAMILY_HELP} (JSON has no times)",
    )


def _add_quiet(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--quiet", action="store_true", help="tell only what goes wrong, not that and how much has been done"
    )
