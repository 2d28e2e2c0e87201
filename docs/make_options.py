"""Writes ``docs/options.md``, every option of every subcommand, from the help of the command line. A test fails when it
differs.

python docs/make_options.py
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from softib.cli.main import VERBS, cli

PAGE = Path(__file__).with_name("options.md")
HEAD = """# Options of the command line

<!-- written by docs/make_options.py from the help: do not edit -->

What `softib VERB --help` prints, verb by verb. What the verbs do with them is in [the command line](cli.md). Every verb also has
`--help`.
"""


def escaped(text: str) -> str:
    """``text`` in a cell of a Markdown table."""
    for mark in "\\|<*[":
        text = text.replace(mark, "\\" + mark)
    return " ".join(text.replace("``", "`").split())


def commands(command: click.Command, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    """The command, then those of its group, to any depth."""
    yield command, context
    for name in command.list_commands(context) if isinstance(command, click.Group) else []:
        part = command.get_command(context, name)
        assert part is not None
        yield from commands(part, click.Context(part, info_name=name, parent=context))


def section(command: click.Command, context: click.Context, level: int) -> list[str]:
    """Heading, usage and options of one command."""
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [f"{'#' * level} {context.command_path}", "", f"`{context.command_path} {usage}`", ""]
    records = [p.get_help_record(context) for p in command.get_params(context)]
    rows = [
        record for record in records if record is not None and record[0].startswith("-") and "--help" not in record[0]
    ]
    if rows:
        cells = [f"| `{name.replace('|', chr(92) + '|')}` | {escaped(text or '')} |" for name, text in rows]
        lines += ["| option | meaning |", "|---|---|", *cells, ""]
    return lines


def page() -> str:
    """The text of the page."""
    top = click.Context(cli, info_name="softib")
    lines = [HEAD]
    for verb in VERBS:
        command = cli.get_command(top, verb)
        assert command is not None
        for depth, (part, context) in enumerate(commands(command, click.Context(command, info_name=verb, parent=top))):
            lines += section(part, context, 3 if depth else 2)
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
