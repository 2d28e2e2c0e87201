"""``softib accept``: bandwidth and latency between all hosts, and what is slow."""

from __future__ import annotations

import time
from typing import Any

import click

from softib.cli.shared import completing
from softib.cli.shared.options import json_option
from softib.cli.shared.output import Steps, print_json, print_notice, print_problems, show_line
from softib.foreign_text import shown

SHOW_S = 10.0


@click.command()
@click.argument("source", metavar="SOURCE|HOSTS", shell_complete=completing.sources)
@click.option(
    "--launcher",
    type=click.Choice(["local", "ssh", "srun"]),
    help=(
        "How programs start on hosts (default: local for a running fabric, ssh for HOSTS; the hosts of a file need it)."
    ),
)
@click.option(
    "--ssh-config",
    metavar="FILE",
    default="",
    type=click.Path(dir_okay=False),
    help="ssh's configuration file, where it is not the user's (ssh -F).",
)
@click.option("--hosts", metavar="HOSTS", help="These hosts alone: a file with one a line, or node[001-016].")
@click.option(
    "--rounds",
    type=click.IntRange(0),
    default=4,
    show_default=True,
    metavar="N",
    help="Rounds of each class of pairs; 0: until all pairs have met.",
)
@click.option("--quick", is_flag=True, help="The loaded tests alone, two rounds of each class.")
@click.option(
    "--test",
    "tests",
    multiple=True,
    metavar="TEST",
    help=(
        "bandwidth, bandwidth-both, bandwidth-both-loaded, latency, latency-loaded, latency-with-bandwidth; may be "
        "repeated (default: all)."
    ),
)
@click.option(
    "--program",
    type=click.Choice(["write", "send", "read"]),
    default="write",
    show_default=True,
    help="ib_write_bw and ib_write_lat, ib_send_…, ib_read_….",
)
@click.option(
    "--size",
    type=click.IntRange(1),
    default=1 << 20,
    show_default=True,
    metavar="OCTETS",
    help="Of a message of the bandwidth tests.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0.01),
    default=1.0,
    show_default=True,
    metavar="S",
    help="How long each program ought to send at the expected rate.",
)
@click.option(
    "--at-once",
    type=click.IntRange(1),
    metavar="N",
    help="Pairs at a time where each is alone on its links (default: all that share none).",
)
@click.option(
    "--device",
    "devices",
    multiple=True,
    metavar="DEV",
    help="Adapters of hosts that no fabric describes, such as mlx5_0; a rail each.",
)
@click.option(
    "--base-port",
    type=click.IntRange(1024, 65000),
    default=18515,
    show_default=True,
    metavar="PORT",
    help="First TCP port for perftest's exchange of addresses.",
)
@click.option(
    "--journal",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Gets each batch as it is done, so that --resume can go on.",
)
@click.option("--resume", is_flag=True, help="Go on with the journal: what failed or is missing is measured.")
@json_option
def command(source: str, rounds: int, as_json: bool, **options: Any) -> int:
    """Measure all hosts against each other with perftest, and name slow hosts, adapters, cables and
    switches.

    SOURCE is a running fabric, or any other source whose hosts --launcher reaches; HOSTS a file
    with a host a line, or node[001-016]. Every round pairs all ports of each rail. What each pair
    measures is compared with what its path lets expect. Exit 1 when there are warnings or errors.

    \b
    softib accept pod --quick
    softib accept cluster.ibnetdiscover --launcher ssh --journal friday.jsonl
    softib accept 'node[001-064]' --device mlx5_0 --device mlx5_1
    """
    import softib

    steps = Steps()
    result = softib.accept(source, rounds=rounds or None, steps=steps, progress=_Progress(), **options)
    if as_json:
        print_json(result.to_json())
    else:
        print_problems(result.findings.problems)
        for line in result.lines():
            click.echo(shown(line))
        result.findings.print()
    return 0 if result.good else 1


class _Progress:
    """A line that changes on a terminal, one every ten seconds elsewhere."""

    def __init__(self) -> None:
        self.next_s = time.monotonic() + SHOW_S

    def __call__(self, done: int, of: int, left_s: float) -> None:
        text = f"{done} of {of} batches, about {_span(left_s)} left"
        show_line(text)
        if time.monotonic() >= self.next_s and done < of:
            import sys

            self.next_s = time.monotonic() + SHOW_S
            if not sys.stderr.isatty():
                print_notice(text)


def _span(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return (
        f"{minutes // 60} h {minutes % 60} min"
        if minutes >= 60
        else f"{minutes} min {rest} s"
        if minutes
        else f"{rest} s"
    )
