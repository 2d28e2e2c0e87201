"""docs/architecture.md is true: its picture is drawn from the code, and every package and file that it names exists."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
PACKAGES = ROOT / "src" / "softib"


@pytest.fixture(scope="module")
def drawing() -> ModuleType:
    spec = importlib.util.spec_from_file_location("draw_architecture", ROOT / "docs" / "draw_architecture.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_picture_shows_the_code(drawing: ModuleType):
    assert drawing.PICTURE.read_text("utf-8") == drawing.draw(), "run python docs/draw_architecture.py"


def test_the_picture_has_every_package(drawing: ModuleType):
    drawn = {name for row in drawing.layers() for name in row}
    there = {p.parent.name for p in PACKAGES.glob("*/__init__.py")} - {"preload"}  # C, but for its build script
    assert there <= drawn


def test_arrows_are_the_imports(drawing: ModuleType, tmp_path: Path):
    """The reduction drops no import that is not implied, and a circle is an error."""
    assert drawing.reduced({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == [("a", "b"), ("b", "c")]
    with pytest.raises(ValueError, match="cycle"):
        drawing.reduced({"a": {"b"}, "b": {"a"}})


def test_every_package_says_what_it_is(drawing: ModuleType):
    for folder in sorted({p.parent for p in PACKAGES.rglob("*.py")} - {PACKAGES, PACKAGES / "render" / "templates"}):
        head = folder / "__init__.py"
        assert head.is_file() and head.read_text("utf-8").startswith('"""'), (
            f"{folder.relative_to(ROOT)} has no docstring"
        )


def test_every_file_that_the_page_names_exists():
    named = set(re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.(?:py|c|h))`", PAGE))
    assert len(named) > 15
    short = {
        f"preload/verbs/{n}" if n.startswith(("abi/", "engine/", "fabric/path", "fabric/flow", "fabric/cells")) else n
        for n in named
    }
    absent = sorted(n for n in short if not (PACKAGES / n).is_file())
    assert not absent


def test_every_package_of_the_table_exists():
    rows = re.findall(r"^\| `([a-z_/.]+)` \|", PAGE[: PAGE.index("## A MAD")], re.M)
    assert len(rows) > 25
    for name in rows:
        at = [PACKAGES / name, PACKAGES / f"{name}.py", PACKAGES / "live" / name, PACKAGES / "live" / f"{name}.py"]
        assert any(p.exists() for p in at), name


def modules_of_rows(page: str) -> list[tuple[str, str]]:
    """(package, module or folder) of each name in small letters in the table of packages; verbs of the command line are none."""
    table = page[page.index("## Packages") : page.index("### `live`")]
    rows = re.findall(r"^\| `([a-z_]+)` \| (.*) \|$", table, re.M)
    verbs = {"report", "check", "route"}
    return [(p, n.rstrip("/")) for p, text in rows for n in re.findall(r"`([a-z_]+/?)`", text) if n not in verbs]


def test_every_module_of_the_table_is_in_its_package():
    named = modules_of_rows(PAGE)
    assert len(named) > 60
    absent = [
        (package, name)
        for package, name in named
        if not any(p.is_dir() or p.suffix == ".py" for p in (PACKAGES / package).rglob(f"{name}*") if p.stem == name)
    ]
    assert not absent
