"""``softib path``: the path of packets from one node to another."""

from __future__ import annotations

import re

import click

from softib.cli.shared import completing
from softib.cli.shared.options import Load, guid_file_options, json_option, routing_of, source_options, table_options
from softib.cli.shared.output import Steps, print_json, print_lines, print_problems
from softib.result import document

LID = re.compile(r"0x[0-9a-f]{1,4}|[0-9]{1,5}", re.IGNORECASE)
"""An argument A or B that is a LID. It is resolved after the bring-up, because ports have no LIDs earlier."""


@click.command()
@click.argument("source", shell_complete=completing.sources)
@click.argument("a", shell_complete=completing.nodes)
@click.argument("b", shell_complete=completing.nodes)
@json_option
@source_options
@guid_file_options
@table_options
def command(
    source: str,
    a: str,
    b: str,
    as_json: bool,
    engine: str | None,
    lfts: str | None,
    load: Load,
    guid_files: dict[str, str | None],
) -> int:
    """Show the path of packets from A to B on SOURCE hop by hop, with SL and VLs, and why they take it.

    A and B are nodes, ports (host-1[2], host-1:2 or host-1/2) or, as for ibtracert, LIDs; packets to a switch end at
    its port 0. The forwarding tables are those of the running fabric, of a dump (--lfts), or of an engine. Exit 1 if
    there is no path.
    """

    steps = Steps()
    fabric = load(source, steps)
    for end in (a, b):
        if not LID.fullmatch(end) and end not in fabric:
            fabric[end]  # raises an error for an unknown node before the bring-up
    routing = routing_of(fabric, engine, lfts, guid_files, steps)
    path = routing.path(a, b)
    if as_json:
        print_json(document("path", path))
    else:
        print_problems(routing.problems)
        print_lines(path.lines())
    return 1 if path.ended else 0
