"""Arguments and help of `penstock torture`."""

import argparse

from penstock.cli.arguments import Commands, add_command, command, positive

_KINDS = """
kinds of faults:
  kill      kill a broker (SIGKILL), start it again up to 8 s later
  bounce    kill a broker and start it again at once
  term      ask a broker to end (SIGTERM) in a burst, start it again later
  pause     stop a broker (SIGSTOP) for up to 4 s, or for 20 to 30 s; then let it continue
  freeze    the same for a client: its thread stands still
  long      cut a link for longer than `resume`
  split     cut all links between two parts of the overlay for 8 s
  oneway    stall one direction of a link for up to 25 s
  failover  cut a client off its broker, so that it goes to another one
  dead      let a subscriber read nothing, without closing its connection
  manual    add a subscriber with ack="manual" that never acknowledges
  hostile   add a client that sends costly filters, unfinished frames or junk
  flip      flip one bit on a link
  short     cut a link, or a client's connection, for a moment
  storm     cut all links and all clients' connections for a moment
  stall     stall a link, or a client's connection, for a moment
  lag       add latency to a link
  slow      slow a subscriber down
"""


def add_torture_command(commands: "Commands[argparse.ArgumentParser]") -> None:
    """`penstock torture`."""
    torture = add_command(
        commands,
        "torture",
        "start brokers as processes, inject faults, and check every delivery against brute force",
        "  penstock torture\n"
        "  penstock torture --seed 7 --rounds 20 --brokers 10\n"
        "  penstock torture --topology all --rounds 3 --faults-per-round 10\n"
        "  penstock torture --topology chain --faults bounce,pause --seconds 5\n"
        "  penstock torture --seed 7 --keep-logs logs\n"
        f"{_KINDS}\n"
        "Everything runs on the loopback interface and ends with the command. Clients have two or three\n"
        "brokers each. An acknowledged event must arrive once at every subscription that wants it, late\n"
        "only if it says so. It may be missing if the subscriber was told (`missed`, `resumed`, `dropped`),\n"
        "if the publisher was told (`lost`), or if the broker that kept it died before the subscriber was\n"
        "back. Every event must be acknowledged. No acknowledgement may wait for readers for longer than\n"
        "`patience` and 5 s. Anything else is a violation: it is printed with the command that draws the\n"
        "same plan again, and the exit status is 1.\n"
        "\n"
        "The table by kind of fault counts an event for every kind that was active while it was under way,\n"
        "or up to 5 s before. So its rows overlap; the last row counts each event once.\n",
    )
    torture.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the plan (1)")
    torture.add_argument(
        "--rounds", type=positive, default=9, metavar="N", help="rounds, each with different faults (9)"
    )
    torture.add_argument(
        "--seconds",
        type=positive,
        default=12,
        metavar="N",
        help="each round lasts this long, or until its last fault is mended (12)",
    )
    torture.add_argument("--brokers", type=positive, default=7, metavar="N", help="brokers, 4 to 50 (7)")
    torture.add_argument(
        "--topology",
        choices=("chain", "ring", "mesh", "all"),
        default="mesh",
        help="how brokers are linked, or all: one network of each, with --rounds rounds each (mesh)",
    )
    torture.add_argument(
        "--subscribers",
        type=positive,
        default=4,
        metavar="N",
        help="clients that subscribe, with two subscriptions each (4)",
    )
    torture.add_argument(
        "--events",
        type=positive,
        default=2_000,
        metavar="N",
        help="events in each round (2000); some more are published before and after the faults",
    )
    torture.add_argument(
        "--faults", metavar="KINDS", help="only these kinds, with commas between them, or none (default: all)"
    )
    torture.add_argument(
        "--faults-per-round",
        type=positive,
        metavar="N",
        help="faults in each round, which may overlap (default: 1 to 3)",
    )
    torture.add_argument("--keep-going", action="store_true", help="go on after a violation")
    torture.add_argument(
        "--scheme", default="covering", metavar="NAME", help="the routing scheme of the brokers (covering)"
    )
    torture.add_argument(
        "--single-homed",
        action="store_true",
        help="give the first publisher and the first subscriber one broker only",
    )
    torture.add_argument(
        "--keep-logs", metavar="FOLDER", help="leave here what brokers print and what clients notice"
    )
    torture.add_argument("--json", action="store_true", help="print the results as JSON")
    torture.set_defaults(run=command("cli.torture", "run"))
