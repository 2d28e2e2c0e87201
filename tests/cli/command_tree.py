"""Every command of the command line."""

from __future__ import annotations

import click


def commands(words: tuple[str, ...], command: click.Command):
    yield words, command
    if not isinstance(command, click.Group):
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        yield from commands((*words, name), command.get_command(context, name))
