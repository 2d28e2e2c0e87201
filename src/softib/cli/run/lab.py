"""``softib lab``: laboratories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from softib.cli.shared.options import json_option
from softib.cli.shared.output import print_json, print_lines, print_result
from softib.result import Result

if TYPE_CHECKING:
    from softib import Lab


@dataclass
class Laboratories(Result):
    """All laboratories."""

    document = "labs"

    labs: list[Lab]


@click.command()
@click.argument("number", required=False, type=str)
@click.option("--check", is_flag=True, help="Judge the answers and repairs in the laboratory's folder.")
@json_option
def command(number: str | None, check: bool, as_json: bool) -> int:
    """List the laboratories, or start laboratory NUMBER: write a folder with a fabric, commands to try, and a question.

    Each wrong --check shows one more hint. Exit 1 until the laboratory is solved. 'softib serve' has the laboratories
    too.

    \b
    softib lab                                # all of them
    softib lab 1                              # writes lab-01 here
    softib lab 1 --check
    """
    import softib

    if number is not None and not number.isdecimal():
        raise click.UsageError(f"{number!r} is not the number of a laboratory; 'softib lab' lists them")
    if number is None:
        if check:
            raise click.UsageError("--check needs the NUMBER of a laboratory")
        return _list(as_json)
    lab = softib.lab(int(number))
    if check:
        result = lab.check()
        print_result(result, as_json)
        return 0 if result.right else 1
    lab.begin()
    print_result(lab, as_json)
    return 0


def _list(as_json: bool) -> int:
    import softib

    labs = softib.labs()
    if as_json:
        print_json(Laboratories(labs).to_json())
    else:
        print_lines([f"{one.number:2}  {one.title}" for one in labs])
    return 0
