"""``softib completion``: the script with which a shell completes softib's verbs, options, files,
fabrics and nodes."""

from __future__ import annotations

import click

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> int:
    """Print what makes SHELL complete verbs, options, files, running fabrics and their nodes.

    \b
    bash:  eval "$(softib completion bash)"                 in ~/.bashrc
    zsh:   eval "$(softib completion zsh)"                  in ~/.zshrc, after compinit
    fish:  softib completion fish > ~/.config/fish/completions/softib.fish
    """
    from click.shell_completion import get_completion_class

    from softib.cli.main import COMPLETE, cli

    found = get_completion_class(shell)
    assert found is not None
    made = found(cli, {}, "softib", COMPLETE)
    click.echo(made.source_template % made.source_vars())
    return 0
