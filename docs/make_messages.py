"""Write the index of error messages and findings: python docs/make_messages.py FILE. The site has it as ``messages.md``.

Messages are read from the source: every text with which an error of :mod:`softib.errors` is raised. What a message
takes from the input is shown as …
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import softib.errors
from softib.errors import SoftibBug, SoftibError

PACKAGE = Path(softib.errors.__file__).parent
FINDINGS = Path(__file__).with_name("findings.md")
ERRORS = {
    name: kind
    for name, kind in vars(softib.errors).items()
    if isinstance(kind, type) and issubclass(kind, SoftibError) and not issubclass(kind, SoftibBug)
}
HEAD = """# Messages and findings

<!-- written by docs/make_messages.py -->

Search this page for a word of the line that you see. An error is one line on stderr: what is wrong, where, and what to do. The
exit code is 2. … is text of the input.

An unexpected error ("this is a bug in softib", exit code 70) leaves a traceback in a file: please report it with the file. "no X
named Y; did you mean Z?" and "KEY: VALUE: RULE" are about every name and key that softib reads.
"""
AREAS = {
    "agents": "Devices of a running fabric",
    "analysis": "Reports and acceptance",
    "api": "Python and options",
    "cli": "Command line",
    "cm": "Connection management",
    "diags": "Checks",
    "fabric": "Files and topologies",
    "host_facts": "Facts of hosts",
    "iba": "Devices and constants",
    "jit": "Kernels",
    "job_logs": "Logs of jobs",
    "live": "A running fabric",
    "mad": "Management datagrams",
    "monitor": "Counters and exporter",
    "plan": "Plan and price",
    "preload": "C libraries",
    "routing": "Routing",
    "scenario": "fabric.yaml at run time",
    "sim": "Simulation",
    "sm": "Subnet manager",
    "source": "SOURCE",
    "tenants": "Tenants",
    "ulp": "NVMe over Fabrics",
    "web": "Browser",
    "workloads": "Workloads",
}
OTHER = "Files in general"


def messages() -> dict[str, list[str]]:
    """Area → its messages, sorted."""
    areas: dict[str, set[str]] = defaultdict(set)
    for path in sorted(PACKAGE.rglob("*.py")):
        area = AREAS.get(path.relative_to(PACKAGE).parts[0], OTHER)
        areas[area].update(_texts(ast.parse(path.read_text("utf-8"))))
    return {area: sorted(texts, key=str.casefold) for area, texts in sorted(areas.items()) if texts}


def _texts(tree: ast.Module) -> Iterator[str]:
    """The texts of errors that ``tree`` makes."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ERRORS
            and len(node.args) == 1
        ):
            for text in _pieces(node.args[0]):
                plain = " ".join(text.split())
                if any(c.isalpha() for c in plain.replace("…", "")):
                    yield plain


def _pieces(node: ast.expr) -> Iterator[str]:
    """The text of an expression; both of a choice, … for what is computed."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(str(p.value) if isinstance(p, ast.Constant) else "…" for p in node.values)
    elif isinstance(node, ast.IfExp):
        yield from _pieces(node.body)
        yield from _pieces(node.orelse)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        for left in _pieces(node.left) or ["…"]:
            for right in _pieces(node.right) or ["…"]:
                yield left + right


def page() -> str:
    """The whole page."""
    parts = [HEAD, "\n## Findings\n\n[Findings](findings.md) has the rules and how each is judged.\n\n"]
    parts += ["| code | meaning | what to do |\n|---|---|---|\n", *findings()]
    for area, texts in messages().items():
        parts += [f"\n## {area}\n\n", *(f"* {_cell(text)}\n" for text in texts)]
    return "".join(parts)


def findings() -> list[str]:
    """Rows of the tables of docs/findings.md by code, without their severity."""
    rows = [line.split(" | ") for line in FINDINGS.read_text("utf-8").splitlines() if line.startswith("| `")]
    return [" | ".join([code, *rest]) + "\n" for code, _, *rest in sorted(rows) if len(rest) == 2]


def _cell(text: str) -> str:
    """``text`` in a table or list, as it stands."""
    for sign in "\\`*_<>[]|{}":
        text = text.replace(sign, f"\\{sign}")
    return text


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), "utf-8")
