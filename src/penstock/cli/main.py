"""Arguments, help texts and exit status. Each command is imported only when it runs."""

import argparse
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from penstock.cli.arguments import EXIT_BAD_INPUT, EXIT_FAILED, EXIT_INTERRUPTED
from penstock.cli.arguments import FAMILY_HELP as _FAMILY_HELP
from penstock.cli.arguments import Commands as _Commands
from penstock.cli.arguments import add_command as _add
from penstock.cli.arguments import command as _command
from penstock.cli.arguments import positive as _positive
from penstock.cli.arguments import scale as _scale
from penstock.cli.arguments import share as _share
from penstock.cli.demo_arguments import add_demo_command
from penstock.cli.lint_arguments import add_lint_commands
from penstock.cli.lint_bench_arguments import add_lint_bench
from penstock.cli.live import add_live_commands
from penstock.cli.live_brokers import add_broker_commands
from penstock.cli.networks import add_network_commands
from penstock.cli.pipeline_arguments import add_pipeline_commands
from penstock.cli.schema_arguments import add_schema_command, add_schema_option
from penstock.cli.signals import end_on_signals
from penstock.cli.spark_bench_arguments import add_spark_bench
from penstock.cli.start_bench_arguments import add_start_bench
from penstock.cli.strangers_bench_arguments import add_strangers_bench
from penstock.cli.torture_arguments import add_torture_command
from penstock.errors import NetworkError, PenstockError, printable

_LANGUAGES = ("sql", "padres", "json")
_FORMATS = ("jsonl", "csv", "parquet")

_EPILOG = """\
examples:
  penstock parse "origin = 'JFK' and dep_delay > 60"
  penstock parse "[class,eq,'STOCK'],[price,<,20]" --from padres --to json
  penstock covers "price > 10" "price between 20 and 30"
  penstock merge "price between 50 and 100" "price between 90 and 120"
  penstock match --subscriptions rules.jsonl --events events.parquet --output matches.jsonl
  penstock lint rules.jsonl
  penstock why late '{"dep_delay": 5}' --subscriptions rules.jsonl
  penstock check --seeds 100
  penstock sim plain
  penstock broker --name b1
  penstock sub "dep_delay > 60"
  penstock pub '{"origin": "JFK", "dep_delay": 75}'
  penstock pipeline run flights.toml
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; return its exit status."""
    _prepare_streams()
    try:
        options = _parser().parse_args(arguments)
        if arguments is None:
            end_on_signals()
        status: int = options.run(options)
        sys.stdout.flush()
    except PenstockError as error:
        # One line, whatever the message quotes.
        _complain(" ".join(str(error).split("\n")))
        return EXIT_FAILED if isinstance(error, NetworkError) else EXIT_BAD_INPUT
    except BrokenPipeError:
        # Whoever read our output has gone (`| head`); that is no error of ours.
        _abandon_output()
        return 0
    except OSError as error:
        _complain(f"{error.filename or 'standard output'}: {(error.strerror or str(error)).lower()}")
        _abandon_output()
        return EXIT_FAILED
    except KeyboardInterrupt:
        _complain("interrupted")
        return EXIT_INTERRUPTED
    return status


def _prepare_streams() -> None:
    """Have all three streams, whoever started us, and print what a terminal has no letters for as \\u…."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 - for as long as we run
        elif mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _complain(message: str) -> None:
    sys.stderr.write(f"penstock: {printable(message)}\n")


def _abandon_output() -> None:
    """Let what is still buffered for standard output go nowhere, or the interpreter complains at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="penstock",
        description="Filters on events' content: parse, compare, merge, match and route by them.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, help="print the version and exit")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_languages(commands)
    _add_relations(commands)
    add_lint_commands(commands)
    _add_match(commands)
    _add_warm(commands)
    add_network_commands(commands)
    add_live_commands(commands)
    add_broker_commands(commands)
    add_torture_command(commands)
    add_pipeline_commands(commands)
    _add_bench(commands)
    add_demo_command(commands)
    return parser


