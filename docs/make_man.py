"""Writes the manual pages from the help of the command line: softib(1), and softib-COMMAND(1) for each subcommand.

python docs/make_man.py FOLDER
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
import time
from pathlib import Path

import click

from softib import __version__
from softib.cli.main import VERBS, cli

EXIT = """0 done; 1 the answer is bad news (only check, diagnose, diff and route say it); 2 usage, nothing readable, or an output that cannot be
written; 70 a bug in softib; 130 after Ctrl-C; 141 where the reader of the output left."""
ENVIRONMENT = {
    "XDG_RUNTIME_DIR": "Running fabrics are below softib/ in it.",
    "SOFTIB_CACHE_DIR": "Where compiled kernels are kept (default: ~/.cache/softib).",
    "SOURCE_DATE_EPOCH": "The date of an HTML report and of these pages, in seconds since 1970.",
}


def escaped(text: str) -> str:
    """``text`` for roff: a backslash, a hyphen that people copy, and a line that begins like a request."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("…", "...").replace("→", "->")
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in text.split("\n"))


def paragraphs(text: str) -> list[str]:
    """The help of a subcommand: paragraphs, and blocks after ``\\b`` as they stand."""
    out = []
    for part in re.split(r"\n\s*\n", text.strip()):
        if part.lstrip().startswith("\b"):
            out += [".PP", ".nf", escaped(textwrap.dedent(part.partition("\b")[2].strip("\n"))), ".fi"]
        else:
            out += [".PP", escaped(" ".join(part.replace("``", "").split()))]
    # The first paragraph of a section needs no request (mandoc calls it superfluous).
    return out[1:] if out[:1] == [".PP"] else out


def date() -> str:
    """Of the pages: SOURCE_DATE_EPOCH where it is set, so that a build can be repeated, or today."""
    return time.strftime("%Y-%m-%d", time.gmtime(float(os.environ.get("SOURCE_DATE_EPOCH") or time.time())))


def head(name: str, line: str) -> list[str]:
    """Title and NAME section."""
    return [
        f'.TH "{name.upper()}" "1" "{date()}" "softib {__version__}" "softib"',
        ".ad l",
        ".SH NAME",
        f"{escaped(name)} \\- {escaped(line)}",
    ]


def options(command: click.Command, context: click.Context) -> list[str]:
    """Each option as an item of a list."""
    lines = []
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            lines += [".TP", f"\\fB{escaped(record[0])}\\fR", escaped(record[1] or "")]
    return lines


def command_lines(command: click.Command, context: click.Context) -> list[str]:
    """Return SYNOPSIS, DESCRIPTION and OPTIONS, followed by those of a group's commands."""
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [".SH SYNOPSIS", f"\\fB{escaped(context.command_path)}\\fR {escaped(usage)}"]
    lines += [".SH DESCRIPTION", *paragraphs(command.help or ""), ".SH OPTIONS", *options(command, context)]
    for name in command.list_commands(context) if isinstance(command, click.Group) else []:
        part = command.get_command(context, name)
        assert part is not None
        below = click.Context(part, info_name=f"{context.info_name} {name}", parent=context.parent)
        usage = " ".join(part.collect_usage_pieces(below))
        lines += [
            f".SH {escaped(below.command_path.upper())}",
            f"\\fB{escaped(below.command_path)}\\fR {escaped(usage)}",
        ]
        lines += [*paragraphs(part.help or ""), *options(part, below)]
    return lines


def verb_page(verb: str) -> str:
    """softib-COMMAND(1)."""
    top = click.Context(cli, info_name="softib")
    command = cli.get_command(top, verb)
    assert command is not None
    lines = [
        *head(f"softib-{verb}", VERBS[verb]),
        *command_lines(command, click.Context(command, info_name=verb, parent=top)),
    ]
    lines += [".SH EXIT STATUS", escaped(" ".join(EXIT.split())), ".SH SEE ALSO", ".BR softib (1)"]
    return "\n".join(lines) + "\n"


def main_page() -> str:
    """softib(1): the verbs, SOURCE, exit codes, environment."""
    lines = [*head("softib", "InfiniBand in software"), ".SH SYNOPSIS", "\\fBsoftib\\fR COMMAND ... [options]"]
    lines += [".SH DESCRIPTION", *paragraphs(cli.help or ""), ".PP"]
    lines += [
        "SOURCE is a file of any known format (found by its content), a fabric.yaml, either of them compressed, \\- "
        "for standard"
    ]
    lines += ["input, or the name of a running fabric.", ".SH VERBS"]
    for verb, line in VERBS.items():
        lines += [".TP", f"\\fB{escaped(verb)}\\fR", f"{escaped(line)}; see \\fBsoftib\\-{escaped(verb)}\\fR(1)"]
    lines += [".SH EXIT STATUS", escaped(" ".join(EXIT.split())), ".SH ENVIRONMENT"]
    for name, text in ENVIRONMENT.items():
        lines += [".TP", f"\\fB{name}\\fR", escaped(text)]
    see = ", ".join(f"\\fBsoftib\\-{escaped(verb)}\\fR(1)" for verb in VERBS)
    return "\n".join([*lines, ".SH SEE ALSO", see]) + "\n"


def pages() -> dict[str, str]:
    """Text of every page by the name of its file."""
    return {"softib.1": main_page(), **{f"softib-{verb}.1": verb_page(verb) for verb in VERBS}}


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")
