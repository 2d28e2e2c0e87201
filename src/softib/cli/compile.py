"""``softib compile``: compile now what commands would compile at their first use."""

from __future__ import annotations

import time

import click

from softib.cli.output import print_notice, show_line


@click.command()
def command() -> int:
    """Compile all kernels now: after an installation, in an image, before the tests of a CI.

    They are kept in ~/.cache/softib (SOFTIB_CACHE_DIR moves it), for this machine's kind of processor and these versions
    of Python, NumPy and Numba.
    """
    import softib

    began = time.monotonic()
    count, folder = softib.compile_kernels(show_line)
    print_notice(f"{count} kernels in {folder}, {time.monotonic() - began:.0f} s")
    return 0
