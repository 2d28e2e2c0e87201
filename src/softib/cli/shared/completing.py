"""Shell completion of files, running fabrics, and names of their nodes. Shells call it through
Click (``softib completion``)."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from softib.errors import SoftibError

__all__ = ["engines", "fabrics", "files", "nodes", "sources"]


def files(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return paths."""
    return [CompletionItem(incomplete, type="file")]


def engines(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the routing engines that complete the word. In a list ``a,b``, complete the last item."""
    import softib

    before, comma, prefix = incomplete.rpartition(",")
    return [CompletionItem(f"{before}{comma}{name}") for name in softib.engines() if name.startswith(prefix)]


def fabrics(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return names of running fabrics."""
    import softib

    try:
        names = softib.running_fabrics()
    except SoftibError:
        return []
    return [CompletionItem(one.name) for one in names if one.name.startswith(incomplete)]


def sources(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return running fabrics and files, for SOURCE."""
    return [*fabrics(context, parameter, incomplete), *files(context, parameter, incomplete)]


def nodes(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the nodes of the running fabric that ``--fabric`` names, or of the only running fabric. In a list
    ``a,b,c``, complete the last item.
    """
    import softib

    before, comma, prefix = incomplete.rpartition(",")
    try:
        names = softib.RunningFabric(context.params.get("fabric")).nodes(prefix)
    except SoftibError:
        return []
    return [CompletionItem(f"{before}{comma}{name}") for name in names]
