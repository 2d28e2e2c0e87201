"""An exporter that a test has started."""

from __future__ import annotations

import subprocess


def address_of(exporter: subprocess.Popen[str]) -> str:
    """The address that it prints, after lines of progress where its first round takes long."""
    for line in exporter.stderr or ():
        if "http://" in line:
            return line.split()[-1]
    raise AssertionError("the exporter has ended")
