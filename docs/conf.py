"""Settings of the documentation's generator (Sphinx): ``make docs``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import softib

HERE = Path(__file__).parent
project = "softib"
author = "the softib authors"
release = softib.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.intersphinx"]
intersphinx_mapping: dict[str, tuple[str, None]] = {}
exclude_patterns: list[str] = []
html_theme = "furo"
html_title = "softib: InfiniBand in software"
html_static_path = ["_static"]
html_css_files = ["narrow.css"]
myst_heading_anchors = 4
# Notebooks run while the site is built and show their outputs; a cell that raises fails the build.
nb_execution_mode = "force"
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_execution_excludepatterns = [] if shutil.which("ib_write_bw") else ["notebooks/rdma-and-counters.ipynb"]
nb_merge_streams = True
# The kernel reads no settings of the user's, and does not warn of its sockets, which are on loopback.
ipython = tempfile.TemporaryDirectory(prefix="softib-docs-")  # removed when the build ends
os.environ["IPYTHONDIR"] = ipython.name
(profile := Path(ipython.name, "profile_default")).mkdir()
(profile / "ipython_kernel_config.py").write_text("get_config().IPKernelApp.log_level = 40\n")
myst_enable_extensions = ["colon_fence", "deflist"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
add_module_names = False
# Shell blocks hold placeholders that no lexer knows; they are shown as they stand.
suppress_warnings = ["misc.highlighting_failure"]

# The index of messages: from the source, where they change often.
subprocess.run([sys.executable, HERE / "make_messages.py", HERE / "messages.md"], check=True)
