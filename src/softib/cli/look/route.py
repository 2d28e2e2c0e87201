"""``softib route``: forwarding tables, their proof and their quality."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from softib.cli.shared import completing
from softib.cli.shared.named_files import OutputFile, OutputFolder
from softib.cli.shared.options import Load, guid_file_options, json_option, routing_of, source_options, table_options
from softib.cli.shared.output import Steps, print_json, print_notice, print_problems

if TYPE_CHECKING:
    from softib import Fabric, Routing


@click.command()
@click.argument("source", shell_complete=completing.sources)
@click.option("--dump", metavar="F", type=OutputFile(), help="Write the tables in the format of dump_lfts.")
@click.option(
    "--guid-files",
    "write_to",
    metavar="DIR",
    type=OutputFolder(),
    help="If ftree rejects SOURCE, write GUID files with which it accepts SOURCE, and route with them.",
)
@json_option
@source_options
@guid_file_options
@table_options
def command(
    source: str,
    engine: str | None,
    lfts: str | None,
    dump: str | None,
    as_json: bool,
    load: Load,
    guid_files: dict[str, str | None],
    write_to: str | None,
) -> int:
    """Route SOURCE with an engine, or check tables from a file.

    Proves that every CA reaches every CA and switch, counts hops, and looks for credit loops
    (deadlock). Exit 1 if a pair has no path or a credit loop can form.
    """

    steps = Steps()
    fabric = load(source, steps)
    routing = routing_of(fabric, engine, lfts, guid_files, steps)
    if write_to:
        routing = _with_remedy(routing, fabric, write_to, steps)
    if dump:
        routing.save(dump)
    if as_json:
        print_json(routing.to_json())
    else:
        print_problems(routing.problems)
        routing.print()
        if dump:
            print_notice(f"tables written to {dump}")
    return 0 if routing.good else 1


def _with_remedy(routing: Routing, fabric: Fabric, folder: str, steps: Steps) -> Routing:
    """Write GUID files with which ftree accepts the fabric, and route with them."""
    import softib

    with steps("looking for roots"):
        remedy = routing.save_guid_files(folder)
    if remedy is None:
        print_notice("no GUID files written: ftree fits without them, or no choice of roots makes it fit")
        return routing
    arguments = " ".join(f"--{option} {path}" for option, path in remedy.files.items())
    print_notice(f"ftree does not fit ({remedy.reason}); it does with {arguments}")
    return softib.route(fabric, "ftree", guid_files=remedy.files, steps=steps)