class _Version(argparse.Action):
    def __init__(self, option_strings: Sequence[str], dest: str, **rest: object) -> None:
        super().__init__(option_strings, dest, nargs=0, help=str(rest.get("help")))

    def __call__(self, parser: argparse.ArgumentParser, *_rest: object) -> None:
        from penstock import __version__

        sys.stdout.write(f"penstock {__version__}\n")
        parser.exit()


def _add_from(
    parser: argparse.ArgumentParser,
    what: str = "the language of the filters",
    *,
    default: str | None = "sql",
) -> None:
    parser.add_argument(
        "--from", dest="language", choices=_LANGUAGES, default=default, help=f"{what} (default: sql)"
    )


def _add_languages(commands: "_Commands[argparse.ArgumentParser]") -> None:
    parse = _add(
        commands,
        "parse",
        "check a filter and print its canonical form",
        "  penstock parse \"not (price <= 10 or symbol != 'ACME')\"\n"
        "  penstock parse \"[class,eq,'STOCK'],[price,<,20]\" --from padres --to sql\n"
        '  echo "price > 10" | penstock parse - --to json\n',
    )
    parse.add_argument("text", metavar="TEXT", help="the filter; - reads it from standard input")
    _add_from(parse, "the language of the text")
    parse.add_argument("--to", choices=_LANGUAGES, default="sql", help="the language to print (default: sql)")
    parse.set_defaults(run=_command("cli.relations", "parse"))
    add_schema_command(commands)


def _add_relations(commands: "_Commands[argparse.ArgumentParser]") -> None:
    relations = {
        "covers": (
            "print true if every event that matches G matches F, else false",
            "price > 10",
            "price > 20",
        ),
        "overlaps": ("print true if some event can match both F and G, else false", "a > 1", "b = 2"),
        "identical": (
            "print true if F and G match the same events, else false",
            "price < 300 or price > 400",
            "price not between 300 and 400",
        ),
    }
    for name, (summary, f, g) in relations.items():
        relation = _add(commands, name, summary, f'  penstock {name} "{f}" "{g}"\n')
        relation.add_argument("f", metavar="F", help="a filter")
        relation.add_argument("g", metavar="G", help="another filter")
        _add_from(relation)
        relation.set_defaults(run=_command("cli.relations", "relate"), relation=name)
    merge = _add(
        commands,
        "merge",
        "print one filter for the union of several, with as few parts as can be",
        '  penstock merge "price between 50 and 100" "price between 90 and 120"\n'
        '  penstock merge "x = 1 and y = 1" "x = 2 and y = 2" --budget 0.5\n',
    )
    merge.add_argument("filters", metavar="F", nargs="+", help="filters")
    merge.add_argument(
        "--budget",
        type=_share,
        default=0.0,
        metavar="SHARE",
        help="let the merger match more than the union, up to this estimated share of what it matches "
        "(default: 0, exactly the union)",
    )
    merge.add_argument("--to", choices=_LANGUAGES, default="sql", help="the language to print (default: sql)")
    merge.add_argument("--json", action="store_true", help="print predicate, perfect and excess as JSON")
    _add_from(merge)
    merge.set_defaults(run=_command("cli.relations", "merge"))


def _add_warm(commands: "_Commands[argparse.ArgumentParser]") -> None:
    warm = _add(
        commands,
        "warm",
        "compile the kernels that are not on disk yet, so that no later run has to",
        "  penstock warm\n"
        "  NUMBA_CACHE_DIR=/opt/kernels penstock warm\n"
        "\nOtherwise the first run of an installation compiles them, which takes a minute or two. Of use\n"
        "where an image is built, or where many processes start at once.\n",
    )
    warm.set_defaults(run=_command("cli.warm", "run"))


