"""Arguments and help of `penstock bench spark`."""

import argparse

from penstock.cli.arguments import Commands, add_command, command, positive, scale, seconds


def add_spark_bench(kinds: "Commands[argparse.ArgumentParser]") -> None:
    """`penstock bench spark`."""
    spark = add_command(
        kinds,
        "spark",
        "measure routing on Spark, beside the bare engine, a job that does nothing, and plain joins",
        "  penstock bench spark --scale 0.01 --budget 10\n"
        "  penstock bench spark --events 1000000 --filters 100000\n"
        "  penstock bench spark --folder bench --json > spark.json\n"
        "  penstock bench spark --covering --scale 0.01\n"
        "\nAll of it takes many minutes and needs a quiet machine; --scale is for a quick look. Goals are\n"
        "printed beside the figures.\n",
    )
    spark.add_argument("--events", type=positive, default=10_000_000, metavar="N", help="events (10000000)")
    spark.add_argument(
        "--filters",
        type=positive,
        action="append",
        metavar="N",
        help="filters; repeat for more sizes (100000 and 1000000)",
    )
    spark.add_argument(
        "--scale", type=scale, default=1.0, metavar="F", help="take only this share of both (1)"
    )
    spark.add_argument(
        "--covering",
        action="store_true",
        help="measure penstock.spark.covering on so many rules instead, part by part",
    )
    spark.add_argument(
        "--repeats", type=positive, default=3, metavar="N", help="times to measure each; medians count (3)"
    )
    spark.add_argument(
        "--budget", type=seconds, default=60.0, metavar="SECONDS", help="time for each plain join (60)"
    )
    spark.add_argument("--master", default="local[2]", metavar="NAME", help="Spark's master (local[2])")
    spark.add_argument(
        "--folder", metavar="FOLDER", help="keep events and filters here, and use those that are here already"
    )
    spark.add_argument("--seed", type=int, default=1, metavar="N", help="seed of filters and events (1)")
    spark.add_argument("--json", action="store_true", help="print the results as JSON")
    spark.set_defaults(run=command("cli.bench", "spark"))
