"""``softib sm explain``: why packets take the path they take."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from softib.cli.output import print_json, printable

if TYPE_CHECKING:
    from softib.analysis.path_explanation import Explanation
    from softib.live.instances import Instance


@click.command()
@click.argument("a")
@click.argument("b")
@click.option("--fabric", metavar="N", help="The running fabric (default: the only one).")
@click.option("--json", "as_json", is_flag=True, help="JSON alone on stdout.")
def command(a: str, b: str, fabric: str | None, as_json: bool) -> int:
    """Why packets from node A to node B take the path they take: the forwarding tables hop by hop, SL and VLs, what else was
    possible, and what would change it. A port of its own is NODE:PORT. Exit 1 where no path leads there.
    """
    from softib.analysis.path_explanation import explain
    from softib.errors import PeerError
    from softib.fabric.node_finder import NodeFinder
    from softib.live.control.client import ask
    from softib.live.instances import find
    from softib.live.snapshot import read

    instance = find(fabric)
    result = read(instance)
    finder = NodeFinder(result.fabric)
    ports = finder.port(a), finder.port(b)
    manager = ask(instance, "status")["sm"]
    engine = manager.get("engine_used") or manager.get("engine") or f"the engine of the {manager['kind']} manager"
    sl, source = 0, "the subnet administration says it"
    try:
        sl = _sl(instance, *(int(result.fabric.lid[p]) for p in ports))
    except PeerError as error:
        source = f"assumed: {error}"
    found = explain(result.fabric, *ports, engine, sl, source)
    if as_json:
        print_json(found.as_dict())
    else:
        _print(found)
    return 1 if found.ended else 0


def _sl(instance: Instance, slid: int, dlid: int) -> int:
    from softib.live.sa_client.one_path import path_sl

    return path_sl(instance, slid, dlid)


def _print(found: Explanation) -> None:
    lines = [
        f"{found.a} (LID {found.slid}) to {found.b} (LID {found.dlid}); engine {found.engine}; SL {found.sl} ({found.sl_source})"
    ]
    for hop in found.hops:
        came = "" if hop.in_port is None else f"in {hop.in_port}, "
        lines.append(f"  {hop.node}: {came}out {hop.out_port} -> {hop.to}[{hop.to_port}], VL {hop.vl}")
    lines += [f"  {found.ended}"] if found.ended else []
    lines += ["why", *(f"  {r}" for r in found.reasons)] if found.reasons else []
    lines += ["what would change it", *(f"  {c}" for c in found.changes)] if found.changes else []
    for line in lines:
        click.echo(printable(line))
