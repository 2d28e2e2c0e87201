"""Options that name files and folders: each is checked before the work. Oracle: the system's answer for a path below /dev/null, which
can be neither read nor written."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import click
import pytest

from softib.cli.main import cli
from softib.cli.shared.named_files import InputFile, InputFolder, OutputFile, OutputFolder
from softib.errors import InputError
from tests.cli.command_tree import commands
from tests.cli.run import one_line, softib

NEVER = "/dev/null/x"
TYPES = (InputFile, InputFolder, OutputFile, OutputFolder)

CASES = [
    pytest.param(words, command, param, id=" ".join((*words, param.name)))
    for words, command in commands((), cli)
    for param in command.params
    if isinstance(param.type, click.Path | click.File)
]


@pytest.mark.parametrize(("words", "command", "param"), CASES)
def test_a_path_that_cannot_be_ends_a_verb_before_its_work(words, command, param):
    """SOURCE does not exist: had the verb begun, its line would name that."""
    assert isinstance(param.type, TYPES)
    arguments = [NEVER if p is param else "nosource" for p in command.params if isinstance(p, click.Argument)]
    option = [] if isinstance(param, click.Argument) else [max(param.opts, key=len), NEVER]
    line = one_line(softib(*words, *option, *arguments))
    assert line.startswith(f"softib: {NEVER}: "), line
    assert "Not a directory" in line or "there is no folder /dev/null" in line


def test_defaults_can_be():
    given = [param for case in CASES if isinstance((param := case.values[2]).default, str)]
    assert given and all(param.type.convert(param.default, param, None) == param.default for param in given)


def test_what_is_called_a_file_is_of_these_types():
    others = {
        " ".join((*words, param.name))
        for words, command in commands((), cli)
        for param in command.params
        if param.metavar in ("F", "FILE", "DIR") and not isinstance(param.type, TYPES)
    }
    assert others == set()


def test_what_another_user_keeps_is_named(tmp_path):
    """As a user other than root: a file that cannot be read, a folder that cannot be written, and a device that can."""
    if os.geteuid():
        pytest.skip("only root can become another user")
    secret, new = tmp_path / "secret", tmp_path / "new"
    secret.touch(mode=0o600)
    for folder in (tmp_path, *tmp_path.parents):
        if folder == Path(tempfile.gettempdir()):
            break
        folder.chmod(0o755)
    os.setresuid(65534, 65534, 0)
    try:
        for kind, path in ((InputFile(), secret), (OutputFile(), new), (OutputFolder(), new)):
            with pytest.raises(InputError, match=f"^{path}: .*Permission denied$"):
                kind.convert(str(path), None, None)
        assert OutputFile().convert("/dev/null", None, None) == "/dev/null"
    finally:
        os.setresuid(0, 0, 0)


def test_a_missing_folder_is_named_and_not_created(tmp_path):
    """The same line whether one folder is missing or several."""
    for path in (tmp_path / "no" / "r.html", tmp_path / "no" / "such" / "folder" / "r.html"):
        line = one_line(softib("report", "nosource", "--html", path))
        assert line == f"softib: {path}: there is no folder {path.parent}; create it, or use another"
    assert not list(tmp_path.iterdir())
