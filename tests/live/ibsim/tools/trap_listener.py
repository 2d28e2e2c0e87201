"""Who hears traps: a stock OpenSM by its log, or a program that registers for them."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from pathlib import Path

from tests.live.ibsim.tools.tool_lab import Lab
from tests.live.serving import wait_for

SETTINGS = "overrun_errors_threshold 1\nlocal_phy_errors_threshold 1\nsweep_interval 0\nmax_wire_smps 8\n"


def _number(text: str) -> int:
    return int(text, 0) if re.fullmatch(r"-?\d+|0x[0-9a-fA-F]+", text) else -1


class Heard:
    """OpenSM on the first host of ``lab``; what it was told."""

    def __init__(self, lab: Lab, opensm: str, library: str):
        self.lab, self.log = lab, lab.folder / "opensm.log"
        conf = lab.folder / "opensm.conf"
        conf.write_text(SETTINGS)
        words = [opensm, "-F", str(conf), "-f", str(self.log), "-D", "0x7", "-d2"]  # d2: what it says is there at once
        self.sm = subprocess.Popen(
            words,
            env=lab.environment(library),
            cwd=lab.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        assert wait_for(lambda: "SUBNET UP" in self.text()), self.text()[-2000:]
        self.mark = 0
        self.settle()

    def text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.is_file() else ""

    def notices(self) -> list[dict[str, str]]:
        """Since :meth:`forget`."""
        dumps = re.findall(r"Generic Notice dump:\n((?:\t+.*\n)+)", self.text()[self.mark :])
        return [dict(re.findall(r"^\t+(\w+)\.+(.*)$", d, re.M)) for d in dumps]

    def forget(self) -> None:
        self.mark = len(self.text())

    def rests(self) -> bool:
        """Has OpenSM ended the sweep that it began last? It reads the ports first and clears PortStateChange at the sweep's end:
        a port that changes between the two raises no trap (IBA 14.2.5.4), and is not seen before something else changes."""
        text = self.text()
        ended = max(text.rfind(end) for end in ("SUBNET UP (sweep", "LIGHT SWEEP COMPLETE"))
        return ended > max(text.rfind(begin) for begin in ("Forcing heavy sweep", "INITIATING"))

    def settle(self) -> None:
        """Wait for the end of the sweep that the traps of the first one began: OpenSM drops the whole subnet from a sweep in which its
        own cable is taken, and begins no other (``sweep_interval 0``). It represses a trap before it logs that it sweeps: a thread that
        has to wait for a processor between the two has not begun a sweep that will come."""
        stats = self.lab.daemon_.router.trap_queue.stats
        assert wait_for(lambda: self.lab.do(stats)["pending"] == 0), self.lab.do(stats)
        repressed = self.lab.do(stats)["repressed"]
        begun = lambda: self.text().count("Forcing heavy sweep. Received trap") >= repressed
        assert wait_for(lambda: begun() and self.rests()), (repressed, self.text()[-2000:])

    def of(self, trap: int, **fields: object) -> list[dict[str, str]]:
        """The notices ``trap`` with these ``fields``; waits until there is one. (A device sends a trap again until it is
        repressed: one of the cause before may come late.)"""
        wanted = {"trap_num": trap, **fields}
        mine = lambda: [n for n in self.notices() if all(_number(n.get(k, "-1")) == v for k, v in wanted.items())]
        assert wait_for(mine), (trap, self.notices(), self.text()[-3000:])
        return mine()


PROGRAM = Path(__file__).with_name("trap_program.py")


class Listener:
    """A program of libibumad on a host that has subscribed to every trap."""

    def __init__(self, lab: Lab, library: str, scene: str, *words: str, node: str):
        self.program = subprocess.Popen(
            [sys.executable, "-I", str(PROGRAM), scene, *words],
            env=lab.environment(library, node),
            cwd=lab.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            bufsize=1,
        )
        self.lines: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.program.stdout:
            self.lines.append(line.strip())

    def says(self, pattern: str) -> str:
        found = lambda: next((x for x in self.lines if re.fullmatch(pattern, x)), None)
        assert wait_for(found), (pattern, self.lines)
        return found()

    def stop(self) -> None:
        self.program.kill()
        self.program.wait()
