"""What a shell gets for words that somebody typed."""

from __future__ import annotations

from click.shell_completion import get_completion_class

from softib.cli.main import COMPLETE, cli


def completed(monkeypatch, *words: str) -> list[str]:
    """What bash is told for these words, of which the last is incomplete."""
    monkeypatch.setenv("COMP_WORDS", " ".join(["softib", *words]))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    bash = get_completion_class("bash")
    assert bash is not None
    return bash(cli, {}, "softib", COMPLETE).complete().splitlines()
