"""``softib sm check-config``: would OpenSM take this file?"""

from __future__ import annotations

import click

from softib.cli import completing
from softib.cli.output import print_json
from softib.foreign_text import shown


@click.command()
@click.argument("file", shell_complete=completing.files)
@click.option("--json", "as_json", is_flag=True, help="JSON alone on stdout.")
def command(file: str, as_json: bool) -> int:
    """Judge FILE as OpenSM 3.3.23 does: what it does not take as it is written, and what softib's
    manager does otherwise. FILE is an options file (opensm -F), torus-2QoS.conf, partitions.conf,
    qos-policy.conf, prefix routes, a file of GUIDs or a node-name-map, known by its content. Exit 1
    where OpenSM does not take all of it.
    """
    import softib

    found = softib.check_config(file)
    if as_json:
        print_json(found.to_json())
        return int(not found.good)
    verdict = (
        "OpenSM 3.3.23 takes it as it is written"
        if found.good
        else "OpenSM 3.3.23 does not take all of it as it is written"
    )
    click.echo(shown(f"{found.path}: {found.kind}; {verdict}"))
    for title, lines in (("OpenSM", found.opensm), ("softib", found.softib)):
        if lines:
            click.echo(title)
        for line in lines:
            click.echo(shown(f"  {line.removeprefix(f'{found.path}:').strip()}"))
    return int(not found.good)
