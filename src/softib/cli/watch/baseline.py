"""``softib baseline``: the state of an accepted fabric, and changes since."""

from __future__ import annotations

from typing import Any

import click

from softib.cli.shared import completing
from softib.cli.shared.named_files import InputFile, OutputFile
from softib.cli.shared.options import all_option, every_option, json_option
from softib.cli.shared.output import Steps, print_json, print_problems, show_line
from softib.foreign_text import shown
from softib.plural import counted


@click.group()
def command() -> None:
    """Record an accepted fabric, and compare it later: measurements, error rates, topology,
    firmware, cables."""


def _options(function: Any) -> Any:
    function = click.option(
        "--accepted",
        metavar="RESULT",
        type=InputFile(),
        help="The measurements: the journal of softib accept, or its --json output.",
    )(function)
    function = click.option(
        "--rounds",
        type=click.IntRange(2),
        metavar="N",
        help="Readings of a running fabric or umad:DEVICE, for rates of error counters (default: none).",
    )(function)
    return every_option(function)


def _made(source: str, accepted: str | None, rounds: int | None, every: float) -> Any:
    import softib

    shown = lambda one: show_line(
        f"round: {counted(one['ports'], 'port')}, {counted(one['mads'], 'MAD')} in {one['seconds']:.1f} s"
    )
    return softib.baseline(source, accepted, rounds=rounds or 0, every=every, on_round=shown, steps=Steps())


@command.command()
@click.argument("file", type=OutputFile())
@click.argument("source", metavar="SOURCE|RESULT", shell_complete=completing.sources)
@_options
@json_option
def record(file: str, source: str, accepted: str | None, rounds: int | None, every: float, as_json: bool) -> int:
    """Write the state of SOURCE to FILE. A result of softib accept as SOURCE has only measurements.

    Example: softib baseline record friday.json pod --accepted friday.jsonl
    """
    recorded = _made(source, accepted, rounds, every)
    written = recorded.save(file)
    if as_json:
        print_json(written.to_json())
        return 0
    click.echo(shown(f"{file}: {repr(recorded).strip('<>')}"))
    return 0


@command.command()
@click.argument("file", type=InputFile())
@click.argument("source", metavar="SOURCE|RESULT|FILE", shell_complete=completing.sources)
@_options
@all_option
@json_option
def compare(
    file: str, source: str, accepted: str | None, rounds: int | None, every: float, every_finding: bool, as_json: bool
) -> int:
    """Show the differences from FILE. Exit 1 if there are warnings or errors. Measurements are
    compared with significance tests (signed ranks, corrected for the number of hosts), counters by
    rate, the rest as in softib diff.

    \b
    softib baseline compare friday.json pod --accepted monday.jsonl
    softib baseline compare friday.json monday.json
    """
    import softib

    before = softib.baseline(file)
    after = _made(source, accepted, rounds, every)
    changes, drift = before.compare(after), before.drift(after)
    if as_json:
        print_json(before.comparison(after))
        return 0 if changes.good else 1
    print_problems(changes.problems)
    for d in drift:
        click.echo(
            f"{d['test']}: {counted(d['pairs'], 'pair')}, median {100 * d['ratio']:.4g} % of the baseline, p = "
            f"{d['probability']:.2g}"
        )
    changes.print(every_finding)
    return 0 if changes.good else 1
