"""Small messages between two processes on two processors, under several builds of the library in turns.

    python bench/verbs_hot.py [--rounds 14] SOURCE ...

Each SOURCE is a ``src`` of this repository at some commit; the first is what the others are compared with. Every build has a
fabric of its own and a pair of programs (``verbs_hot.c``) that stays; a round plays one burst of each, so that all meet the same
machine. Rows: half a round trip of 8-octet inline writes, and the time of a 2-octet inline send or write; medians of the bursts'
medians (ns), and the median of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.preload.verbs.applications import FABRIC, SOURCE, A, Applications, B

BURSTS = {"lat": ("second", "first", 30_000), "send": ("take", "send", 200_000), "write": ("", "write", 200_000)}


class Build(Applications):
    """A fabric of one build, and the two ends."""

    def __init__(self, source: str, program: Path):
        self.folder = Path(tempfile.mkdtemp(prefix="softib-hot-", dir="/dev/shm"))
        self.folder.chmod(0o700)
        self.env = {**os.environ, "XDG_RUNTIME_DIR": str(self.folder), "PYTHONPATH": str(Path(source).resolve())}
        (self.folder / "f.yaml").write_text(FABRIC)
        subprocess.run(
            [sys.executable, "-m", "softib.preload.build"], env=self.env, check=True, stdout=subprocess.DEVNULL
        )
        self("up", "f.yaml", "--detach")
        self.ends = [
            subprocess.Popen(
                self.on(node, "taskset", "-c", str(i), str(program), str(self.folder / f"area-{i}")),
                env=self.env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for i, node in enumerate((A, B))
        ]
        for end, line in zip(self.ends, [end.stdout.readline() for end in self.ends][::-1], strict=True):
            self.send(end, line)

    @staticmethod
    def send(end: subprocess.Popen, line: str) -> None:
        end.stdin.write(line)
        end.stdin.flush()

    def run(self, what: str) -> float:
        """The median of a burst's samples, in ns."""
        *ends, n = BURSTS[what]
        busy = [(end, word) for end, word in zip(self.ends, ends, strict=True) if word]
        for end, word in busy:
            self.send(end, f"{word} {n}\n")
        return [float(end.stdout.readline().split()[0]) for end, _ in busy][-1]

    def close(self) -> None:
        for end in self.ends:
            end.stdin.close()
            end.wait(60)
        super().close()


def main() -> None:
    """Print a table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=14)
    options.add_argument("source", nargs="*", default=[str(SOURCE)])
    given = options.parse_args()
    builds: list[Build] = []
    with tempfile.TemporaryDirectory() as scratch:
        program = Path(scratch, "verbs_hot")
        subprocess.run(
            ["gcc", "-O2", "-o", str(program), str(Path(__file__).with_suffix(".c")), "-libverbs"], check=True
        )
        try:
            builds += [Build(source, program) for source in given.source]
            for what in BURSTS:
                rounds = [[build.run(what) for build in builds] for _ in range(given.rounds + 1)][1:]
                for i, source in enumerate(given.source):
                    ratio = statistics.median(one[i] / one[0] for one in rounds)
                    print(
                        f"{what:6} {statistics.median(one[i] for one in rounds):7.1f} ns {ratio:6.3f}  {source}",
                        flush=True,
                    )
        finally:
            for build in builds:
                build.close()


if __name__ == "__main__":
    main()
