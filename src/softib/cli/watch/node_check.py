"""``softib node-check``: check whether this host is fit for a job."""

from __future__ import annotations

import click

from softib.cli.shared.named_files import InputFile, InputFolder, OutputFile
from softib.cli.shared.numbers import Number
from softib.cli.shared.options import json_option
from softib.cli.shared.output import print_notice, print_result


@click.command()
@click.option(
    "--root",
    metavar="DIR",
    type=InputFolder(),
    default="/",
    show_default=True,
    help="A copy of a host's files, or of its /sys/class/infiniband.",
)
@click.option(
    "--manifest",
    metavar="F",
    type=InputFile(),
    help="Expected state of the host (default: ports ACTIVE, PCIe links at full rate, ports equally fast).",
)
@click.option("--record", metavar="F", type=OutputFile(), help="Write the current state of the host as a manifest.")
@click.option("--state", metavar="F", type=OutputFile(), help="Store counters here, and compare with the last run.")
@click.option(
    "--timeout",
    metavar="S",
    type=Number(0.01),
    default=1.0,
    show_default=True,
    help="Time limit for reading the host's files in seconds.",
)
@click.option("--drain", is_flag=True, help="Drain the node in Slurm (scontrol) if there is a fault.")
@click.option(
    "--kubernetes", is_flag=True, help="Label the node passed or failed, and taint it NoSchedule if it failed."
)
@click.option("--api", metavar="URL", default="", help="--kubernetes: the API server (default: the pod's own).")
@click.option("--token", metavar="F", type=InputFile(), help="--kubernetes: a file with a bearer token.")
@click.option(
    "--node",
    metavar="NAME",
    default="",
    help="Its name in Slurm or Kubernetes (default: the host's short name).",
)
@json_option
def command(
    root: str,
    manifest: str | None,
    record: str | None,
    state: str | None,
    timeout: float,
    drain: bool,
    kubernetes: bool,
    api: str,
    token: str | None,
    node: str,
    as_json: bool,
) -> int:
    """Check this host's adapters in a second: state, rate, lanes, firmware, PCIe, GIDs, P_Keys, and
    counters since the last time.

    For a scheduler's prolog: exit 0 if everything matches the manifest, otherwise 1. Nothing is
    sent to the fabric.

    \b
    softib node-check --record good.yaml
    softib node-check --manifest good.yaml --state /var/lib/softib/node.json --drain
    """
    import softib

    if (api or token) and not kubernetes:
        raise click.UsageError("--api and --token are for --kubernetes; add it")
    result = softib.node_check(root, manifest=manifest, state=state, timeout=timeout)
    if record:
        result.record(record)
        print_notice(f"{record}: manifest")
    print_result(result, as_json)
    if drain and not result.good:
        result.drain(node)
        print_notice("drained in Slurm")
    if kubernetes and result.mark(node, api, token or ""):
        print_notice("marked in Kubernetes")
    return 0 if result.good else 1
