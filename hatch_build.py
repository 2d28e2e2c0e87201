"""Two hooks of the build. One compiles the preload libraries when the package is built or
installed, also in place (``pip install -e .``); the other makes of README.md what a package index
shows, where links into the checkout lead nowhere, and writes its addresses.

Without a C compiler, or without the headers that ``libsoftib-verbs.so`` needs, the package is built
all the same. Who installs is told what is missing, on the terminal too, for pip shows nothing of a
build that succeeds; ``softib run`` says it again.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

PRELOAD = Path("src", "softib", "preload")


class PreloadHook(BuildHookInterface):
    """Adds the library to wheels of this platform; source distributions carry the C files alone."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it packs."""
        if self.target_name != "wheel" or not sys.platform.startswith("linux"):
            return
        spec = importlib.util.spec_from_file_location("softib_preload_build", Path(self.root, PRELOAD, "build.py"))
        assert spec is not None and spec.loader is not None
        build = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(build)
        libraries, failed, why = [], [], ""
        for compile_one, library in build.LIBRARIES:
            try:
                libraries.append(compile_one())
            except (RuntimeError, OSError) as error:
                failed.append(library.name)
                why = str(error)
        if failed:
            self._tell(f"softib is installed without preload libraries: {build.not_built(failed, why)}")
        if not libraries:
            return
        opened = [build.OPENED_AS] if build.OPENED_AS.is_file() else []
        build_data["artifacts"] += [str(library.relative_to(self.root)) for library in (*libraries, *opened)]
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"

    def _tell(self, text: str) -> None:
        self.app.display_warning(text)
        if sys.stderr.isatty():
            return
        try:
            with open("/dev/tty", "w") as terminal:
                print(text, file=terminal)
        except OSError:  # nobody sits there
            pass


PAGES = {
    "Repository": "",
    "Documentation": "/blob/main/docs/index.md",
    "Changelog": "/blob/main/CHANGELOG.md",
    "Issues": "/issues",
}
"""``project.urls``, below the address of the repository."""


class ReadmeHook(MetadataHookInterface):
    """The long description and the addresses. ``SOFTIB_REPOSITORY`` is the address of the public
    repository, where relative links of the description lead."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Called by hatchling for ``dynamic = ["readme"]``."""
        base = os.environ.get("SOFTIB_REPOSITORY", "").rstrip("/")
        metadata["urls"] = {name: base + path for name, path in PAGES.items()} if base else {}
        text = index_readme(Path(self.root, "README.md").read_text("utf-8"), base)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


RELATIVE = re.compile(
    r"(?P<image>!?)\[(?P<text>[^\]\[]*(?:`[^`]*`[^\]\[]*)*)\]\((?!https?:|#|mailto:)(?P<path>[^)\s]+)\)"
)


def index_readme(text: str, base: str = "") -> str:
    """``text`` without comments, its relative links below ``base`` (a repository's address,
    ``…/blob/main/``). Without one a link is its text, and a picture is left out: an index would
    show both broken."""
    text = re.sub(r"<!--.*?-->\n?", "", text, flags=re.DOTALL)

    def absolute(hit: re.Match[str]) -> str:
        if base:
            view = "raw" if hit["image"] else "blob"
            return f"{hit['image']}[{hit['text']}]({base.rstrip('/')}/{view}/main/{hit['path']})"
        return "" if hit["image"] else hit["text"]

    return RELATIVE.sub(absolute, text)
