"""Documentation that a test keeps true: each wire field, verb, dependency and format is described."""

import importlib
import re
from pathlib import Path

import pytest

from softib.cli.main import VERBS
from softib.iba.structure import Structure

ROOT = Path(__file__).resolve().parents[2]


def test_every_declared_field_says_what_it_is():
    importlib.import_module("softib.iba.smp")
    for struct in Structure.__subclasses__():
        assert struct.__doc__ and struct.section, struct
        for f in struct.named():
            assert f.doc, f"{struct.__name__}.{f.name}"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_in_the_command_line_page(verb):
    assert f"softib {verb}" in (ROOT / "docs" / "cli.md").read_text()


def test_every_dependency_has_its_reason():
    text = (ROOT / "docs" / "decisions" / "0002-dependencies.md").read_text()
    project = (ROOT / "pyproject.toml").read_text()
    names = re.findall(r'^\s+"([A-Za-z-]+)[>=]', project.split("dependencies = [")[1].split("]")[0], re.M)
    assert names
    for name in names:
        assert f"| {name} |" in text, name


def test_every_file_format_is_described():
    from softib.fabric.formats.registry import FORMATS

    text = (ROOT / "docs" / "formats.md").read_text()
    for f in FORMATS:
        assert f"| `{f.name}` |" in text, f.name
        for suffix in f.suffixes[:1]:
            assert f"`{suffix}`" in text, suffix


def test_every_page_that_the_readme_names_exists():
    for page in re.findall(r"\]\((docs/[^)#]+)\)", (ROOT / "README.md").read_text()):
        assert (ROOT / page).is_file(), page
