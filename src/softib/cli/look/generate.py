"""``softib generate``: a fabric file of a topology, for pipes and for editing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from softib.cli.shared.output import print_json
from softib.result import Result

if TYPE_CHECKING:
    from softib import Kind, Parameter


@dataclass
class Kinds(Result):
    """Kinds of topology that softib generates."""

    document = "generate"

    kinds: list[Kind]


def _kinds(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    import softib

    return [CompletionItem(k.name, help=k.doc) for k in softib.topologies().values() if k.name.startswith(incomplete)]


@click.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
@click.argument("kind", required=False, shell_complete=_kinds)
@click.option("--list", "listed", is_flag=True, help="Only list the kinds, or with KIND its parameters.")
@click.option("--json", "as_json", is_flag=True, help="With --list: print only JSON on stdout.")
@click.argument("parameters", nargs=-1, type=click.UNPROCESSED, metavar="[--PARAMETER VALUE]...")
def command(kind: str | None, listed: bool, as_json: bool, parameters: tuple[str, ...]) -> int:
    """Print a fabric.yaml of topology KIND on stdout.

    Each parameter of the kind is an option: softib generate fat-tree --radix 36 --hosts 648 --generation EDR >
    tree.yaml. 'softib generate --list' names the kinds, 'softib generate KIND --list' the parameters. The fabric is
    built once, to reject impossible parameters.
    """
    import softib
    from softib.errors import UnknownName

    kinds = softib.topologies()
    if kind is None and not listed:
        raise click.UsageError(f"KIND is missing; use one of {', '.join(kinds)} (softib generate --list)")
    if kind is not None and kind.startswith("-"):  # --list and --json are read, parameters follow their KIND
        raise click.NoSuchOption(kind, possibilities=["--list", "--json", "--help"], ctx=click.get_current_context())
    if kind is not None and kind not in kinds:
        raise UnknownName("topology kind", kind, kinds)
    if listed:
        if parameters:
            raise click.UsageError(f"--list takes no parameters; leave {parameters[0]} out")
        _list(list(kinds.values()) if kind is None else [kinds[kind]], kind is not None, as_json)
        return 0
    if as_json:
        raise click.UsageError("--json needs --list; generate prints YAML")
    assert kind is not None
    click.echo(softib.generate(kind, **_given(kinds[kind], parameters)).to_yaml(), nl=False)
    return 0


def _list(kinds: list[Kind], one: bool, as_json: bool) -> None:
    if as_json:
        print_json(Kinds(kinds).to_json())
    elif one:
        click.echo(f"{kinds[0].name}: {kinds[0].doc}")
        width = max(len(p.name) for p in kinds[0].all_parameters)
        for p in kinds[0].all_parameters:
            word = " (required)" if p.required else "" if p.default is None else f" (default {p.default})"
            click.echo(f"  --{p.name.replace('_', '-'):{width}}  {p.form}: {p.doc}{word}")
    else:
        width = max(len(k.name) for k in kinds)
        for k in kinds:
            click.echo(f"{k.name:{width}}  {k.doc}")


def _given(kind: Kind, args: tuple[str, ...]) -> dict[str, Any]:
    """Return parameters by name from ``--name value`` and ``--name=value``. Raises
    :class:`UnknownName`, :class:`click.UsageError`."""
    from softib.errors import UnknownName

    parameters = {p.name: p for p in kind.all_parameters}
    given: dict[str, Any] = {}
    left = list(args)
    while left:
        word = left.pop(0)
        if not word.startswith("--"):
            raise click.UsageError(f"{word!r}: use options for parameters, for example --{next(iter(parameters))} 4")
        option, equals, value = word[2:].partition("=")
        name = option.replace("-", "_")
        if name not in parameters:
            raise UnknownName(f"parameter of {kind.name}", option, [n.replace("_", "-") for n in parameters])
        if not equals:
            if not left:
                raise click.UsageError(f"--{option} needs a value: {parameters[name].doc}")
            value = left.pop(0)
        if name in given:
            raise click.UsageError(f"--{option} is given twice")
        given[name] = _value(parameters[name], value)
    return given


def _value(parameter: Parameter, word: str) -> Any:
    """Return ``word`` as a value of the parameter's type; any other text is returned unchanged, and
    the kind's check reports it."""
    if parameter.form in ("text", "ratio"):
        return word
    if parameter.form == "yes/no":
        return {"yes": True, "true": True, "no": False, "false": False}.get(word.lower(), word)
    parts = word.strip("[] ").replace("x", ",").split(",") if "list" in parameter.form else [word]
    if not all(p.strip().removeprefix("-").isdecimal() and len(p) < 19 for p in parts):
        return word
    numbers = [int(p) for p in parts]
    return numbers[0] if len(numbers) == 1 and parameter.form != "list" else numbers
