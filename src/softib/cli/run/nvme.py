"""``softib nvme``: the initiator of NVMe over Fabrics."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from softib.cli.shared import completing
from softib.cli.shared.named_files import InputFile, OutputFile
from softib.cli.shared.options import json_option
from softib.cli.shared.output import Compiling, print_json, print_lines, print_notice, print_result

if TYPE_CHECKING:
    from softib import NvmeDisk

R = TypeVar("R")
UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


class Size(click.ParamType):
    """A number of bytes: 4096, 128k, 1G (powers of 1,024)."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number of bytes."""
        if isinstance(value, int):
            return value
        text = value.strip().lower().removesuffix("ib")
        number, unit = (text[:-1], text[-1:]) if text[-1:] in UNITS else (text, "")
        if not (number.isascii() and number.isdigit()) or len(number) > 18:
            self.fail(f"{value!r} is not a size; use for example 4096, 128k or 1G", param, ctx)
        return int(number) * UNITS[unit]


SIZE = Size()
offset_option = click.option(
    "--offset", type=SIZE, default=0, metavar="BYTES", help="First byte (default: 0), a multiple of the block size."
)


@click.group()
def command() -> None:
    """Use the namespaces of an NVMe over Fabrics target: list, read, write, compare, measure,
    export.

    \b
    softib run --node host-0002 -- softib nvme list 127.64.1.135

    ADDRESS is the target's $SOFTIB_ADDRESS, optionally with :PORT. All ports in the target's discovery log page are
    used, the optimized ones first.
    """


def _disk_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        json_option,
        click.option(
            "--namespace", type=click.IntRange(1), default=1, show_default=True, metavar="N", help="The namespace."
        ),
        click.option("--nqn", metavar="NQN", help="The subsystem (default: the target's only one)."),
        click.argument("address", metavar="ADDRESS[:PORT]"),
    ):
        function = option(function)
    return function


def _connect(address: str, nqn: str | None, namespace: int, **more: int) -> NvmeDisk:
    import softib

    softib.on_compiling(Compiling())
    return softib.nvme_connect(address, nqn=nqn, namespace=namespace, notice=print_notice, **more)


def _timed(transfer: Callable[..., R], *arguments: Any) -> tuple[float, R]:
    """Return the duration of the transfer in seconds, excluding the disconnection, and its result."""
    began = time.monotonic()
    result = transfer(*arguments)
    return time.monotonic() - began, result


def _print(operation: str, offset: int, size: int, seconds: float, as_json: bool, equal: bool | None = None) -> None:
    from softib import NvmeTransfer

    result = NvmeTransfer(operation, offset, size, round(seconds, 6), equal)  # type: ignore[arg-type]
    if as_json:
        print_json(result.to_json())
    else:
        print_notice(result.line())


@command.command()
@click.argument("address", metavar="ADDRESS[:PORT]")
@json_option
def discover(address: str, as_json: bool) -> int:
    """List the subsystems of a target, and the ports that serve each."""
    import softib

    softib.on_compiling(Compiling())
    listing = softib.nvme_discover(address)
    print_result(listing, as_json)
    return 0


@command.command()
@_disk_options
def list(address: str, nqn: str | None, namespace: int, as_json: bool) -> int:
    """Connect, and list paths and namespaces."""
    with _connect(address, nqn, namespace) as disk:
        description = disk.describe()
    print_result(description, as_json)
    return 0


@command.command()
@_disk_options
@offset_option
@click.option("--size", type=SIZE, metavar="BYTES", help="Number of bytes (default: all from --offset to the end).")
@click.option("--to", metavar="FILE", type=OutputFile(), help="Write the bytes to FILE (default: stdout).")
def read(
    address: str, nqn: str | None, namespace: int, as_json: bool, offset: int, size: int | None, to: str | None
) -> int:
    """Read bytes of a namespace."""
    if to is None and as_json:
        raise click.UsageError("--json and the bytes cannot share stdout; add --to FILE")
    with _connect(address, nqn, namespace) as disk:
        seconds, count = _timed(disk.read_file, "-" if to is None else to, offset, size)
    _print("read", offset, count, seconds, as_json)
    return 0


