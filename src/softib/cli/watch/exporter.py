"""``softib exporter``: metrics for Prometheus."""

from __future__ import annotations

from dataclasses import dataclass

import click

from softib.cli.shared import completing
from softib.cli.shared.named_files import InputFile, OutputFolder
from softib.cli.shared.output import Compiling, Listening, print_json, print_line, print_notice
from softib.result import Result


@dataclass
class Forgotten(Result):
    """Result of forget."""

    document = "forget"

    ports: list[str]


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...", shell_complete=completing.fabrics)
@click.option("--port", type=click.IntRange(0, 65535), default=9315, show_default=True, help="TCP port; 0: a free one.")
@click.option("--address", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0: all addresses.")
@click.option(
    "--names",
    type=click.Choice(["treydock", "guilbaults"]),
    default="treydock",
    show_default=True,
    help="Scheme of the ports' metric names and labels; data is in bytes in both.",
)
@click.option(
    "--every", type=click.FloatRange(0.1), default=15.0, show_default=True, metavar="SECONDS", help="Between rounds."
)
@click.option(
    "--window",
    type=click.FloatRange(1.0),
    default=3600.0,
    show_default=True,
    metavar="SECONDS",
    help="Maximum time covered by error ratios.",
)
@click.option(
    "--in-flight",
    type=click.IntRange(1, 64),
    default=4,
    show_default=True,
    help=("Maximum outstanding requests per device."),
)
@click.option(
    "--no-collector",
    "no_collectors",
    multiple=True,
    type=click.Choice(["details", "fec", "modules", "manager", "findings"]),
    help="Omit this from rounds and metrics; repeatable.",
)
@click.option("--shard", metavar="I/N", help="Only part I of the ports: N exporters share a large fabric.")
@click.option("--history", metavar="DIR", type=OutputFolder(), help="Keep every interval as Parquet in this directory.")
@click.option(
    "--keep-days",
    type=click.FloatRange(0.0),
    default=30.0,
    show_default=True,
    help="Days to keep the history, and devices that are down; 0: unlimited.",
)
@click.option(
    "--to",
    multiple=True,
    metavar="NAME=TARGET",
    help="Also pass every round to an installed package's exporter; repeatable.",
)
@click.option(
    "--jobs",
    type=InputFile(),
    metavar="FILE",
    help="Slurm's or Kubernetes' jobs, or YAML: findings name those that cross them.",
)
@click.option(
    "--expect", metavar="FILE", type=InputFile(), help="A plan or a discovery whose devices and cables are expected."
)
@click.option(
    "--once", is_flag=True, help="Print the metrics of one second, or of files, and exit (for a textfile collector)."
)
@click.option(
    "--fabric",
    metavar="SOURCE",
    shell_complete=completing.sources,
    help="The fabric for files that contain only counters.",
)
@click.option("--by", metavar="NAME", help="repaired: who repaired it.")
@click.option("--note", default="", metavar="TEXT", help="repaired: what was done.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON on stdout: the address, the result of forget, or the ledger."
)
def command(
    sources: tuple[str, ...],
    port: int,
    address: str,
    names: str,
    every: float,
    window: float,
    in_flight: int,
    no_collectors: tuple[str, ...],
    shard: str | None,
    history: str | None,
    keep_days: float,
    to: tuple[str, ...],
    jobs: str | None,
    expect: str | None,
    once: bool,
    fabric: str | None,
    by: str | None,
    note: str,
    as_json: bool,
) -> int:
    """Serve the counters of SOURCE at /metrics for Prometheus.

    SOURCE is a running fabric or umad:DEVICE. Rounds of Gets are read in the background; a scrape
    returns the last one, without ports that did not answer. With --once also one or two files that
    others collected (ibdiagnet's .db_csv, perfquery's output with --fabric …). docs/monitoring.md
    lists every metric.

    Known devices that are down stay (softib_device_up, softib_link_up, softib_port_state), also
    when the exporter is restarted, until it comes back or 'softib exporter forget SOURCE [NAME...]'
    removes it: everything that is down, or the devices and ports named.

    \b
    softib exporter pod                        # a fabric of 'softib up'
    softib exporter umad:mlx5_0 --every 30     # hardware
    softib exporter pod --shard 2/4            # a quarter of the ports
    softib exporter forget pod leaf-2          # permanently removed
    softib exporter ledger pod                 # faults, since when, how often
    softib exporter repaired pod 'leaf-2[7]' --by ann --note 'new cable'
    softib exporter old.db_csv new.db_csv --once > /var/lib/node_exporter/ib.prom
    """
    import os

    import softib

    if once and as_json:
        raise click.UsageError("--once prints metrics in Prometheus' text form; leave out --json")
    softib.on_compiling(Compiling())
    if sources[0] == "forget":
        if len(sources) == 1:
            raise softib.InputError("forget: add the SOURCE of the exporter: softib exporter forget SOURCE [NAME...]")
        ports = softib.Exporter.forget(*sources[1:])
        if as_json:
            print_json(Forgotten(ports).to_json())
            return 0
        click.echo(f"forgot {', '.join(ports)}" if ports else "nothing is down")
        return 0
    if sources[0] in ("ledger", "repaired"):
        _ledger(sources, by, note, as_json)
        return 0
    if by is not None or note:
        raise softib.InputError("--by and --note need 'softib exporter repaired SOURCE NAME...'")
    if once and all(os.path.isfile(s) for s in sources):
        needs_rounds = (("--history", history), ("--expect", expect), ("--to", to), ("--shard", shard))
        of_rounds = [name for name, value in needs_rounds if value]
        if of_rounds:
            raise softib.InputError(f"{of_rounds[0]} needs rounds of a running fabric or umad:DEVICE; files have none")
        click.echo(softib.Exporter.text_of(*sources, names=names, fabric=fabric), nl=False)
        return 0
    if len(sources) > 1 or fabric is not None:
        raise softib.InputError(f"{sources[-1]}: several sources, and --fabric, are for files with --once")
    source = sources[0]
    exporter = softib.Exporter(
        source if shard is None else softib.Shard.parse(source, shard),
        address=address,
        port=0 if once else port,
        names=names,
        every=every,
        window=window,
        history=history,
        keep_days=keep_days,
        in_flight=in_flight,
        notice=print_notice,
    )
    with exporter:
        exporter.leave_out(*no_collectors)
        exporter.export_to(*to)
        if jobs is not None:
            exporter.follow_jobs(jobs)
        if expect is not None:
            exporter.expect(expect)
        if once:
            click.echo(exporter.once(), nl=False)
            return 0
        exporter.start()
        if as_json:
            print_line(Listening("exporter", source, exporter.url, os.getpid()))
        else:
            print_notice(f"{source}: {exporter.url}")
        exporter.serve()
    return 0


def _ledger(sources: tuple[str, ...], by: str | None, note: str, as_json: bool) -> None:
    """``exporter ledger`` and ``exporter repaired``."""
    import softib

    verb, *rest = sources
    if verb == "ledger":
        if len(rest) != 1:
            raise softib.InputError("ledger: add the SOURCE of the exporter: softib exporter ledger SOURCE")
        result = softib.Exporter.ledger(rest[0])
    else:
        if len(rest) < 2 or by is None:
            raise softib.InputError(
                "repaired: add the SOURCE, the repaired parts, and the person: softib exporter repaired SOURCE NAME... "
                "--by NAME"
            )
        result = softib.Exporter.repaired(rest[0], *rest[1:], by=by, note=note)
    if as_json:
        print_json(result.to_json())
        return
    for line in result.lines() or ["nothing was wrong"]:
        click.echo(line)
