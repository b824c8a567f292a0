"""Arguments and help of `penstock pipeline`."""

import argparse

from penstock.cli.arguments import Commands, add_command, command


def add_pipeline_commands(commands: "Commands[argparse.ArgumentParser]") -> None:
    """`penstock pipeline run`, `explain` and `example`."""
    pipeline = add_command(
        commands,
        "pipeline",
        "route files and streams on Spark, as a TOML file says",
        "  penstock pipeline example > flights.toml\n"
        "  penstock pipeline explain flights.toml\n"
        "  penstock pipeline run flights.toml\n"
        "\nNeeds pip install 'penstock[spark]'.\n",
    )
    kinds = pipeline.add_subparsers(metavar="WHAT", required=True)
    run = add_command(
        kinds,
        "run",
        "run a pipeline until all is done, or until Ctrl-C",
        "  penstock pipeline run flights.toml\n"
        "  penstock pipeline run flights.toml --trigger available-now --json\n"
        "  penstock pipeline run flights.toml --master spark://head:7077 --checkpoint /shared/flights\n"
        "\nCtrl-C, or SIGTERM, stops a stream after the batch that is running, if that ends soon; once more\n"
        "stops it at once. The next run goes on where this one stopped. Meanwhile a line says how far it\n"
        "is; lag is how old the results are: the seconds since the last finished batch was begun, or 0 if\n"
        "the source has nothing more. In the end come the figures, whatever the end was. The exit status\n"
        "is 0 if all is done, 1 if it failed, 2 if the file is wrong, and 130 if it was stopped.\n",
    )
    _add_common(run)
    run.add_argument(
        "--checkpoint", metavar="FOLDER", help="where a stream notes what it has done (instead of the file's)"
    )
    run.add_argument(
        "--trigger",
        metavar="WHEN",
        help='available-now, once, or as "5 seconds": when a stream looks for more (instead of the file\'s)',
    )
    run.add_argument(
        "--quiet", action="store_true", help="tell only what goes wrong, and the figures at the end"
    )
    run.add_argument("--json", action="store_true", help="print the figures as JSON")
    run.set_defaults(run=command("cli.pipeline", "run"))
    explain = add_command(
        kinds,
        "explain",
        "say what a pipeline would do: its source, table, layout, sinks and what they promise",
        "  penstock pipeline explain flights.toml\n\nStarts Spark, but no query.\n",
    )
    _add_common(explain)
    explain.set_defaults(run=command("cli.pipeline", "explain"), checkpoint=None, trigger=None)
    example = add_command(
        kinds,
        "example",
        "print a file with all settings, to change",
        "  penstock pipeline example > mine.toml\n",
    )
    example.set_defaults(run=command("cli.pipeline", "example"))


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE.toml", help="the pipeline; see penstock pipeline example")
    parser.add_argument(
        "--master", metavar="WHERE", help="local[N], spark://host:7077, … (instead of the file's)"
    )
    parser.add_argument(
        "--log",
        metavar="FILE",
        help="add what Spark prints to this file (default: a temporary one, kept if something fails)",
    )
