"""An audit as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from softib.plural import counted
from softib.render.terminal import text

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["print_audit"]

STYLES = {"error": "red", "warning": "yellow", "info": ""}
OUTCOMES = {"stopped": "", "got through": "red", "not needed": "", "not tried": "yellow"}


def print_audit(a: dict[str, Any], console: Console) -> None:
    """Print the document ``a`` of :meth:`softib.Audit.to_json`."""
    if a["source"]:
        console.print(text(f"{a['source']}: {counted(a['ports'], 'end port')} answered", "bold"))
        for manager in a["managers"]:
            console.print(text(f"  manager {manager}"))
        console.print()
    for f in a["findings"]:
        console.print(text(f"{f['severity']:<8} {f['code']}", STYLES[f["severity"]]))
        console.print(text(f"  {f['message']}"))
        console.print(text(f"  {f['advice']}", "dim"))
    for one in a["attempts"]:
        console.print(text(f"{one['outcome']:<11} {one['attack']} ({one['clause']})", OUTCOMES[one["outcome"]]))
        console.print(text(f"  {one['seen']}"))
        if one["advice"]:
            console.print(text(f"  {one['advice']}", "dim"))
    for line in a["unjudged"]:
        console.print(text(f"not judged: {line}", "yellow"))
    if not a["findings"] and not a["unjudged"]:
        console.print(text("no finding"))