def _add_match(commands: "_Commands[argparse.ArgumentParser]") -> None:
    match = _add(
        commands,
        "match",
        "say which subscriptions match which events",
        "  penstock match --subscriptions rules.jsonl --events events.jsonl\n"
        "  penstock match --subscriptions rules.csv --events day.parquet --output matches.jsonl\n"
        "  penstock match --subscriptions team-a.csv team-b.csv --events 'days/2024-*/*.jsonl.gz'\n"
        "  tail -f events.jsonl | penstock match --subscriptions rules.jsonl --events - --line-buffered\n"
        "  penstock match --subscriptions rules.jsonl --events log.jsonl --family at=time\n"
        "  penstock match --subscriptions rules.jsonl --events day/ --output matches.parquet --summary\n"
        "  penstock match --subscriptions rules.jsonl --events day.parquet --strict\n"
        "  penstock match --subscriptions rules.jsonl --events log.jsonl --schema events.schema.json\n"
        "  penstock compile --subscriptions rules.jsonl --output rules\n"
        "  penstock match --subscriptions rules --events events.jsonl --jobs 8\n"
        "\nSubscriptions are rows with id, filter and, if you like, subscriber; several rows with one id\n"
        "are alternatives. Ids are text or integers (in CSV always text). Out comes a JSON line for each\n"
        "event that matched:\n"
        '  {"event": <its "id" attribute if it has one, else its 0-based row>, "ids": [...]}\n',
    )
    _add_subscriptions(match, ", or a folder that penstock compile wrote")
    match.add_argument(
        "--events",
        required=True,
        nargs="+",
        action="extend",
        metavar="FILE",
        help="JSON lines, CSV or Parquet, also .gz, all of one format: files, folders or patterns such as "
        "'day/*.jsonl.gz'; - for standard input",
    )
    match.add_argument(
        "--output",
        metavar="FILE",
        help="write here, whole or not at all; as Parquet if the name ends in .parquet (default: standard "
        "output)",
    )
    match.add_argument(
        "--summary",
        nargs="?",
        choices=("text", "json"),
        const="text",
        help="print hits by rule, the noisiest rules and those that never matched, in place of lines; these "
        "are written if there is an --output",
    )
    match.add_argument("--events-format", choices=_FORMATS, help="if the name does not tell")
    match.add_argument(
        "--family",
        action="append",
        default=[],
        metavar="NAME=FAMILY",
        help=f"{_FAMILY_HELP} (JSON has no times; in CSV, string keeps leading zeros)",
    )
    match.add_argument(
        "--null",
        action="append",
        default=[],
        metavar="TEXT",
        help="a field of a CSV file that means absent, besides an empty one, such as NA; repeat for more",
    )
    match.add_argument(
        "--unsupported",
        choices=("refuse", "skip"),
        default="refuse",
        help="what to do with values that have no family, such as integers beyond 64 bits: stop with an "
        "error, or leave the attribute out (default: refuse); in JSON lines, an attribute that no filter "
        "names is only checked to be JSON, unless it is id",
    )
    add_schema_option(match)
    match.add_argument(
        "--strict",
        action="store_true",
        help="write nothing and end with exit status 2 where rules and events disagree: attributes that "
        "rules name and no event has, or has in another family, and values that were left out; without it "
        "each is a warning",
    )
    match.add_argument(
        "--line-buffered",
        action="store_true",
        help="write each line at once, as far as the events come one by one (CSV is read whole); without it "
        "nothing is written until all events have been read well",
    )
    match.add_argument(
        "--jobs",
        type=_positive,
        metavar="N",
        help="match on so many threads (default: as many as there are cores; with --line-buffered always 1)",
    )
    match.set_defaults(run=_command("cli.match", "run"))
    compiling = _add(
        commands,
        "compile",
        "compile subscriptions into a folder, from which penstock match loads them at once",
        "  penstock compile --subscriptions rules.jsonl --output rules\n"
        "  penstock match --subscriptions rules --events events.jsonl\n"
        "\nA folder that holds compiled subscriptions already is replaced, whole or not at all.\n",
    )
    _add_subscriptions(compiling)
    add_schema_option(compiling)
    compiling.add_argument("--output", required=True, metavar="FOLDER", help="write here")
    compiling.set_defaults(run=_command("cli.compile", "run"))


