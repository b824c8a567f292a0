"""The arguments of `penstock lint` and `penstock why`."""

import argparse

from penstock.cli.arguments import FAMILY_HELP, Commands, add_command, command
from penstock.cli.schema_arguments import add_schema_option

_FORMATS = ("jsonl", "csv", "parquet")
_LANGUAGES = ("sql", "padres", "json")


def add_lint_commands(commands: "Commands[argparse.ArgumentParser]") -> None:
    """Add `lint` and `why` to the commands."""
    lint = add_command(
        commands,
        "lint",
        "check rules: all that cannot be read, contradict themselves, repeat or cover others",
        "  penstock lint rules.jsonl\n"
        "  penstock lint rules/ 'teams/*.csv' --schema events.schema.json\n"
        "  penstock lint rules/ --format sarif --output rules.sarif\n"
        "  penstock lint rules.jsonl --fail-on error\n"
        "\nFiles hold rows with id and filter, as for penstock match. Findings have a level:\n"
        "  error    invalid, never-matches, unknown-attribute, wrong-type, wrong-value\n"
        "  warning  duplicate, matches-all, dead-alternative (part of a rule that can never match)\n"
        "  note     covered (by another rule), repeated-id (several rules under one id are alternatives),\n"
        "           rare-attribute (many rules name one much like it)\n"
        "\nExit status: 0 if nothing as grave as --fail-on was found, 1 if something was, 2 if a file\n"
        "cannot be opened or an argument is wrong.\n",
    )
    lint.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="JSON lines, CSV or Parquet, also .gz: files, folders or patterns; - for standard input",
    )
    lint.add_argument("--subscriptions-format", choices=_FORMATS, help="if the names do not tell")
    lint.add_argument(
        "--from",
        dest="language",
        choices=_LANGUAGES,
        help="the language of filters that are text (default: sql)",
    )
    lint.add_argument(
        "--schema",
        metavar="FILE",
        help="also check attributes and types: a JSON Schema of the events, or a Parquet file of some",
    )
    lint.add_argument(
        "--fail-on",
        choices=("error", "warning", "note", "never"),
        default="warning",
        help="exit with 1 if something at least as grave is found (default: warning)",
    )
    lint.add_argument(
        "--format", choices=("text", "json", "sarif"), default="text", help="what to write (default: text)"
    )
    lint.add_argument(
        "--output", metavar="FILE", help="write here, whole or not at all (default: standard output)"
    )
    lint.set_defaults(run=command("cli.lint", "run"))
    why = add_command(
        commands,
        "why",
        "tell why a rule matches an event or not, condition by condition",
        '  penstock why late-jfk \'{"origin": "JFK", "dep_delay": 5}\' --subscriptions rules.jsonl\n'
        "  head -1 events.jsonl | penstock why late-jfk - --subscriptions rules/ --json\n"
        "\nOnly the filters of this id are read, however many there are. Where they ask for a time and the\n"
        "event has text, all are read: text is a time unless some rule compares it with a string.\n",
    )
    why.add_argument("id", metavar="ID", help="the id of the rule")
    why.add_argument("event", metavar="EVENT", help="a JSON object; - reads one from standard input")
    why.add_argument(
        "--subscriptions",
        required=True,
        nargs="+",
        action="extend",
        metavar="FILE",
        help="JSON lines, CSV or Parquet, also .gz: files, folders or patterns; or a folder that "
        "penstock compile wrote",
    )
    why.add_argument("--subscriptions-format", choices=_FORMATS, help="if the names do not tell")
    why.add_argument(
        "--from",
        dest="language",
        choices=_LANGUAGES,
        help="the language of filters that are text (default: sql)",
    )
    why.add_argument(
        "--family",
        action="append",
        default=[],
        metavar="NAME=FAMILY",
        help=FAMILY_HELP,
    )
    why.add_argument(
        "--unsupported",
        choices=("refuse", "skip"),
        default="refuse",
        help="what to do with values that have no family: stop with an error, or leave the attribute out "
        "(default: refuse)",
    )
    add_schema_option(why, "text is read as a time where it says date-time")
    why.add_argument("--json", action="store_true", help="print JSON")
    why.set_defaults(run=command("cli.why", "run"))
