"""docs/schemas says what the readers check. Oracle: the library jsonschema, on every fabric.yaml of the project."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
import yaml

from softib.cli.main import VERBS, cli
from softib.errors import SoftibError
from softib.fabric.topologies.registry import KINDS
from softib.fabric.topologies.spec import load_fabric_yaml
from softib.fabric.topologies.spec_models import fabric_schema
from tests.docs.scripts import script

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))


def test_the_page_is_the_schemas():
    assert (ROOT / "docs" / "fabric-yaml.md").read_text("utf-8") == script("make_reference").page(), (
        "run python docs/make_reference.py"
    )


def test_the_table_of_counters_is_the_codes():
    module = script("make_reference")
    assert module.EXPORTERS.read_text("utf-8") == module.exporters(), "run python docs/make_reference.py"


def test_the_page_of_the_simulators_tables_is_the_declaration():
    module = script("make_reference")
    assert module.TABLES.read_text("utf-8") == module.packet_tables(), "run python docs/make_reference.py"
    assert module.CONTROLS.read_text("utf-8") == module.controls(), "run python docs/make_reference.py"


def test_the_page_of_options_is_the_help():
    """Every option that click parses has a row, under its command."""
    made = script("make_options").page()
    assert (ROOT / "docs" / "options.md").read_text("utf-8") == made, "run python docs/make_options.py"
    for verb in VERBS:
        command = cli.get_command(click.Context(cli, info_name="softib"), verb)
        assert command is not None
        section = made.partition(f"\n## softib {verb}\n")[2].partition("\n## ")[0]
        shown = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
        assert [o for p in shown for o in p.opts if o not in section] == [], verb


def test_the_files_are_the_codes(jsonschema):
    module = script("make_schemas")
    for name, text in module.texts().items():
        assert (ROOT / "docs" / "schemas" / name).read_text("utf-8") == text, "run python docs/make_schemas.py"
        jsonschema.Draft202012Validator.check_schema(json.loads(text))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.name)
def test_examples_are_valid(path, jsonschema):
    jsonschema.validate(yaml.safe_load(path.read_text()), fabric_schema())


WRONG = (
    "topology: {kind: fat-tree, radx: 4}",
    "topology: {kind: fat-tre}",
    "topology: {kind: fat-tree, radix: 1}",
    "topology: {kind: fat-tree, radix: four}",
    "name: x",
    "topology: {kind: torus}",
    "topology: {kind: fat-tree}\nsm: {lmc: 8}",
    "topology: {kind: fat-tree}\nsm: {engin: updn}",
    "topology: {kind: fat-tree}\ncables: {length_m: -1}",
    "topology: {kind: fat-tree}\nnodes: 3",
)


@pytest.mark.parametrize("text", WRONG)
def test_what_the_schema_refuses_the_reader_refuses(text, tmp_path, jsonschema):
    assert not jsonschema.Draft202012Validator(fabric_schema()).is_valid(yaml.safe_load(text))
    file = tmp_path / "fabric.yaml"
    file.write_text(text)
    with pytest.raises(SoftibError):
        load_fabric_yaml(file)


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_is_described(kind):
    (found,) = (k for k in fabric_schema()["properties"]["topology"]["oneOf"] if k.get("title") == kind)
    names = {p.name for p in KINDS[kind].all_parameters} - {"name", "generation"}
    assert set(found["properties"]) == names | {"kind"} and all(found["properties"][n]["description"] for n in names)
