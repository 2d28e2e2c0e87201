"""What README and docs tell people to type, taken from the pages as it stands there.

A page is a Markdown file; its blocks are those in fences of a language that something can run. Comments before a block, which
readers do not see, say what it wants:

    <!-- not run: WHY -->          nobody can (it serves until Ctrl-C, it is the tests themselves)
    <!-- run by: tests/FILE.py --> a test of its own, which reads the block from the page
    <!-- needs: ibstat torch -->   programs, `torch`, `pyverbs`, `header:FILE`, `wheel:NAME` (tests/preload/foreign_wheels.py)
    <!-- slow -->                  only `make test-all` runs it
    <!-- shown -->                 what the blocks above print: every line stands in their output, in this order; … is anything
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

from tests.preload.foreign_wheels import folder

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted(p for p in (ROOT / "docs").rglob("*.md") if p.name != "messages.md" and "decisions" not in p.parts),
]
RUN = ("sh", "shell", "bash", "python", "yaml", "c")
"""Languages of blocks that are run."""
SHOWN = ("", "text", "csv", "json", "mermaid")
"""Languages of blocks that are only looked at."""
LINKED_PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    ROOT / "examples" / "README.md",
    *sorted(p for p in (ROOT / "docs").rglob("*.md") if p.name != "messages.md"),
]
"""Pages whose links and names of files are checked: those of the root, the examples' list, all of docs."""
FENCE = re.compile(
    r"^(?P<fence>```+)(?P<language>\S*)[^\n]*\n(?P<text>.*?)^(?P=fence)[ \t]*$", re.MULTILINE | re.DOTALL
)
COMMENT = re.compile(r"<!--\s*(not run|run by|needs|slow|shown)(?::[ \t]*((?:(?!-->).)*?))?\s*-->[ \t]*\n\Z", re.DOTALL)
COMMAND = re.compile(r"^ {4}(?:softib|make|pip|python|sudo|apt-get|mpirun|torchrun)\b", re.MULTILINE)
SBIN = "/usr/local/sbin:/usr/sbin:/sbin"


@dataclass
class Block:
    """One block: ``line`` of its fence in ``page``; ``not_run`` why nobody runs it; ``run_by`` the test of its own; ``needs`` what must be installed; ``shown`` is it output?"""

    page: Path
    line: int
    language: str
    text: str
    not_run: str = ""
    run_by: str = ""
    needs: list[str] = field(default_factory=list)
    slow: bool = False
    shown: bool = False

    @property
    def name(self) -> str:
        """``docs/live.md:10``."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def missing(self) -> list[str]:
        """What it needs and this machine has not."""
        return [n for n in self.needs if not is_here(n)]


def is_here(need: str) -> bool:
    """Is the program, module or header here?"""
    if need == "torch":
        return importlib.util.find_spec("torch") is not None
    if need == "pyverbs":
        return any(Path("/usr/lib/python3/dist-packages/pyverbs").glob("device.cpython*.so"))
    if need.startswith("wheel:"):
        return (folder() / need.removeprefix("wheel:") / "holds").is_file()
    if need.startswith("header:"):
        return Path("/usr/include", need.removeprefix("header:")).is_file()
    if need.startswith("/"):
        return os.path.exists(need)
    return shutil.which(need) is not None or shutil.which(need, path=SBIN) is not None


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page, in order."""
    text = page.read_text()
    found = []
    for hit in FENCE.finditer(text):
        block = Block(page, text.count("\n", 0, hit.start()) + 1, hit["language"], hit["text"])
        before = text[: hit.start()]
        while comment := COMMENT.search(before):
            if comment[1] == "not run":
                block.not_run = comment[2] or "?"
            elif comment[1] == "run by":
                block.run_by = comment[2]
            elif comment[1] == "needs":
                block.needs = comment[2].split()
            elif comment[1] == "shown":
                block.shown = True
            else:
                block.slow = True
            before = before[: comment.start()]
        found.append(block)
    return found


def unseen(block: Block, output: str) -> str:
    """The first line of a block that ``output`` does not have (after the lines before it); empty where it has them all."""
    at = 0
    for line in filter(None, map(str.split, block.text.splitlines())):
        pattern = r"\s+".join(".*".join(map(re.escape, word.split("…"))) for word in line)
        hit = re.compile(pattern).search(output, at)
        if hit is None:
            return " ".join(line)
        at = hit.end()
    return ""


def script_of(blocks: list[Block]) -> str:
    """One bash script of the blocks of a page. What fails is written to ``failed``, a line each: block, exit code, command.
    Commands in the background are waited for."""
    lines = [
        "set -o pipefail",
        "block=start",
        # Each $! as it comes: bash forgets jobs that end before `jobs -p`, but `wait PID` still knows how they ended.
        "background= newest=",
        """trap '[ "${!:-}" = "$newest" ] || { newest=$!; background="$background $!"; }' DEBUG""",
        """trap 'code=$?; printf "%s\\t%s\\t%s\\n" "$block" "$code" "${BASH_COMMAND%%$'"'"'\\n'"'"'*}" >> failed' ERR""",
    ]
    for block in blocks:
        lines += [f"block={shlex.quote(block.name)}", 'echo "== $block at $SECONDS s"']
        if block.language == "yaml":
            name = re.match(r"# (\S+\.ya?ml)\n", block.text)
            target = name[1] if name else "examples/from-the-page.yaml"
            lines += [f"cat > {target} << 'END OF BLOCK'", block.text.rstrip("\n"), "END OF BLOCK"]
            lines.append(f"softib convert {target} from-the-page.ibnetdiscover")
        elif block.language == "python":
            lines += ["python - << 'END OF BLOCK'", textwrap.dedent(block.text).rstrip("\n"), "END OF BLOCK"]
        elif block.language == "c":
            lines += ["cc -x c -c -o /dev/null - << 'END OF BLOCK'", block.text.rstrip("\n"), "END OF BLOCK"]
        else:
            lines.append(block.text.rstrip("\n"))
            lines.append("for job in $background; do wait $job; done; background=")
    return "\n".join(lines) + "\n"
