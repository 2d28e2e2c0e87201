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
    ufm = click.option("--ufm", metavar="URL", help="UFM disables and enables the ports: https://HOST.")
    credentials = click.option(
        "--ufm-credentials",
        type=InputFile(),
        metavar="FILE",
        help="For --ufm: a token, or NAME:PASSWORD, in the first line.",
    )
    return ufm(credentials(command))


def _ufm(url: str | None, credentials: str | None) -> tuple[str, str] | None:
    """Return both options, None without them."""
    if (url is None) != (credentials is None):
        raise click.UsageError("--ufm and --ufm-credentials need each other")
    return None if url is None or credentials is None else (url, credentials)


@click.command(cls=VerbWithCommands)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...", shell_complete=completing.sources)
@click.option("--shadow/--act", default=True, help="Show what would be done, or do it.  [default: shadow]")
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
    help="Time until a cable is enabled for a trial; doubled each time.",
)
@rounds_option
@every_option
@click.option("--since", metavar="TIME", help="For a history: start time, as in softib diagnose.")
@click.option(
    "--fabric",
    metavar="SOURCE",
    shell_complete=completing.sources,
    help="The fabric, if SOURCE is a history or files.",
)
@mkey_option
@ufm_options
@click.option("--thresholds", type=InputFile(), metavar="FILE", help="Other thresholds than the shipped ones, YAML.")
@json_option
def command(sources: tuple[str, ...], as_json: bool, **options: Any) -> int:
    """Isolate the cables that softib diagnose proposes to isolate: disable a switch port, check
    that the manager routes around it, and enable it again when the reason has ended.

    Only cables between switches; never the last path between two hosts; never more than the budget;
    each switch keeps half of its cables to other switches. Works with softib's manager and with
    OpenSM. Exit 1 when a finding proposes to isolate a cable.

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


@command.command("ledger", short_help="isolations until now, and their reasons")
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
