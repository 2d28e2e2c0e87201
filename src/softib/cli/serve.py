"""``softib serve``: a fabric in a browser, and as REST."""

from __future__ import annotations

import contextlib
from pathlib import Path

import click

from softib.cli import completing
from softib.cli.output import print_notice


@click.command()
@click.argument("source", shell_complete=completing.sources)
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS",
              help="Address to serve on. Beyond loopback a token is needed.")  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535), metavar="PORT", help="Port (default: 8470; 0: a free one).")
@click.option("--token-file", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
              help="The token that clients must know, the first line of FILE; without it one is made where it is needed.")  # fmt: skip
@click.option(
    "--every",
    type=float,
    default=2.0,
    show_default=True,
    metavar="S",
    help="Read a running fabric again after S seconds.",
)
def command(source: str, host: str, port: int | None, token_file: str | None, every: float) -> int:
    """Show SOURCE in a browser until Ctrl-C: a map with loads, errors and findings, every node and path; REST below /api/v1.

    Nothing can be changed through it. The page loads nothing from outside.
    """
    import softib

    token = None
    if token_file is not None:
        token = (Path(token_file).read_text(encoding="utf-8").splitlines() or [""])[0].strip()
    with contextlib.suppress(KeyboardInterrupt):
        softib.serve(
            source, host=host, port=port, token=token, every=every, notice=print_notice,
            ready=lambda address: click.echo(f"softib: serving {source} at {address}", err=True),
        )  # fmt: skip
    return 0
