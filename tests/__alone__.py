"""Run what failed once more, alone: ``python -m tests.__alone__`` after a pytest that began with ``--cache-clear`` (docs/decisions/0013).

A test that passes here failed because of what ran beside it, or of a race that is rarer than its second try: it is named, so that somebody
looks for the cause. More than three failures are no accident; the exit code is 1, and nothing runs.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

MOST = 3
FAILED = Path(".pytest_cache/v/cache/lastfailed")


def main(options: list[str]) -> int:
    """``options`` go to pytest; its exit code."""
    failed = sorted(json.loads(FAILED.read_text())) if FAILED.is_file() else []
    if not 0 < len(failed) <= MOST or not all("::" in name for name in failed):
        return 1
    print(f"== {len(failed)} failed beside others: once more, alone", flush=True)
    code = subprocess.run([sys.executable, "-m", "pytest", "-q", "-n", "0", *options, *failed], check=False).returncode
    for name in failed if code == 0 else []:
        print(f"FAILED BESIDE OTHERS, PASSED ALONE: {name}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
