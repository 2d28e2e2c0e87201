"""Subcommands that take a SOURCE and also have subcommands of their own: ``softib exporter pod``, and ``softib exporter
ledger pod``."""

from __future__ import annotations

import os
from typing import Any

import click

__all__ = ["VerbWithCommands"]


class VerbWithCommands(click.Group):
    """A subcommand with arguments and options. If its first argument names one of its own subcommands, that one is
    called."""

    allow_extra_args = False
    allow_interspersed_args = True

    def __init__(self, *args: Any, **attributes: Any):
        super().__init__(*args, **{"no_args_is_help": False, **attributes})

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Return the context of the subcommand, or of its own subcommand that the first argument names."""
        if args and args[0] in self.commands:
            return self.commands[args[0]].make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        self._refuse_misspelt(args)
        return super().make_context(info_name, args, parent, **extra)

    def _refuse_misspelt(self, args: list[str]) -> None:
        """Raise :class:`click.UsageError` for a first argument that is nearly one of the commands, unless a file or
        a running fabric has its name."""
        import softib
        from softib.errors import nearest

        word = args[0] if args else "-"
        if word.startswith("-") or os.path.exists(word):
            return
        similar = nearest(word, self.commands)
        if similar and word not in softib.running_fabrics():
            raise click.UsageError(
                f"no command {word!r}, and no fabric of this name is running; did you mean {', '.join(similar)}?"
            )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options of the subcommand itself; its own subcommands do not share them."""
        return click.Command.parse_args(self, ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Call the subcommand."""
        return click.Command.invoke(self, ctx)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return the usage of the subcommand; its help lists its own subcommands."""
        return click.Command.collect_usage_pieces(self, ctx)
