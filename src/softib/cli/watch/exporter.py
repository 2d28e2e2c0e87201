"""``softib exporter``: metrics for Prometheus."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from softib.cli.shared import completing
from softib.cli.shared.named_files import InputFile, OutputFolder
from softib.cli.shared.numbers import Number
from softib.cli.shared.options import json_option
from softib.cli.shared.output import Compiling, Listening, print_json, print_line, print_lines, print_notice
from softib.cli.shared.subcommands import VerbWithCommands

if TYPE_CHECKING:
    from softib import FaultLedger


@click.command(cls=VerbWithCommands)
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
@click.option("--every", type=Number(0.1), default=15.0, show_default=True, metavar="SECONDS", help="Between rounds.")
@click.option(
    "--window",
    type=Number(1.0),
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
    "leave_out",
    multiple=True,
    type=click.Choice(["details", "fec", "modules", "manager", "findings"]),
    help="Omit this from rounds and metrics; repeatable.",
)
@click.option("--shard", metavar="I/N", help="Only part I of the ports: N exporters share a large fabric.")
@click.option("--history", metavar="DIR", type=OutputFolder(), help="Keep every interval as Parquet in this directory.")
@click.option(
    "--keep-days",
    type=Number(0.0),
    default=30.0,
    show_default=True,
    help="Days to keep the history, and devices that are down; 0: unlimited.",
)
@click.option(
    "--to",
    "export_to",
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
    "--expect", metavar="FILE", type=InputFile(), help="The expected devices and cables: a cabling plan or a discovery."
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
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON with the address.")
def command(
    sources: tuple[str, ...],
    address: str,
    port: int,
    shard: str | None,
    once: bool,
    fabric: str | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Serve the counters of SOURCE at /metrics for Prometheus.

    SOURCE is a running fabric or umad:DEVICE. The counters of all ports are read at intervals in the background. A
    scrape returns the last complete reading; ports that did not answer are absent. With --once, SOURCE can also be one
    or two files from other tools (ibdiagnet's .db_csv, perfquery's output with --fabric …). docs/monitoring.md lists
    every metric.

    Known devices that are down keep their metrics (softib_device_up, softib_link_up, softib_port_state), even if the
    exporter is restarted, until they are up again or 'softib exporter forget SOURCE [NAME...]' removes them. Without
    NAME, it removes everything that is down; with NAME, only those devices and ports.

    \b
    softib exporter pod                        # a fabric of 'softib up'
    softib exporter umad:mlx5_0 --every 30     # hardware
    softib exporter pod --shard 2/4            # a quarter of the ports
    softib exporter forget pod leaf-2          # permanently removed
    softib exporter ledger pod                 # faults, since when, how often
    softib exporter repaired pod 'leaf-2[7]' --by ann --note 'new cable'
    softib exporter old.db_csv new.db_csv --once > /var/lib/node_exporter/ib.prom
    """
    import softib

    if once and as_json:
        raise click.UsageError("--once prints metrics in Prometheus' text form; leave out --json")
    softib.on_compiling(Compiling())
    if once and all(os.path.isfile(s) for s in sources):
        for name in ("history", "expect", "export_to", "shard"):
            if {**options, "shard": shard}[name]:
                typed = "to" if name == "export_to" else name
                raise softib.InputError(f"--{typed} needs rounds of a running fabric or umad:DEVICE; files have none")
        click.echo(softib.Exporter.text_of(*sources, names=options["names"], fabric=fabric), nl=False)
        return 0
    if len(sources) > 1 or fabric is not None:
        raise softib.InputError(f"{sources[-1]}: several sources, and --fabric, are for files with --once")
    (source,) = sources
    with softib.Exporter(
        source if shard is None else softib.Shard.parse(source, shard),
        softib.ExporterOptions(**options),
        address=address,
        port=0 if once else port,
        notice=print_notice,
    ) as exporter:
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


@command.command("forget", short_help="remove devices and ports that are down from the exporter's memory")
@click.argument("source", shell_complete=completing.fabrics)
@click.argument("names", nargs=-1, metavar="[NAME...]")
@json_option
def forget(source: str, names: tuple[str, ...], as_json: bool) -> int:
    """Remove from the memory of SOURCE's exporter what is down: all of it, or the devices and ports
    NAME (leaf-2, leaf-2[7], a GUID)."""
    import softib

    removed = softib.forget_down(source, *names)
    if as_json:
        print_json(removed.to_json())
    else:
        click.echo(f"forgot {', '.join(removed.ports)}" if removed.ports else "nothing is down")
    return 0


@command.command("ledger", short_help="past and present faults, and their repairs")
@click.argument("source", shell_complete=completing.fabrics)
@json_option
def ledger(source: str, as_json: bool) -> int:
    """Print past and present faults of SOURCE: since when, how often, and who repaired them."""
    import softib

    return _print_ledger(softib.fault_ledger(source), as_json)


@command.command("repaired", short_help="record the repair of cables or devices")
@click.argument("source", shell_complete=completing.fabrics)
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--by", required=True, metavar="NAME", help="The person who repaired it.")
@click.option("--note", default="", metavar="TEXT", help="What was done.")
@json_option
def repaired(source: str, names: tuple[str, ...], by: str, note: str, as_json: bool) -> int:
    """Record the repair of the cables or devices NAME (leaf-2, leaf-2[7]) of SOURCE: earlier counts
    no longer apply."""
    import softib

    return _print_ledger(softib.record_repair(source, *names, by=by, note=note), as_json)


def _print_ledger(result: FaultLedger, as_json: bool) -> int:
    if as_json:
        print_json(result.to_json())
    else:
        print_lines(result.lines() or ["nothing was wrong"])
    return 0
