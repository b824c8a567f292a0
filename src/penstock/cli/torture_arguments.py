"""Arguments and help of `penstock torture`."""

import argparse

from penstock.cli.arguments import Commands, add_command, command, positive

_KINDS = """
kinds of faults:
  kill      a broker is killed (SIGKILL), and started again later
  term      a broker is asked to end (SIGTERM) in a burst, and started again later
  long      a link is cut for longer than sessions wait to be resumed
  failover  a client loses its broker and has to go to another one
  dead      a consumer reads nothing more, without closing its connection
  short     a link, or a client's connection, is cut for a moment
  storm     all links and all clients' connections are cut for a moment, at once
  stall     a link, or a client's connection, passes nothing on for a moment
  lag       a link is slower than others
  slow      a consumer takes its time
"""


def add_torture_command(commands: "Commands[argparse.ArgumentParser]") -> None:
    """`penstock torture`."""
    torture = add_command(
        commands,
        "torture",
        "start brokers as processes, have things go wrong, and check every delivery against brute force",
        "  penstock torture\n"
        "  penstock torture --seed 7 --rounds 20 --brokers 10\n"
        "  penstock torture --faults short,stall --seconds 5\n"
        "  penstock torture --seed 7 --keep-logs logs\n"
        f"{_KINDS}\n"
        "Everything is on this machine's loopback interface, and ends with the command. Any one broker can\n"
        "be gone without the others being parted, and clients have two or three brokers to go to. Every\n"
        "event that is acknowledged must come once to every subscription that wants it, late only if it\n"
        "says so, whatever fails on the way. It may be missing only where publisher and subscriber were\n"
        "separated: one had no broker left to go to, several faults at once parted the brokers, or a\n"
        "consumer that read nothing was told that it misses events. Such losses are counted; any other is a\n"
        "violation. If there is one it is told, with the command that draws the same plan again, and the\n"
        "exit status is 1.\n",
    )
    torture.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the plan (1)")
    torture.add_argument(
        "--rounds", type=positive, default=9, metavar="N", help="rounds, each with other faults (9)"
    )
    torture.add_argument(
        "--seconds",
        type=positive,
        default=12,
        metavar="N",
        help="events and faults last so long in each round, or as long as the faults take (12)",
    )
    torture.add_argument("--brokers", type=positive, default=7, metavar="N", help="brokers, 7 to 50 (7)")
    torture.add_argument(
        "--events", type=positive, default=2_000, metavar="N", help="events in each round (2000)"
    )
    torture.add_argument(
        "--faults", metavar="KINDS", help="only these kinds, with commas between them, or none (default: all)"
    )
    torture.add_argument(
        "--scheme", default="covering", metavar="NAME", help="the routing scheme of the brokers (covering)"
    )
    torture.add_argument(
        "--single-homed",
        action="store_true",
        help="give the first publisher and the first subscriber one broker only, without which they are "
        "separated from the others",
    )
    torture.add_argument(
        "--keep-logs", metavar="FOLDER", help="leave here what brokers print and what clients notice"
    )
    torture.add_argument("--json", action="store_true", help="print the results as JSON")
    torture.set_defaults(run=command("cli.torture", "run"))
