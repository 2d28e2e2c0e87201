"""``softib doctor``, ``compile`` and ``completion``: check this machine, compile kernels, set up shell completion."""

from __future__ import annotations

import time
from dataclasses import dataclass

import click

from softib.cli.shared.options import json_option
from softib.cli.shared.output import print_json, print_notice, show_line
from softib.foreign_text import shown
from softib.plural import counted
from softib.result import Result, document

MARKS = {"ok": "ok     ", "absent": "absent ", "missing": "MISSING"}


@click.command()
@json_option
def doctor(as_json: bool) -> int:
    """Check what this machine can run, and how to fix what it cannot, one line each. ``absent``
    means one feature fewer; ``MISSING`` means that softib needs it. Exit 1 if something is MISSING.
    """
    import softib

    checks = softib.doctor()
    if as_json:
        print_json(document("doctor", checks=checks))
    else:
        width = max(len(one.name) for one in checks)
        for one in checks:
            fix = f"; {one.mend}" if one.mend else ""
            click.echo(shown(f"{MARKS[one.state]}  {one.name:{width}}  {one.what}{fix}"))
    return int(any(one.state == "missing" for one in checks))


@dataclass
class Compiled(Result):
    """The result of ``softib compile``."""

    document = "compile"

    kernels: int
    """Number of compiled kernels in the folder."""
    folder: str
    seconds: float


@click.command()
@json_option
def compile(as_json: bool) -> int:
    """Compile all kernels now, for example after installation, in a container image, or before the tests of a CI job.

    The compiled kernels are stored in ~/.cache/softib (or SOFTIB_CACHE_DIR). They are valid for this type of processor
    and the installed versions of Python, NumPy and Numba.
    """
    import softib

    began = time.monotonic()
    compiled = softib.compile_kernels(show_line)
    seconds = time.monotonic() - began
    if as_json:
        print_json(Compiled(compiled.kernels, str(compiled.folder), round(seconds, 3)).to_json())
    else:
        print_notice(f"{counted(compiled.kernels, 'kernel')} in {compiled.folder}, {seconds:.0f} s")
    return 0


SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> int:
    """Print the script with which SHELL completes subcommands, options, files, running fabrics and their nodes.

    \b
    bash:  eval "$(softib completion bash)"                 in ~/.bashrc
    zsh:   eval "$(softib completion zsh)"                  in ~/.zshrc, after compinit
    fish:  softib completion fish > ~/.config/fish/completions/softib.fish
    """
    from click.shell_completion import get_completion_class

    from softib.cli.main import COMPLETE, cli

    completion = get_completion_class(shell)
    assert completion is not None
    script = completion(cli, {}, "softib", COMPLETE)
    click.echo(script.source_template % script.source_vars())
    return 0
