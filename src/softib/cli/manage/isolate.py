"""``softib isolate``: take bad cables out of use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from softib.cli.shared import completing
from softib.cli.shared.clock import clock
from softib.cli.shared.named_files import InputFile
from softib.cli.shared.observed import observed_fabric
from softib.cli.shared.options import every_option, json_option, mkey_option, rounds_option
from softib.cli.shared.output import Compiling, Steps, print_json, print_lines, print_notice
from softib.cli.shared.subcommands import VerbWithCommands

if TYPE_CHECKING:
    from collections.abc import Callable

    from softib import Isolation, IsolationLedger


def ufm_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--ufm`` and ``--ufm-credentials``."""
    ufm = click.option(
        "--ufm",
        metavar="URL",
        help="Address of the UFM server that disables and enables the ports, for example https://HOST.",
    )
    credentials = click.option(
        "--ufm-credentials",
        type=InputFile(),
        metavar="FILE",
        help="With --ufm: a file whose first line is a token, or NAME:PASSWORD.",
    )
    return ufm(credentials(command))


def _ufm(url: str | None, credentials: str | None) -> tuple[str, str] | None:
    """Return URL and credentials; None if the options are not given."""
    if (url is None) != (credentials is None):
        raise click.UsageError("--ufm and --ufm-credentials must be used together")
    return None if url is None or credentials is None else (url, credentials)


@click.command(cls=VerbWithCommands)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...", shell_complete=completing.sources)
@click.option("--shadow/--act", default=True, help="Only show the actions, or carry them out. [default: shadow]")
@click.option(
    "--budget",
    type=click.IntRange(0),
    metavar="N",
    help="Maximum number of isolated cables (default, and upper limit: max(10, 0.5 %)).",
)
@click.option(
    "--hold",
    type=click.FloatRange(1.0),
    default=3600.0,
    show_default=True,
    metavar="SECONDS",
    help="Time until an isolated cable is enabled for a trial; doubled after each failed trial.",
)
@rounds_option
@every_option
@click.option("--since", metavar="TIME", help="If SOURCE is a history: the start time, as in softib diagnose.")
@click.option(
    "--fabric",
    metavar="SOURCE",
    shell_complete=completing.sources,
    help="The fabric, if SOURCE is a history or files.",
)
@mkey_option
@ufm_options
@click.option(
    "--thresholds", type=InputFile(), metavar="FILE", help="Thresholds that replace the built-in ones (YAML)."
)
@json_option
def command(sources: tuple[str, ...], as_json: bool, **options: Any) -> int:
    """Isolate the cables that softib diagnose proposes: disable a switch port, check that the manager routes around the
    cable, and enable the port again when the reason no longer exists.

    Only cables between switches are isolated, never the last path between two hosts, and never more than the budget.
    Each switch keeps half of its cables to other switches. Works with softib's manager and with OpenSM. Exit 1 when a
    finding proposes to isolate a cable.

    \b
    softib isolate pod --rounds 5 --every 60          # what would be done
    softib isolate pod --act --rounds 5 --every 60    # do it; run it again from a timer
    softib isolate kept/ --fabric pod --since 20m --act
    softib isolate ledger pod                         # what was done, and why
    softib isolate release pod 'leaf-2[7]'            # enable it now
    """
    import softib

    ufm = _ufm(options["ufm"], options["ufm_credentials"])
    softib.on_compiling(Compiling())
    fabric = options["fabric"]
    seen = softib.observe(
        *sources,
        rounds=options["rounds"],
        every=options["every"],
        fabric=fabric,
        since=clock("--since", options["since"]),
    )
    for problem in seen.problems:
        print_notice(str(problem))
    result = softib.isolate(
        seen,
        observed_fabric(sources, fabric),
        act=not options["shadow"],
        budget=options["budget"],
        hold=options["hold"],
        mkey=options["mkey"],
        ufm=ufm,
        thresholds=options["thresholds"],
        steps=Steps(),
    )
    _show(result, as_json)
    return 0 if result.good else 1


@command.command("ledger", short_help="past and present isolations, and their reasons")
@click.argument("source", shell_complete=completing.sources)
@json_option
def ledger(source: str, as_json: bool) -> int:
    """List the isolations on SOURCE, the newest first, with their reasons."""
    import softib

    _show(softib.isolations(source), as_json, "nothing was isolated")
    return 0


@command.command("release", short_help="enable isolated cables again")
@click.argument("source", shell_complete=completing.sources)
@click.argument("ports", nargs=-1, metavar="[PORT...]")
@mkey_option
@ufm_options
@json_option
def release(
    source: str, ports: tuple[str, ...], mkey: int, ufm: str | None, ufm_credentials: str | None, as_json: bool
) -> int:
    """Enable isolated cables of SOURCE again: all of them, or those with an end PORT (leaf-2[7])."""
    import softib

    through = _ufm(ufm, ufm_credentials)
    softib.on_compiling(Compiling())
    _show(softib.release_isolated(source, *ports, mkey=mkey, ufm=through), as_json, "no cable is isolated")
    return 0


def _show(result: Isolation | IsolationLedger, as_json: bool, nothing: str = "") -> None:
    if as_json:
        print_json(result.to_json())
    else:
        print_lines(result.lines() or [nothing])
