"""A campaign of kills that can be cut off and gone on with: each kill is a line of a file, written when the fabric has converged.

``SOFTIB_KILLS_LOG=FILE`` names it; a later run continues after its last line (``make kills``).
``python -m tests.live.umad_sm.campaign FILE …`` prints a summary.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

__all__ = ["CampaignLog"]

LOG_VARIABLE = "SOFTIB_KILLS_LOG"


class CampaignLog:
    """``kills`` are the lines so far, of this run and of those before it. Without a file they are kept in memory alone."""

    def __init__(self, name: str, path: Path | None = None):
        folder = os.environ.get(LOG_VARIABLE)
        self.path = path if path is not None else Path(f"{folder}-{name}") if folder else None
        self.kills: list[dict[str, Any]] = []
        if self.path is not None and self.path.is_file():
            lines = self.path.read_text().splitlines()
            self.kills = [json.loads(line) for line in lines if line.endswith("}")]  # the last one may be cut off

    def note(self, **what: Any) -> None:
        """One kill is survived."""
        self.kills.append(what)
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps(what) + "\n")

    def summary(self) -> str:
        """One line: kills by victim, and the longest of each time (names that end in ``_s``)."""
        victims = Counter(kill["victim"] for kill in self.kills)
        times = sorted({name for kill in self.kills for name in kill if name.endswith("_s")})
        longest = (
            f"{name.removesuffix('_s')} {max(k.get(name, 0.0) for k in self.kills):.2f} s at most" for name in times
        )
        killed = [", ".join(f"{n} of {v}" for v, n in sorted(victims.items()))]
        known = [kill["was_master"] for kill in self.kills if "was_master" in kill]
        if known:
            killed.append(f"{sum(known)} of a master")
        return f"{len(self.kills)} kills ({'; '.join(killed)}): " + ", ".join(longest)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(f"{argument}: {CampaignLog('', Path(argument)).summary()}")
