"""Commands that install the packages of an extra, suited to the installation of this softib."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["install_command"]


def install_command(extra: str) -> str:
    """Return ``pip install -e '/home/ann/softib[serve]'`` for the folder or file from which pip installed softib
    (PEP 610); otherwise ``pip install 'fastapi>=0.115' …`` with the packages of the extra."""
    from importlib.metadata import PackageNotFoundError, distribution  # 30 ms, with all of email

    try:
        softib = distribution("softib")
    except PackageNotFoundError:  # a checkout on the path
        return f"pip install -e '{Path(__file__).resolve().parents[2]}[{extra}]'"
    try:
        stated = json.loads(softib.read_text("direct_url.json") or "{}")
    except ValueError:
        stated = {}
    url = urlsplit(str(stated.get("url", "")))
    if not url.geturl():
        needs = (
            need.split(";") for need in softib.requires or () if re.search(rf"extra == .{re.escape(extra)}\b", need)
        )
        return f"pip install {' '.join(repr(need[0].strip()) for need in needs)}"
    target = unquote(url.path) if url.scheme == "file" else url.geturl()
    editable = "-e " if stated.get("dir_info", {}).get("editable") else ""
    return f"pip install {editable}'{target}[{extra}]'"