def _add_subscriptions(parser: argparse.ArgumentParser, more: str = "") -> None:
    parser.add_argument(
        "--subscriptions",
        required=True,
        nargs="+",
        action="extend",
        metavar="FILE",
        help="JSON lines, CSV or Parquet, also .gz: files, folders or patterns such as 'rules/*.jsonl'; "
        f"- for standard input{more}",
    )
    parser.add_argument("--subscriptions-format", choices=_FORMATS, help="if the name does not tell")
    # No default here: a compiled folder has no language, and is refused with one.
    _add_from(parser, "the language of filters that are text", default=None)


def _add_bench(commands: "_Commands[argparse.ArgumentParser]") -> None:
    bench = _add(
        commands,
        "bench",
        "print benchmarks",
        "  penstock bench filters\n  penstock bench filters --json\n  penstock bench matching --scale 0.01\n"
        "  penstock bench routing --count 10000\n  penstock bench network --subscriptions 1000\n"
        "  penstock bench spark --scale 0.01 --budget 10\n  penstock bench lint --scale 0.2\n",
    )
    kinds = bench.add_subparsers(metavar="WHAT", required=True)
    summary = "measure parsing, loading and comparing filters"
    filters = _add(kinds, "filters", summary, "  penstock bench filters --count 100000\n")
    filters.add_argument(
        "--count", type=_positive, default=1_000_000, metavar="N", help="filters to load (1000000)"
    )
    filters.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the generated filters (1)")
    filters.add_argument("--json", action="store_true", help="print the results as JSON")
    filters.set_defaults(run=_command("cli.bench", "filters"))
    summary = "measure the covering tables of a router: poset-derived forest and filters poset"
    examples = "  penstock bench routing --count 10000\n  penstock bench routing --table forest\n"
    routing = _add(kinds, "routing", summary, examples)
    routing.add_argument(
        "--table", choices=("forest", "poset"), help="only this one; the poset takes minutes (default: both)"
    )
    routing.add_argument(
        "--count", type=_positive, default=100_000, metavar="N", help="range filters to insert (100000)"
    )
    routing.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the generated filters (1)")
    routing.add_argument("--json", action="store_true", help="print the results as JSON")
    routing.set_defaults(run=_command("cli.bench", "routing"))
    summary = "measure the matcher, and other engines beside it, on a set of scenarios"
    matching = _add(
        kinds,
        "matching",
        summary,
        "  penstock bench matching --scale 0.01\n"
        "  penstock bench matching --scenario rules --scenario ranges --no-others\n"
        "  penstock bench matching --plots docs/figures --json > matching.json\n"
        "\nAll of it takes long and needs a quiet machine; --scale is for a quick look.\n",
    )
    matching.add_argument(
        "--scenario",
        action="append",
        default=[],
        metavar="NAME",
        help="run this one; repeat for more (default: all)",
    )
    matching.add_argument(
        "--scale", type=_scale, default=1.0, metavar="F", help="take only this share of the filters (1)"
    )
    matching.add_argument(
        "--plots", metavar="FOLDER", help="draw the growth and the forwarding paper's figures 7 to 9 here"
    )
    matching.add_argument("--no-others", action="store_true", help="leave out the other engines")
    matching.add_argument(
        "--budget",
        type=_positive,
        default=20,
        metavar="SECONDS",
        help="time for each of the other engines in each scenario (20)",
    )
    matching.add_argument(
        "--seed", type=int, metavar="N", help="seed of filters and events (default: the scenario's)"
    )
    matching.add_argument("--json", action="store_true", help="print the results as JSON")
    matching.set_defaults(run=_command("cli.bench", "matching"))
    _add_network_bench(kinds)
    add_strangers_bench(kinds)
    add_spark_bench(kinds)
    add_lint_bench(kinds)
    add_start_bench(kinds)
    _add_routing_bench(kinds)


