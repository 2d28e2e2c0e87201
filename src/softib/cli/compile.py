"""``softib compile``: compile now what commands would compile at their first use."""

from __future__ import annotations

import time
from dataclasses import dataclass

import click

from softib.cli.output import print_json, print_notice, show_line
from softib.plural import counted
from softib.result import Result


@dataclass
class Compiled(Result):
    """Kernels that are compiled."""

    document = "compile"

    kernels: int
    """Compiled kernels in the folder now."""
    folder: str
    seconds: float


@click.command()
@click.option("--json", "as_json", is_flag=True, help="JSON alone on stdout.")
def command(as_json: bool) -> int:
    """Compile all kernels now: after an installation, in an image, before the tests of a CI.

    They are kept in ~/.cache/softib (SOFTIB_CACHE_DIR moves it), for this machine's kind of
    processor and these versions of Python, NumPy and Numba.
    """
    import softib

    began = time.monotonic()
    count, folder = softib.compile_kernels(show_line)
    seconds = time.monotonic() - began
    if as_json:
        print_json(Compiled(count, str(folder), round(seconds, 3)).to_json())
    else:
        print_notice(f"{counted(count, 'kernel')} in {folder}, {seconds:.0f} s")
    return 0
