"""``softib``: the command line. Each subcommand is a small file in the folder of its group; the module is imported only
when the subcommand is called.

Exit codes: 0 done; 1 negative result; 2 usage error, unreadable input, or unwritable output; 70 a
bug in softib; 130 after Ctrl-C and 141 after a closed output pipe, as for any program.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from softib import __version__
from softib.cli.shared.process import (
    closed_pipe_code,
    drop_stdout,
    end_like_ctrl_c,
    open_closed_streams,
    raise_dropped_interrupts,
    report_bug,
    report_interrupt,
    warn_in_one_line,
)
from softib.errors import SoftibBug, SoftibError, os_reason
from softib.foreign_text import shown

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

GROUPS: dict[str, dict[str, str]] = {
    "Look": {
        "report": "read a fabric, bring it up, check it, predict its traffic, print the findings",
        "check": "findings only; exit 1 if there are findings or unreadable records",
        "path": "the path of packets from one node to another, and why",
        "diff": "changes between two fabrics",
        "convert": "convert between fabric formats",
        "generate": "a fabric.yaml of a topology: fat tree, rail-optimized, dragonfly, torus, ...",
        "route": "routing tables, deadlock proof and quality",
    },
    "Predict": {
        "simulate": "simulate traffic: how long a workload takes, and what limits it",
        "calibrate": "a machine described by its own log of nccl-tests or OSU's benchmarks",
        "compare": "a workload over generations of InfiniBand, RoCE and TCP, side by side",
        "plan": "designs for a number of hosts or GPUs: cables, cost, and a vendor's quote",
        "advise": "which network a workload needs, and when Ethernet is enough",
    },
    "Run": {
        "up": "run a fabric that stock tools can manage",
        "down": "stop a running fabric",
        "status": "running fabrics and their state",
        "run": "a program on a node of a running fabric",
        "shell": "a shell on a node of a running fabric",
        "fault": "inject and clear faults in a running fabric",
        "target": "files as NVMe over Fabrics namespaces on a node",
        "nvme": "read, write, measure and export namespaces of a target",
        "ci": "a fabric for the duration of a command, in continuous integration",
        "lab": "laboratories: a fabric with a fault, a question, and a judge of the answer",
    },
    "Watch": {
        "exporter": "the counters of a fabric as metrics for Prometheus",
        "top": "busiest, most waiting and erring ports of a fabric, full-screen",
        "serve": "a fabric in a browser: map, loads, findings, paths; with a REST API",
        "diagnose": "find bad cables from counters over time",
        "why": "find the cause of a failed job from its logs",
        "accept": "measure all hosts against each other, and find slow hosts and cables",
        "baseline": "record an accepted fabric, and compare it later",
        "node-check": "check this host for a job: ports, rates, firmware, PCIe, counters, in a second",
    },
    "Manage": {
        "sm": "softib's subnet manager on any umad device; sweep, reload, explain",
        "isolate": "take bad cables out of use, never the last path, and back",
        "stack": "versions and settings of hosts against each other, their hardware and a support matrix",
        "audit": "audit isolation and protection: M_Keys, partitions, managers, SA",
    },
    "softib itself": {
        "doctor": "what this machine can run, and how to fix what it cannot",
        "compile": "compile all kernels in advance",
        "completion": "shell completion of verbs, options, files, fabrics and nodes",
    },
}
"""Group → subcommand → its line in ``softib --help``. The code of a subcommand is
``softib.cli.<group>.<verb>:command``, or in a module of :data:`TOGETHER`. The name of a group's folder is the last word
of the group.
"""
TOGETHER = {
    "advise": "plan",
    "down": "up",
    "shell": "run",
    "doctor": "installation",
    "compile": "installation",
    "completion": "installation",
}
"""Subcommand → the module that contains it together with others."""
VERBS: dict[str, str] = {verb: line for verbs in GROUPS.values() for verb, line in verbs.items()}
MODULES = {
    verb: f"softib.cli.{group.split()[-1].lower()}.{TOGETHER.get(verb, verb).replace('-', '_')}"
    for group, verbs in GROUPS.items()
    for verb in verbs
}
"""Subcommand → its module."""
SYNONYMS = {
    name: verb
    for verb, names in {
        "up": "start launch boot begin",
        "down": "stop kill shutdown halt quit exit rm remove delete destroy",
        "status": "ls list ps",
        "run": "exec attach",
        "shell": "ssh login",
        "check": "verify validate lint health healthcheck ibdiagnet ibqueryerrors",
        "report": "analyze analyse show info inspect describe summary discover scan",
        "path": "explain trace tracert traceroute ibtracert",
        "route": "tables lfts",
        "simulate": "sim predict bench benchmark perf bandwidth",
        "convert": "import export",
        "generate": "topology topologies gen create new make build",
        "sm": "opensm",
        "sm check-config": "config",
        "fault": "break inject",
        "isolate": "repair fix heal drain",
        "serve": "web ui gui dashboard map graph draw plot viz tenants",
        "exporter": "metrics prometheus",
        "top": "watch monitor htop",
        "why": "logs log postmortem",
        "accept": "burn-in test",
        "plan cost": "price",
        "--version": "version",
        "--help": "man usage",
    }.items()
    for name in names.split()
}
"""Command of another tool → the subcommand that the error message suggests instead."""
PROGRAMS = {"perfquery", "saquery", "smpquery", "sminfo", "smpdump", "vendstat", "osmtest", "rping", "ucx_perftest"}
"""InfiniBand programs whose names do not begin with ``ib``."""


COMPLETE = "_SOFTIB_COMPLETE"
"""Environment variable with which the script of ``softib completion`` requests completions."""


class VerbGroup(click.Group):
    """A group whose commands are imported when they are called, so that ``--help`` stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the subcommands, in the order of the help."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the subcommand's module."""
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(MODULES[cmd_name])
        command: click.Command = getattr(module, cmd_name if cmd_name in TOGETHER else "command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the subcommands in their groups, without importing them."""
        for group, verbs in GROUPS.items():
            with formatter.section(group):
                formatter.write_dl(list(verbs.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand. Convert an interrupt to :class:`click.Abort`, because click prints an empty line for
        :class:`KeyboardInterrupt`.
        """
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise click.Abort from None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names of subcommands, with their help lines, without importing them."""
        from click.shell_completion import CompletionItem

        verbs = [CompletionItem(verb, help=line) for verb, line in VERBS.items() if verb.startswith(incomplete)]
        return [*verbs, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Treat ``help COMMAND`` as ``COMMAND --help``. If the command is misspelt or is one of another tool, raise an
        error that suggests subcommands.
        """
        from softib.errors import nearest

        if args and args[0] == "help":
            args = [*args[1:], "--help"]
            if len(args) == 1:
                click.echo(ctx.get_help())
                ctx.exit()
        if args and args[0] not in VERBS and not args[0].startswith("-") and not ctx.resilient_parsing:
            similar = [SYNONYMS[args[0]]] if args[0] in SYNONYMS else nearest(args[0], [*VERBS, "help"])
            similar = similar or self._commands_of_verbs(ctx, args[0])
            hint = f"did you mean {', '.join(similar)}?" if similar else "run 'softib --help' for all"
            if not similar and (args[0].startswith("ib") or args[0] in PROGRAMS):  # ibhosts, ib_write_bw
                hint = f"use 'softib run -- {args[0]}' to run it on a node of a running fabric"
            raise click.UsageError(f"no command {args[0]!r}; {hint}")
        return super().resolve_command(ctx, args)

    def _commands_of_verbs(self, ctx: click.Context, word: str) -> list[str]:
        """Return the second-level subcommands with the name ``word``: ``sm sweep`` for ``sweep``."""
        from softib.errors import nearest

        commands = {
            f"{verb} {name}": name
            for verb in VERBS
            if isinstance(command := self.get_command(ctx, verb), click.Group)
            for name in command.list_commands(ctx)
        }
        similar = nearest(word, commands.values())[:1]
        return [both for both, name in commands.items() if name in similar]


@click.command(cls=VerbGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="softib")
def cli() -> None:
    """InfiniBand in software: a fabric, its subnet manager and its diagnostics."""


GC_EVERY = 100_000
"""Number of new objects between two garbage collections. Most objects of a command are modules and arrays that live
until its end; with Python's default (700), collections would examine new objects repeatedly.
"""


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point: every error is one line on stderr; a bug in softib leaves its traceback in a
    file."""
    from softib.cli.shared.plain_text import speak_plainly

    open_closed_streams()
    end_like_ctrl_c()
    if argv is None:  # the process runs only this command
        raise_dropped_interrupts()
        gc.set_threshold(GC_EVERY)
    speak_plainly()
    warn_in_one_line()
    try:
        code = _run(argv)
        sys.stdout.flush()
    except BrokenPipeError:
        code = closed_pipe_code()
    except OSError as error:
        # Errors of input files and DEST are already handled, so this is an error of stdout, for example on a full disk.
        print(shown(f"softib: {error.filename or 'stdout'}: {os_reason(error)}"), file=sys.stderr)
        drop_stdout()
        code = 2
    # If an interrupt passes through exec() of a string (as in dataclass), "python -m softib" ends with SIGINT, even if
    # the interrupt was caught, and regardless of the exit code. Another exec() resets this.
    exec("")
    if argv is None:
        gc.freeze()  # Python's final collections then skip the modules (a quarter of the time of 'softib up')
    sys.exit(code)


def _run(argv: Sequence[str] | None) -> int:
    """Run a command line and return its exit code. The context's ``obj`` is True if the process runs only this
    command.
    """
    try:
        args = list(argv) if argv is not None else None
        code = cli.main(args, prog_name="softib", complete_var=COMPLETE, standalone_mode=False, obj=argv is None)
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        return 2
    except click.ClickException as error:
        from softib.cli.shared.usage_errors import usage_text

        print(f"softib: {shown(usage_text(error))}", file=sys.stderr)
        return 2
    except (click.Abort, KeyboardInterrupt):
        return report_interrupt()
    except SoftibBug as error:
        return report_bug(error)
    except SoftibError as error:
        print(f"softib: {error}", file=sys.stderr)
        return error.exit_code
    except OSError:
        raise
    except Exception as error:
        return report_bug(error)
    except SystemExit as leave:
        if COMPLETE in os.environ:
            return int(leave.code or 0)
        # Subcommands return their exit code. On a broken pipe, Click and Rich exit with 1, which would mean a negative
        # result.
        return closed_pipe_code()
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    main()
