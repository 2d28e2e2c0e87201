"""``softib accept``: bandwidth and latency between all hosts, and slow parts."""

from __future__ import annotations

from typing import Any

import click

from softib.cli.shared import completing
from softib.cli.shared.named_files import InputFile, OutputFile
from softib.cli.shared.numbers import Number
from softib.cli.shared.options import json_option
from softib.cli.shared.output import Steps, print_json, print_lines, print_notice, print_problems, show_line
from softib.foreign_text import shown


@click.command()
@click.argument("source", metavar="SOURCE|HOSTS", shell_complete=completing.sources)
@click.option(
    "--launcher",
    type=click.Choice(["local", "ssh", "srun", "virtual"]),
    help=(
        "How programs start on hosts (default: local for a running fabric, ssh for HOSTS; the hosts of a file need "
        "it). virtual, of --cover: in virtual time, without hosts (default of --cover for a file)."
    ),
)
@click.option(
    "--ssh-config",
    metavar="FILE",
    type=InputFile(),
    help="ssh's configuration file (ssh -F), if not the user's.",
)
@click.option("--hosts", metavar="HOSTS", help="Only these hosts: a file with one per line, or node[001-016].")
@click.option(
    "--rounds",
    type=click.IntRange(0),
    metavar="N",
    help=(
        "Rounds of each class of pairs (default 4); 0: until all pairs are measured. With --cover: maximum number "
        "of rounds (40)."
    ),
)
@click.option(
    "--quick",
    is_flag=True,
    help=("Run only the tests under load (bandwidth-both-loaded, latency-loaded), with two rounds per class of pairs."),
)
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
    help="Message size of the bandwidth tests.",
)
@click.option(
    "--seconds",
    type=Number(0.01),
    default=1.0,
    show_default=True,
    metavar="S",
    help="Duration of each program at the expected rate.",
)
@click.option(
    "--at-once",
    type=click.IntRange(1),
    metavar="N",
    help="Simultaneous pairs if no two may share a link (default: all that share none).",
)
@click.option(
    "--device",
    "devices",
    multiple=True,
    metavar="DEV",
    help="Adapters of hosts without a fabric, for example mlx5_0; one per rail.",
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
    type=OutputFile(),
    help="Write each finished batch to it, so that --resume can continue.",
)
@click.option("--resume", is_flag=True, help="Continue the journal: measure failed and missing batches.")
@click.option(
    "--use-cuda", type=click.IntRange(0), metavar="GPU", help="Use memory of this GPU in perftest (--use_cuda)."
)
@click.option(
    "--collective",
    "collectives",
    multiple=True,
    metavar="COMMAND",
    help="Then run this benchmark of OSU or nccl-tests ('mpirun -np 8 osu_allreduce') and compare it with the "
    "prediction for the hosts; may be repeated.",
)
@click.option(
    "--ranks-per-host", type=click.IntRange(1), metavar="N", help="Ranks of COMMAND on each host (default 1)."
)
@click.option(
    "--machine",
    type=InputFile(),
    metavar="F",
    help="A machine file for the prediction, as softib calibrate writes it.",
)
@click.option(
    "--cover",
    is_flag=True,
    help="Load every direction of every cable to 80 % of its rate, in as few rounds as routes allow, and prove it by "
    "the ports' counters.",
)
@click.option(
    "--adaptive/--no-adaptive",
    default=None,
    help="--cover: plan for adaptive routing, or only for the forwarding tables (default: as in the switches).",
)
@click.option("--lfts", metavar="F", type=InputFile(), help="--cover: use these forwarding tables (a dump).")
@click.option("--html", metavar="F", type=OutputFile(), help="--cover: write the certificate, one page.")
@click.option(
    "--compare", metavar="F", type=InputFile(), help="--cover: compare with an earlier run (its --json output)."
)
@json_option
def command(source: str, cover: bool, as_json: bool, html: str | None, **options: Any) -> int:
    """Measure all hosts against each other with perftest, and report slow hosts, adapters, cables
    and switches. SOURCE is a running fabric, or any other source whose hosts --launcher reaches; HOSTS
    a file with one host per line, or node[001-016]. Every round pairs all ports of each rail. Each
    measurement is compared with the expected value of its path. Exit 1 if there are warnings or
    errors.

    \b
    softib accept pod --quick
    softib accept cluster.ibnetdiscover --launcher ssh --journal friday.jsonl
    softib accept 'node[001-064]' --device mlx5_0 --device mlx5_1
    softib accept pod --cover --html certificate.html
    softib accept umad:mlx5_0 --cover --launcher srun --collective 'srun -N 64 osu_allreduce'
    softib accept cluster.ibnetdiscover --cover
    """
    import softib

    chosen = {k: v for k, v in options.items() if v is not None and v is not False and v != () and v != ""}
    _refuse_others(chosen, COVER_ONLY if not cover else PAIRS_ONLY, cover, html)
    steps = Steps()
    if cover:
        return _cover(source, as_json, html, steps, chosen | {k: v for k, v in options.items() if k == "adaptive"})
    rounds = options["rounds"]
    chosen["rounds"] = 4 if rounds is None else rounds or None
    result = softib.accept(source, steps=steps, progress=_batches, **chosen)
    if as_json:
        print_json(result.to_json())
    else:
        print_problems(result.findings.problems)
        for line in result.lines():
            click.echo(shown(line))
        result.findings.print()
    return 0 if result.good else 1


COVER_ONLY = ("adaptive", "lfts", "compare")
PAIRS_ONLY = ("quick", "tests", "at_once", "devices", "journal", "resume")


def _refuse_others(chosen: dict[str, Any], names: tuple[str, ...], cover: bool, html: str | None) -> None:
    """Raise a usage error if an option is only for runs with --cover and this run has no --cover, or the reverse."""
    for name in names:
        if name in chosen:
            option = {"tests": "--test", "devices": "--device"}.get(name, "--" + name.replace("_", "-"))
            raise click.UsageError(f"{option} has no effect {'with' if cover else 'without'} --cover; leave it out")
    if html and not cover:
        raise click.UsageError("--html has no effect without --cover; leave it out")
    if not cover and chosen.get("launcher") == "virtual":
        raise click.UsageError("--launcher virtual is for --cover; use local, ssh or srun")


def _cover(source: str, as_json: bool, html: str | None, steps: Steps, options: dict[str, Any]) -> int:
    import softib

    rounds = lambda done, of: show_line(f"{done} of {of} rounds")
    result = softib.cover(source, steps=steps, progress=rounds, **options)
    if html:
        result.save(html)
        print_notice(f"{html}: certificate")
    if as_json:
        print_json(result.to_json())
    else:
        print_lines(result.lines())
        result.findings.print()
    return 0 if result.good else 1


def _batches(done: int, of: int, left_s: float) -> None:
    """Show the progress of the measurements."""
    show_line(f"{done} of {of} batches, about {_span(left_s)} left")


def _span(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return (
        f"{minutes // 60} h {minutes % 60} min"
        if minutes >= 60
        else f"{minutes} min {rest} s"
        if minutes
        else f"{rest} s"
    )