@command.command()
@_disk_options
@click.argument("file", metavar="FILE", type=InputFile(), shell_complete=completing.files)
@offset_option
@click.option("--through", is_flag=True, help="Return when the data is on the medium (FUA).")
def write(address: str, nqn: str | None, namespace: int, as_json: bool, file: str, offset: int, through: bool) -> int:
    """Write FILE (- for stdin) into a namespace."""
    with _connect(address, nqn, namespace) as disk:
        seconds, size = _timed(disk.write_file, file, offset, through)
    _print("write", offset, size, seconds, as_json)
    return 0


@command.command()
@_disk_options
@click.argument("file", metavar="FILE", type=InputFile(), shell_complete=completing.files)
@offset_option
def compare(address: str, nqn: str | None, namespace: int, as_json: bool, file: str, offset: int) -> int:
    """Let the target compare FILE with a namespace. Exit code 1 if they differ."""
    with _connect(address, nqn, namespace) as disk:
        seconds, compared = _timed(disk.compare_file, file, offset)
    _print("compare", offset, compared.size, seconds, as_json, compared.equal)
    return 0 if compared.equal else 1


@command.command()
@_disk_options
@offset_option
@click.option("--size", type=SIZE, metavar="BYTES", help="Number of bytes (default: all from --offset to the end).")
@click.option("--deallocate", is_flag=True, help="Release the space in the target's file.")
def zero(
    address: str, nqn: str | None, namespace: int, as_json: bool, offset: int, size: int | None, deallocate: bool
) -> int:
    """Write zeroes into a namespace."""
    with _connect(address, nqn, namespace) as disk:
        count = disk.size - offset if size is None else size
        seconds, _ = _timed(disk.zero, offset, count, deallocate)
    _print("zero", offset, count, seconds, as_json)
    return 0


@command.command()
@_disk_options
def flush(address: str, nqn: str | None, namespace: int, as_json: bool) -> int:
    """Flush all written data to the target's medium."""
    with _connect(address, nqn, namespace) as disk:
        seconds, _ = _timed(disk.flush)
    _print("flush", 0, 0, seconds, as_json)
    return 0


@command.command()
@_disk_options
@click.option("--size", type=SIZE, default=4096, metavar="BYTES", help="Bytes of a command (default: 4096).")
@click.option(
    "--depth", type=click.IntRange(1, 255), default=32, show_default=True, help=("Outstanding commands per queue.")
)
@click.option("--queues", type=click.IntRange(1, 16), default=1, show_default=True, help="I/O queues, one thread each.")
@click.option(
    "--seconds", type=click.FloatRange(0.1, 86_400), default=5.0, show_default=True, metavar="S", help="How long."
)
@click.option(
    "--mix",
    type=click.Choice(["read", "write", "mixed"]),
    default="read",
    show_default=True,
    help="mixed: 70 % reads.",
)
@click.option("--overwrite", is_flag=True, help="Fill the namespace with a pattern first, and verify all data with it.")
def bench(
    address: str,
    nqn: str | None,
    namespace: int,
    as_json: bool,
    depth: int,
    queues: int,
    **how: Any,
) -> int:
    """Measure commands at random offsets.

    Without --overwrite it only reads, and cannot verify the data.
    """
    with _connect(address, nqn, namespace, depth=depth, queues=queues) as disk:
        result = disk.bench(**how)
    if as_json:
        print_json(result.to_json())
    else:
        print_lines([result.line()])
    return 0


@command.command()
@_disk_options
@click.option("--socket", metavar="PATH", required=True, type=OutputFile(), help="The Unix socket.")
@click.option("--depth", type=click.IntRange(1, 255), default=32, show_default=True, help="Commands at once.")
def nbd(address: str, nqn: str | None, namespace: int, as_json: bool, socket: str, depth: int) -> int:
    """Export a namespace as a network block device on a Unix socket, until Ctrl-C.

    \b
    fio --name=x --ioengine=nbd --uri='nbd+unix:///?socket=PATH' --rw=randread --size=1G
    """
    with _connect(address, nqn, namespace, depth=depth) as disk:
        described = disk.describe()

        def ready() -> None:
            if as_json:
                print_json(described.to_json())
                sys.stdout.flush()
            else:
                print_notice(f"{described.nqn} namespace {namespace} on {socket}")

        disk.serve_nbd(socket, ready=ready)
    return 0
