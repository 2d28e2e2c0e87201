"""How a user installs what an extra of softib needs, said with what this softib was installed from."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, distribution
from urllib.parse import unquote, urlsplit

__all__ = ["install_command"]


def install_command(extra: str) -> str:
    """``pip install -e '/home/ann/softib[serve]'``: of the folder or file from which pip installed
    softib (PEP 610), else of an index."""
    try:
        stated = json.loads(distribution("softib").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        stated = {}
    url = urlsplit(str(stated.get("url", "")))
    target = unquote(url.path) if url.scheme == "file" else url.geturl() or "softib"
    editable = "-e " if stated.get("dir_info", {}).get("editable") else ""
    return f"pip install {editable}'{target}[{extra}]'"
