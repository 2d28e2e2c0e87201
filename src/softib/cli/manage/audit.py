"""``softib audit``: audit the isolation of tenants and the protection of managers."""

from __future__ import annotations

import click

from softib.cli.shared import completing
from softib.cli.shared.named_files import InputFile
from softib.cli.shared.options import json_option
from softib.cli.shared.output import Steps, print_json


@click.command()
@click.argument("source", required=False, default="", shell_complete=completing.sources)
@click.option(
    "--mkey",
    metavar="KEY",
    default="0",
    help="Send requests like the manager, with its M_Key; default: like a host without one.",
)
@click.option(
    "--managers", metavar="F", type=InputFile(), help=("PortGUIDs that may run a subnet manager, one per line.")
)
@click.option("--sm-config", "options", metavar="F", type=InputFile(), help="The manager's options (opensm.conf).")
@click.option("--partitions", metavar="F", type=InputFile(), help="The manager's partitions.conf.")
@click.option("--rehearse", is_flag=True, help="Start a twin of SOURCE with these files, and attack it.")
@json_option
def command(
    source: str,
    mkey: str,
    managers: str | None,
    options: str | None,
    partitions: str | None,
    rehearse: bool,
    as_json: bool,
) -> int:
    """Audit the protection of SOURCE, a running fabric or umad:DEVICE, or of a manager's files:
    M_Keys, partitions and their enforcement, managers, subnet administration.

    Only Gets are sent to SOURCE. Exit 1 for a finding of severity warning or error, if something
    could not be checked, or if an attack on the twin succeeded.
    """
    import softib

    try:
        key = int(mkey, 0)
    except ValueError:
        raise click.UsageError(f"--mkey {mkey}: use a number, for example 0x1122334455667788") from None
    result = softib.audit(
        source,
        mkey=key,
        managers=managers,
        options=options,
        partitions=partitions,
        rehearse=rehearse,
        steps=Steps(),
    )
    if as_json:
        print_json(result.to_json())
    else:
        result.print()
    return 0 if result.good else 1
