"""The tests lie where src has their subject, and no test module lends names to another."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2]
PACKAGES = TESTS.parent / "src" / "softib"
# Stories of whole fabrics, documents, and the public files that tests read are of no one package.
OF_ALL = {"docs", "fabrics", "real_data"}
OF_OTHERS = {Path("live/ibsim/tools"), Path("preload/verbs/foreign")}
"""Programs of others that run on what src has in the folder above."""
MOST_FILES = 25
MOST_UNFORMATTED = 40
FROM_A_TEST = re.compile(r"^\s*from\s+(\S*\.)?test_\w+\s+import", re.MULTILINE)
"""Only a file that has one is parsed."""


def test_folders_are_packages_of_src():
    folders = {p.parent.relative_to(TESTS) for p in TESTS.rglob("test_*.py")}
    of_one = {f for f in folders - OF_OTHERS if f.parts and f.parts[0] not in OF_ALL}
    assert not sorted(str(f) for f in of_one if not (PACKAGES / f).is_dir())
    assert folders >= OF_OTHERS


def test_a_folder_has_at_most_25_files():
    files = Counter(p.parent.relative_to(TESTS) for p in TESTS.rglob("*.py"))
    assert not {str(folder): n for folder, n in files.items() if n > MOST_FILES}


def test_the_order_of_files_names_what_is_there():
    from tests.conftest import ORDER, rank

    assert all((TESTS / name).exists() for name in ORDER) and len(set(ORDER)) == len(ORDER)
    at = [
        rank(TESTS / name)
        for name in (
            ORDER[0],
            "cm/test_mads.py",
            "sim/packet/kernels/ethernet/test_roce.py",
            "sm/test_flaps.py",
            "sim/fluid/test_fluid.py",
        )
    ]
    assert at == sorted(at) and len(set(at)) == len(at), "a file that is named comes before the rest of its folder"
    assert rank(TESTS / "ulp" / "x.py") == rank(TESTS / "agents" / "x.py")


def test_what_tests_share_is_in_no_test_module():
    """Helpers and fixtures are in ``lab.py``, ``conftest.py`` or a file named for what it is."""
    lent = []
    for file in sorted(TESTS.rglob("*.py")):
        text = file.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if FROM_A_TEST.search(text) else ():
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[-1].startswith("test_"):
                lent.append(f"{file.relative_to(TESTS)}:{node.lineno} imports from {node.module}")
    assert not lent


def test_few_tables_are_left_out_of_the_formatter_each_with_its_reason():
    """Counted by tokens, since strings may hold the mark."""
    marks = [
        f"{file.relative_to(TESTS.parent)}:{token.start[0]}: {token.string}"
        for folder in ("src", "tests", "bench", "docs")
        for file in sorted((TESTS.parent / folder).rglob("*.py"))
        if b"fmt: " in file.read_bytes()
        for token in tokenize.generate_tokens(io.StringIO(file.read_text("utf-8")).readline)
        if token.type == tokenize.COMMENT and token.string.startswith("# fmt: ")
    ]
    assert len(marks) <= MOST_UNFORMATTED
    assert not [mark for mark in marks if not re.search(r"# fmt: skip # \w+", mark)]
