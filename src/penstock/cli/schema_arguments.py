"""The arguments of `penstock schema`."""

import argparse

from penstock.cli.arguments import Commands, add_command, command

_FORMATS = ("jsonl", "csv", "parquet")


def add_schema_command(commands: "Commands[argparse.ArgumentParser]") -> None:
    """Add `schema` to the commands."""
    schema = add_command(
        commands,
        "schema",
        "print the JSON Schema of the JSON form of filters, or infer that of events",
        "  penstock schema > filter.schema.json\n"
        "  penstock schema infer events.jsonl --output events.schema.json\n"
        "  penstock schema infer day.parquet | penstock lint rules.jsonl --schema /dev/stdin\n",
    )
    schema.set_defaults(run=command("cli.relations", "schema"))
    kinds = schema.add_subparsers(metavar="WHAT")
    infer = add_command(
        kinds,
        "infer",
        "write the JSON Schema of the events of files",
        "  penstock schema infer events.jsonl\n"
        "  penstock schema infer 'day-*.parquet' --output events.schema.json\n"
        "  penstock match --subscriptions rules.jsonl --events new.jsonl --schema events.schema.json\n"
        "\nOf Parquet files only the schema is read. In JSON lines, text is a time where all texts of an\n"
        "attribute are times.\n",
    )
    infer.add_argument(
        "events",
        nargs="+",
        metavar="FILE",
        help="JSON lines, CSV or Parquet, also .gz: files, folders or patterns; - for standard input",
    )
    infer.add_argument("--events-format", choices=_FORMATS, help="if the name does not tell")
    infer.add_argument(
        "--null",
        action="append",
        default=[],
        metavar="TEXT",
        help="a field of a CSV file that means absent, besides an empty one; repeat for more",
    )
    infer.add_argument(
        "--output", metavar="FILE", help="write here, whole or not at all (default: standard output)"
    )
    infer.set_defaults(run=command("cli.schemas", "run"))


def add_schema_option(
    parser: argparse.ArgumentParser, use: str = "rules that do not fit it are refused"
) -> None:
    """Let a command take a schema of events."""
    parser.add_argument(
        "--schema",
        metavar="FILE",
        help="the schema of the events: a JSON Schema, or a Parquet or Arrow file of some; " + use,
    )
