"""``softib audit``: audit the isolation of tenants and the protection of managers."""

from __future__ import annotations

import click

from softib.cli.shared import completing
from softib.cli.shared.named_files import InputFile
from softib.cli.shared.options import json_option, mkey_option
from softib.cli.shared.output import Steps, print_result


@click.command()
@click.argument("source", required=False, default="", shell_complete=completing.sources)
@mkey_option
@click.option(
    "--managers", metavar="F", type=InputFile(), help=("PortGUIDs that may run a subnet manager, one per line.")
)
@click.option("--sm-config", "options", metavar="F", type=InputFile(), help="The manager's options (opensm.conf).")
@click.option("--partitions", metavar="F", type=InputFile(), help="The manager's partitions.conf.")
@click.option("--rehearse", is_flag=True, help="Start a copy of SOURCE with these files, and attack the copy.")
@json_option
def command(
    source: str,
    mkey: int,
    managers: str | None,
    options: str | None,
    partitions: str | None,
    rehearse: bool,
    as_json: bool,
) -> int:
    """Audit the protection of SOURCE, a running fabric or umad:DEVICE, or of a manager's files:
    M_Keys, partitions and their enforcement, managers, subnet administration.

    Only Gets are sent to SOURCE. Exit 1 for a finding of severity warning or error, if something could not be checked,
    or if an attack on the copy succeeded.
    """
    import softib

    result = softib.audit(
        source,
        mkey=mkey,
        managers=managers,
        options=options,
        partitions=partitions,
        rehearse=rehearse,
        steps=Steps(),
    )
    print_result(result, as_json)
    return 0 if result.good else 1
