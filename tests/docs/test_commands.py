"""Every command and snippet of README and docs runs as it is written, page by page, each in a new shell.

The shell is what a user has after README's two commands: this folder's examples, and ``source .venv/bin/activate`` (which
README and the start page say themselves). Only audit, check, diagnose, diff, path, route and ibqueryerrors may end with 1: their answer may be bad news.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.docs.snippets import COMMAND, FENCE, PAGES, ROOT, RUN, SHOWN, Block, blocks_of, script_of, unseen
from tests.docs.well_known_ports import alone

LIMIT_S = 900
BAD_NEWS = re.compile(
    r"softib (?:audit|check|diagnose|diff|path|route|run .*-- ibqueryerrors)\b|softib run -- ibqueryerrors\b"
)
WRONG = re.compile(r"Traceback|command not found|this is a bug in softib|No such file or directory|no such program")

EVERY = [b for page in PAGES for b in blocks_of(page)]
RUNNABLE = [b for b in EVERY if b.language in RUN and not b.not_run and not b.run_by]
FIRST = ("README.md",)
"""What a newcomer reads. The other pages run with the slow tests: each begins fabrics of its own."""
FAST = sorted({b.page for b in RUNNABLE if not b.slow and str(b.page.relative_to(ROOT)) in FIRST})
SLOW = sorted({b.page for b in RUNNABLE if b.slow or str(b.page.relative_to(ROOT)) not in FIRST})


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", FAST, ids=name_of)
@pytest.mark.timeout(LIMIT_S)
def test_a_page_runs_as_written(page):
    run([b for b in RUNNABLE if b.page == page and not b.slow])


@pytest.mark.slow
@pytest.mark.parametrize("page", SLOW, ids=name_of)
@pytest.mark.timeout(LIMIT_S)
def test_a_page_runs_as_written_with_what_takes_long(page):
    run([b for b in RUNNABLE if b.page == page])


def run(blocks: list[Block]) -> None:
    """Run the blocks of one page whose programs are here; skip where those of none are."""
    page = blocks[0].page
    ready = [b for b in blocks if not b.missing]
    if not ready:
        pytest.skip(f"not installed: {', '.join(sorted({m for b in blocks for m in b.missing}))}")
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="softib-docs-", dir=base) as name:
        folder = Path(name)
        shutil.copytree(ROOT / "examples", folder / "examples")
        (folder / ".venv").symlink_to(sys.prefix)
        (folder / "run").mkdir(mode=0o700)
        script = script_of(ready)
        if "source .venv/bin/activate" not in script:
            script = "source .venv/bin/activate\n" + script
        (folder / "page.sh").write_text(script + "block=end\n")
        bin_free = [d for d in os.environ["PATH"].split(os.pathsep) if not Path(d, "softib").exists()]
        env = {
            **os.environ,
            "XDG_RUNTIME_DIR": str(folder / "run"),
            "PATH": os.pathsep.join(bin_free),
            "SHELL": "/bin/bash",
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1",
        }
        for gone in ("PYTHONPATH", "VIRTUAL_ENV"):
            env.pop(gone, None)
        try:
            with alone(), (folder / "said").open("w+") as said:
                code = subprocess.run(
                    ["bash", "page.sh"],
                    env=env,
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=subprocess.STDOUT,
                    timeout=LIMIT_S - 60,
                ).returncode
            text = (folder / "said").read_text(errors="replace")
            failed = (folder / "failed").read_text().splitlines() if (folder / "failed").exists() else []
        finally:
            subprocess.run([sys.executable, "-m", "softib", "down", "--all"], env=env, cwd=folder, capture_output=True)
    assert code == 0 or failed, f"{name_of(page)}: the shell ended with {code}\n{text[-3000:]}"
    wrong = [line for line in failed if not is_bad_news(line)]
    assert not wrong, "\n".join([*wrong, "", text[-6000:]])
    hit = WRONG.search(text)
    assert hit is None, text[max(0, hit.start() - 1500) : hit.end() + 1500]
    if len(ready) == sum(b.page == page for b in RUNNABLE):
        absent = {b.name: line for b in EVERY if b.page == page and b.shown and (line := unseen(b, text))}
        assert not absent, f"{absent}\n{text[-20000:]}"


def is_bad_news(line: str) -> bool:
    """Did a command of the log ``failed`` only tell bad news?"""
    _, code, command = line.split("\t", 2)
    if command == "wait $job":  # of the harness: the page has waited itself (127), or its fabric has ended (143)
        return code in ("127", "143")
    return code == "1" and BAD_NEWS.match(command) is not None


@pytest.mark.parametrize("block", [b for b in RUNNABLE if b.needs], ids=lambda b: b.name)
def test_what_a_block_needs_is_here(block):
    """A block whose programs are absent is left out of its page's run: this says which, and why."""
    if block.missing:
        pytest.skip(f"not run here: {', '.join(block.missing)} not installed")


