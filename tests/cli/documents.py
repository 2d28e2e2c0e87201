"""A document of ``--json`` against its schema in docs/schemas."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from softib.result import schema_id

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "schemas"


def check(name: str, document: dict) -> dict:
    """``document``, which its schema allows: its name and version are its first key."""
    jsonschema = pytest.importorskip("jsonschema")
    assert next(iter(document.items())) == ("schema", schema_id(name))
    schema = json.loads((FOLDER / f"{name}.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(document)
    return document
