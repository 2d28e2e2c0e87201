"""Settings of the documentation's generator (Sphinx): ``make docs``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import softib

HERE = Path(__file__).parent
project = "softib"
author = "the softib authors"
release = softib.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.intersphinx"]
intersphinx_mapping: dict[str, tuple[str, None]] = {}
exclude_patterns: list[str] = []
html_theme = "furo"
html_title = "softib: InfiniBand in software"
html_static_path = ["_static"]
html_css_files = ["narrow.css"]
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "deflist"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
add_module_names = False
# Shell blocks hold placeholders that no lexer knows; they are shown as they stand.
suppress_warnings = ["misc.highlighting_failure"]

# The index of messages: from the source, where they change often.
subprocess.run([sys.executable, HERE / "make_messages.py", HERE / "messages.md"], check=True)