def _add_network_bench(kinds: "_Commands[argparse.ArgumentParser]") -> None:
    network = _add(
        kinds,
        "network",
        "measure events through brokers on this machine, beside NATS and RabbitMQ where they are installed",
        "  penstock bench network --subscriptions 1000 --seconds 2\n"
        "  penstock bench network --parties penstock,nats --rate 5000 --brokers 1,3\n"
        "  penstock bench network --parties penstock,nats --json > network.json\n"
        "\nIt needs a quiet machine. Each party filters for itself; deliveries are checked by the matcher.\n",
    )
    network.add_argument(
        "--parties",
        default="penstock,nats,rabbitmq",
        metavar="NAMES",
        help="whom to measure, with commas (penstock,nats,rabbitmq)",
    )
    network.add_argument(
        "--subscriptions", type=_positive, default=10_000, metavar="N", help="subscriptions (10000)"
    )
    network.add_argument(
        "--events",
        type=_positive,
        default=500_000,
        metavar="N",
        help="events to saturate with, at most (500000)",
    )
    network.add_argument(
        "--seconds",
        type=_positive,
        default=5,
        metavar="S",
        help="how long to saturate at most, and how long to measure delays (5)",
    )
    network.add_argument(
        "--rate",
        type=_positive,
        default=1_000,
        metavar="N",
        help="events a second at which to measure delays, the same for all (1000)",
    )
    network.add_argument(
        "--brokers",
        default="1,3",
        metavar="N",
        help="how many brokers in a chain an event passes, with commas; RabbitMQ has one (1,3)",
    )
    network.add_argument("--seed", type=int, default=1, metavar="N", help="seed of filters and events (1)")
    network.add_argument("--json", action="store_true", help="print the results as JSON")
    network.set_defaults(run=_command("cli.bench", "network"))


def _add_routing_bench(kinds: "_Commands[argparse.ArgumentParser]") -> None:
    """What is measured in the simulator. Counts, not times, so that they are the same everywhere."""
    ladder = _add(
        kinds,
        "ladder",
        "compare the routing schemes, with and without advertisements and locality, in the simulator",
        "  penstock bench ladder --scale 0.1\n  penstock bench ladder --plots docs\n",
    )
    ladder.add_argument("--brokers", type=_positive, default=50, metavar="N", help="brokers (50)")
    ladder.add_argument(
        "--subscriptions", type=_positive, default=2_000, metavar="N", help="subscriptions (2000)"
    )
    ladder.add_argument("--events", type=_positive, default=2_000, metavar="N", help="events (2000)")
    ladder.add_argument("--plots", metavar="FOLDER", help="draw ladder.png here")
    covering = _add(
        kinds,
        "covering",
        "count what active, lazy and no covering cost, as in table II of the filter aggregation paper",
        "  penstock bench covering --scale 0.01\n",
    )
    covering.add_argument(
        "--subscriptions", type=_positive, default=42_000, metavar="N", help="subscriptions (42000)"
    )
    covering.add_argument(
        "--publications", type=_positive, default=200_000, metavar="N", help="publications (200000)"
    )
    for bench, name in ((ladder, "ladder"), (covering, "covering")):
        bench.add_argument("--seed", type=int, default=1, metavar="N", help="seed of all that is random (1)")
        bench.add_argument(
            "--scale", type=_scale, default=1.0, metavar="F", help="take only this share of both (1)"
        )
        bench.add_argument("--json", action="store_true", help="print the results as JSON")
        bench.set_defaults(run=_command("cli.bench", name))
    example = _add(
        kinds,
        "example",
        "tell a small example of routing, step by step, as it runs in the simulator",
        "  penstock bench example covering\n",
    )
    example.add_argument("name", metavar="NAME", nargs="?", help="which one (default: list them)")
    example.set_defaults(run=_command("bench.examples", "run"))
