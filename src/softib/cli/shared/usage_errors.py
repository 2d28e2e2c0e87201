"""Usage errors in plain words: the option or argument, its error, and the fix."""

from __future__ import annotations

import re

import click

from softib.errors import nearest

__all__ = ["usage_text"]


def usage_text(error: click.ClickException) -> str:
    """Return one line for ``error``."""
    if isinstance(error, click.NoSuchOption):
        similar = nearest(error.option_name, error.possibilities or ())
        return f"no option {error.option_name}" + (
            f"; did you mean {', '.join(similar)}?" if similar else _help(error.ctx)
        )
    if isinstance(error, click.MissingParameter) and error.param is not None:
        kind = error.param.type
        choices = (
            f"; use one of {', '.join(map(str, kind.choices))}" if isinstance(kind, click.Choice) else _help(error.ctx)
        )
        return f"{_name(error.param)} is missing{choices}"
    if isinstance(error, click.BadOptionUsage) and "requires an argument" in error.message:
        return f"{error.option_name} needs a value"
    if isinstance(error, click.BadParameter) and error.param is not None:
        return f"{_name(error.param)}: {_value(error.param, error.message)}"
    message = " ".join(error.format_message().split())
    context = error.ctx if isinstance(error, click.UsageError) else None
    unknown = re.match("No such command '([^']*)'", message)
    if context is not None and isinstance(context.command, click.Group) and unknown:
        names = context.command.list_commands(context)
        similar = nearest(unknown[1], names)
        hint = f"did you mean {', '.join(similar)}?" if similar else f"there are {', '.join(names)}"
        return f"no command {unknown[1]!r} of {context.command_path}; {hint}"
    message = message.removeprefix("Got ")
    first = message[:1] if message[1:2].isupper() else message[:1].lower()  # GUID, LID
    return first + message[1:].removesuffix(".")


def _help(context: click.Context | None) -> str:
    return "" if context is None else f"; run '{context.command_path} --help'"


def _name(parameter: click.Parameter) -> str:
    """Return the name of an option or argument, for example ``--seed`` or ``SOURCE``."""
    if isinstance(parameter, click.Argument):
        return (
            parameter.human_readable_name.strip("[]{}.").split("|")[0].upper()
            if parameter.metavar
            else (parameter.name or "").upper()
        )
    return max(parameter.opts, key=len)


def _value(parameter: click.Parameter, message: str) -> str:
    """Return the part of Click's message that states the violated rule, without the quoted value before it."""
    message = message.removesuffix(".")
    kind, value = parameter.type, message.split("'")[1] if message.startswith("'") else message.split(" ")[0]
    if isinstance(kind, click.Choice) and " is not " in message:
        names = [str(c) for c in kind.choices]
        similar = nearest(value, names)
        return f"no choice {value!r}; " + (
            f"did you mean {', '.join(similar)}?" if similar else f"use one of {', '.join(names)}"
        )
    if isinstance(kind, click.IntRange | click.FloatRange) and " range " in message:
        low, high = kind.min, kind.max
        rule = (
            f"{low} to {high}"
            if None not in (low, high)
            else f"{low} or more"
            if low is not None
            else f"{high} or less"
        )
        return f"{value} is out of range; use {rule}"
    if " is not a valid " in message:
        return f"{value!r} is not a {'whole number' if 'integer' in message else 'number'}"
    return message
