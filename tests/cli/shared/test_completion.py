"""Completion as shells ask for it: verbs, options, files, and what runs. Oracle: bash itself runs the script."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from softib.cli.itself.installation import SHELLS
from softib.cli.main import COMPLETE, VERBS
from tests.cli.run import one_line, softib
from tests.cli.shared.completing import completed

PROGRAM = Path(sys.executable).with_name("softib")


def test_verbs_and_options(monkeypatch):
    assert completed(monkeypatch, "") == [f"plain,{verb}" for verb in VERBS]
    assert completed(monkeypatch, "ro") == ["plain,route"]
    assert "plain,--engine" in completed(monkeypatch, "route", "--")
    assert completed(monkeypatch, "up", "--sm", "e") == ["plain,external"]
    assert completed(monkeypatch, "nosuchverb", "") is not None


@pytest.mark.parametrize(
    "words",
    [
        ("up", "x"),
        ("check", "a", "--plan", "p"),
        ("diff", "a", "b"),
        ("convert", "a", "b"),
        ("up", "a", "--partitions", ""),
        ("report", "a", "--html", "r"),
    ],
)
def test_files(monkeypatch, words, tmp_path):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert completed(monkeypatch, *words)[-1].startswith("file,")


def test_without_a_running_fabric_there_is_nothing_and_no_error(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    for words in (("down", ""), ("run", "--node", "host"), ("fault", "link-down", "leaf")):
        assert completed(monkeypatch, *words) == []


def test_kinds_of_topology(monkeypatch):
    assert completed(monkeypatch, "generate", "r") == ["plain,rail-optimized", "plain,ring"]


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_gets_a_script(shell):
    ran = softib("completion", shell)
    assert ran.code == 0 and f"{COMPLETE}={shell}_complete" in ran.out
    if shutil.which(shell):
        done = subprocess.run([shell, "-n"], input=ran.out, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert "fish" in one_line(softib("completion", "tcsh"))


@pytest.mark.skipif(shutil.which("bash") is None or not PROGRAM.exists(), reason="no bash, or softib is not installed")
def test_bash_completes(tmp_path):
    script = """
        eval "$(softib completion bash)"
        COMP_WORDS=(softib gen) COMP_CWORD=1
        _softib_completion softib gen softib
        printf '%s\\n' "${COMPREPLY[@]}"
        complete -p softib
    """
    env = {"PATH": f"{PROGRAM.parent}:/usr/bin:/bin", "XDG_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=env)
    assert done.stdout.splitlines()[0] == "generate" and "_softib_completion softib" in done.stdout, done


@pytest.mark.skipif(shutil.which("fish") is None or not PROGRAM.exists(), reason="no fish, or softib is not installed")
def test_fish_completes(tmp_path):
    script = 'softib completion fish | source; complete -C "softib gen"; complete -C "softib up --sm e"'
    env = {"PATH": f"{PROGRAM.parent}:/usr/bin:/bin", "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run(["fish", "-c", script], capture_output=True, text=True, env=env)
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["generate", "external"], done


@pytest.mark.skipif(shutil.which("zsh") is None or not PROGRAM.exists(), reason="no zsh, or softib is not installed")
def test_zsh_completes(tmp_path):
    # zpty is zsh's own terminal in a terminal: the keys that a person presses, and what the line editor shows.
    script = r"""
        zmodload zsh/zpty
        shown=
        until_shown() { repeat 1000; do zpty -r -t z out && shown+=$out; [[ $shown == *$1* ]] && return; sleep .05; done; exit 1 }
        zpty -b z zsh -f -i
        zpty -w z 'PS1=; autoload -Uz compinit; compinit -u -d /dev/null; eval "$(softib completion zsh)"; echo RE""ADY'
        until_shown READY
        zpty -w -n z $'softib genera\t'
        until_shown 'softib generate'
        zpty -w -n z $' to\t'
        until_shown torus
        zpty -d z
    """
    env = {
        "PATH": f"{PROGRAM.parent}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "XDG_RUNTIME_DIR": str(tmp_path),
        "TERM": "dumb",
    }
    done = subprocess.run(["zsh", "-f", "-c", script], capture_output=True, text=True, env=env, timeout=60)
    assert done.returncode == 0, done
