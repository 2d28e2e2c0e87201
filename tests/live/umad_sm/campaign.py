"""A campaign of kills that can be cut off and gone on with: each kill is a line of a file, written when the fabric has converged.

``SOFTIB_KILLS_LOG=FILE`` names it; a later run goes on behind its last line. ``python -m tests.live.umad_sm.campaign FILE …`` prints
what there is so far.
"""

from __future__ import annotations

import json
import os
import sys
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
        """One line."""
        most = lambda name: max((k[name] for k in self.kills), default=0.0)
        victims: dict[str, int] = {}
        for kill in self.kills:
            victims[kill["victim"]] = victims.get(kill["victim"], 0) + 1
        masters = sum(kill["was_master"] for kill in self.kills)
        return (
            f"{len(self.kills)} kills ({', '.join(f'{n} of {v}' for v, n in sorted(victims.items()))}; {masters} of a master):"
            f" converged after {most('converged_s'):.1f} s at most, longest loss of a path {most('lost_s'):.2f} s,"
            f" both masters for {most('both_s'):.2f} s at most"
        )


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(f"{argument}: {CampaignLog('', Path(argument)).summary()}")
