"""README as a package index shows it: links that lead somewhere without the checkout.

A page of an index knows neither ``docs/`` nor ``examples/``. With the project's address (``SOFTIB_PROJECT_URL`` at ``make wheel``) links and
pictures become absolute and name the release; without one they become plain text, and pictures go.
"""

from __future__ import annotations

import re

PICTURE = re.compile(r"!\[([^\]]*)\]\((?!https?:)([^)\s]+)\)\n*")
LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|#)([^)\s]+)\)")
COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)


def for_index(text: str, address: str, version: str) -> str:
    """``text`` of README.md with absolute links below ``address``, or with none where that is empty."""
    base = address.rstrip("/")
    text = COMMENT.sub("", text)
    if base:
        text = PICTURE.sub(rf"![\1]({base}/raw/v{version}/\2)\n\n", text)
        return LINK.sub(rf"[\1]({base}/blob/v{version}/\2)", text)
    return LINK.sub(r"\1", PICTURE.sub("", text))