def test_every_block_has_a_language_that_is_run_or_shown():
    assert [b.name for b in EVERY if b.language not in (*RUN, *SHOWN) and b.language[:1] != "{" and not b.run_by] == []
    assert [b.name for b in EVERY if b.language == "" and re.search(r"^(softib|make|\$ )", b.text, re.MULTILINE)] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_stand_in_fences(page):
    """An indented command is one that no test runs. ``softib VERB … [options]`` is a form, not a command."""
    text = FENCE.sub("", page.read_text())
    lines = [line for line in text.splitlines() if COMMAND.match(line) and "VERB" not in line]
    assert lines == []


@pytest.mark.parametrize("block", [b for b in EVERY if b.run_by], ids=lambda b: b.name)
def test_a_block_with_a_test_of_its_own_is_read_there(block):
    """The test takes the page's blocks of that language as they stand, so that it runs what people read."""
    text = (ROOT / block.run_by).read_text("utf-8")
    assert f'"{block.page.name}"' in text and f'block("{block.language}")' in text


def test_needs_are_words_and_few_blocks_are_not_run():
    """A comment that reached too far would leave everything out in silence."""
    assert {n for b in EVERY for n in b.needs if not re.fullmatch(r"[a-z/][\w.:/+-]*", n)} == set()
    assert max(len(b.needs) for b in EVERY) <= 4
    assert sum(bool(b.not_run) for b in EVERY) <= 5 and len(RUNNABLE) > 20


def test_output_is_shown_in_text_blocks_behind_commands():
    for page in PAGES:
        blocks = [b for b in EVERY if b.page == page]
        for before, block in itertools.pairwise(blocks):
            assert not block.shown or (block.language == "text" and (before.language in RUN or before.shown)), (
                block.name
            )


def test_shown_output_is_compared():
    def shown(text: str) -> Block:
        return Block(ROOT / "README.md", 1, "text", text, shown=True)

    output = "one  two\nthree 0.52 s\n\nfour\n"
    assert unseen(shown("one two\nthree … s\nfour\n"), output) == ""
    assert unseen(shown("one t…\n"), output) == ""
    assert unseen(shown("four\none two\n"), output) == "one two"
    assert unseen(shown("one five\n"), output) == "one five"


def test_whoever_is_not_run_says_why():
    assert all(len(b.not_run.split()) >= 3 for b in EVERY if b.not_run)


def test_the_harness_notices(tmp_path):
    """A failing command in the foreground, in the background, in a pipe and in a substitution."""

    def block(text: str) -> Block:
        return Block(ROOT / "README.md", 7, "sh", text)

    for text, count in (
        ("true\nfalse\n", 1),
        ("false &\ntrue\n", 1),
        ("false | true\n", 1),
        ("x=$(false)\n", 1),
        ("until true; do sleep 1; done\n", 0),
        ("nosuch-program-x\n", 1),
    ):
        (tmp_path / "failed").unlink(missing_ok=True)
        subprocess.run(["bash", "-c", script_of([block(text)])], cwd=tmp_path, capture_output=True)
        log = (tmp_path / "failed").read_text().splitlines() if (tmp_path / "failed").exists() else []
        assert len(log) == count, (text, log)
        assert not any(map(is_bad_news, log))
    assert is_bad_news("x\t1\tsoftib check a --plan b") and not is_bad_news("x\t2\tsoftib check a")
