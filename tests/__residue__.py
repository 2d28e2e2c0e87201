"""What a run of the tests leaves: ``python -m tests.__residue__ BEFORE`` writes into the file BEFORE what is there, and called again with it
names what came since; the exit code is 1 then.

Looked at: processes that have this run's ``TMPDIR``, and, in CI where nobody else works (``CI`` is set), ``/dev/shm``, the checkout and the
home directory. The caches of the tools and of compiled kernels may stay.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHES = ("__pycache__", ".pytest_cache", ".hypothesis", ".mypy_cache", ".ruff_cache", ".import_linter_cache")
KERNELS = Path(os.environ.get("SOFTIB_CACHE_DIR") or Path.home() / ".cache" / "softib")


def processes() -> list[str]:
    """Command lines of those that were started below this run; itself and what called it are not among them."""
    mark, own = f"TMPDIR={os.environ['TMPDIR']}".encode(), ancestors()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if int(folder.name) not in own and mark in (folder / "environ").read_bytes().split(b"\0"):
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                found += [f"process {folder.name}: {command}"] if command else []  # a zombie has none
        except OSError:  # it has ended
            continue
    return found


def ancestors() -> set[int]:
    """This process, its parent, and so on."""
    pid, found = os.getpid(), set()
    while pid > 1:
        found.add(pid)
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return found


def files() -> list[str]:
    """What is in shared memory, in the checkout beside what git has, and in the home directory with the time of its last change."""
    found = [f"/dev/shm/{name}" for name in os.listdir("/dev/shm")]
    words = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), "status", "--porcelain", "--ignored"]
    changed = subprocess.run(
        words, capture_output=True, text=True, check=False
    ).stdout.splitlines()  # none where it is no clone
    found += [f"{ROOT}: {line}" for line in changed if not any(cache in line for cache in CACHES)]
    for folder, inside, names in os.walk(Path.home()):
        inside[:] = [name for name in inside if Path(folder, name) not in (ROOT, KERNELS)]
        found += [f"{path} ({path.lstat().st_mtime_ns})" for path in (Path(folder, name) for name in names)]
    return found


def main(before: Path) -> int:
    """The exit code."""
    everywhere = files() if os.environ.get("CI") else []
    if not before.is_file():
        before.write_text(json.dumps(everywhere))
        return 0
    known = set(json.loads(before.read_text()))
    left = [*processes(), *(place for place in everywhere if place not in known)]
    for what in left:
        print(f"LEFT BY THE TESTS: {what}")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
