"""``softib serve``: a fabric in a browser, with a REST API."""

from __future__ import annotations

import contextlib
import os
from typing import Any

import click

from softib.cli.shared import completing
from softib.cli.shared.named_files import InputFile, OutputFolder
from softib.cli.shared.options import mkey_option
from softib.cli.shared.output import Listening, Steps, print_line, print_notice
from softib.errors import InputError
from softib.input_files import read_text


@click.command()
@click.argument("source", shell_complete=completing.sources)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="Address to serve on. Beyond loopback a token is needed.",
)
@click.option("--port", type=click.IntRange(0, 65535), metavar="PORT", help="Port (default: 8470; 0: a free one).")
@click.option(
    "--token-file",
    type=InputFile(),
    metavar="FILE",
    help="The token of clients is the first line of FILE; without it a token is generated if needed.",
)
@click.option(
    "--every",
    type=click.FloatRange(0.2, 3600),
    default=2.0,
    show_default=True,
    metavar="S",
    help="Seconds from one round of MADs to the next.",
)
@click.option(
    "--jobs",
    type=InputFile(),
    metavar="FILE",
    help="Slurm's or Kubernetes' jobs, or YAML: coloured on the map, with the links that they share.",
)
@click.option(
    "--history",
    metavar="DIR|URL",
    help=(
        "A directory of softib exporter --history, or http://HOST:9090 of a Prometheus server, for the time before "
        "the start."
    ),
)
@click.option(
    "--tenants",
    type=OutputFolder(),
    metavar="DIR",
    help="Also serve partitions: UFM's REST below /ufmRest and softib's below /tenants/v1, kept in DIR.",
)
@click.option(
    "--partitions",
    type=InputFile(),
    metavar="FILE",
    help=(
        "With --tenants: the partitions.conf of an OpenSM that is the subnet's master; it then programs the partitions "
        "(default: softib's manager)."
    ),
)
@click.option(
    "--reload",
    metavar="COMMAND",
    help=(
        "With --partitions: program and arguments that make this OpenSM read the file again, for example 'kill -HUP "
        "PID'. "
        "No shell runs it: for $VAR, pipes and files with the PID, use \"sh -c '...'\"."
    ),
)
@click.option(
    "--managers",
    type=InputFile(),
    metavar="FILE",
    help="With --partitions: PortGUIDs of the managers that read it, one per line (default: the present master).",
)
@click.option(
    "--certificate",
    type=InputFile(),
    metavar="FILE",
    help="With --tenants: PEM of the certificate and its key for TLS; beyond loopback one is generated.",
)
@click.option(
    "--client-ca",
    type=InputFile(),
    metavar="FILE",
    help="With --tenants: PEM of the CA whose client certificates name accounts.",
)
@mkey_option
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON on stdout with the address.")
def command(
    source: str,
    host: str,
    port: int | None,
    token_file: str | None,
    every: float,
    jobs: str | None,
    history: str | None,
    tenants: str | None,
    partitions: str | None,
    reload: str | None,
    managers: str | None,
    certificate: str | None,
    client_ca: str | None,
    mkey: int,
    as_json: bool,
) -> int:
    """Show SOURCE in a browser until Ctrl-C: a map with loads, errors, findings and jobs, every
    node and path; REST below /api/v1.

    SOURCE is a running fabric or umad:DEVICE, whose counters are read by MADs every --every
    seconds, or a file, which is read once.

    Without --tenants it is read-only. The page loads no external resources.
    """
    import softib

    token = None
    if token_file is not None:
        token = (read_text(token_file, "file of a token").splitlines() or [""])[0].strip()
        if not token:
            raise InputError(f"{token_file}: no token in its first line; use one of at least 16 characters")
    shown: dict[str, Any] = {
        "host": host,
        "port": port,
        "token": token,
        "every": every,
        "jobs": jobs,
        "history": history,
        "notice": print_notice,
        "ready": _Ready(source, as_json),
    }
    with contextlib.suppress(KeyboardInterrupt):
        if tenants is not None:
            options = softib.TenantOptions(tenants, partitions, reload, managers, certificate, client_ca, mkey)
            softib.serve_tenants(source, options, **shown)
        elif partitions or reload or managers or certificate or client_ca:
            raise InputError("--partitions, --reload, --managers, --certificate and --client-ca need --tenants DIR")
        else:
            if mkey:
                os.environ["SOFTIB_MKEY"] = hex(mkey)
            softib.serve(source, steps=Steps(), **shown)
    return 0


class _Ready:
    """Prints the server's address, as a line of text on stderr or of JSON on stdout."""

    def __init__(self, source: str, as_json: bool):
        self.source, self.as_json = source, as_json

    def __call__(self, address: str) -> None:
        if self.as_json:
            print_line(Listening("serve", self.source, address, os.getpid()))
        else:
            click.echo(f"softib: serving {self.source} at {address}", err=True)
