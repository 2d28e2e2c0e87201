"""Compiles the preload libraries when the package is built or installed, also in place (``pip install -e .``).

Without a C compiler, or without the headers that ``libsoftib-verbs.so`` needs, the package is built all the same;
``softib run`` then says what is missing.
"""

from __future__ import annotations

import importlib.util
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

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
        libraries = []
        for compile_one in (build.compile_library, build.compile_verbs):
            try:
                libraries.append(compile_one())
            except (RuntimeError, OSError) as error:
                self.app.display_warning(f"a preload library is not built: {error}")
        if not libraries:
            return
        build_data["artifacts"] += [str(library.relative_to(self.root)) for library in libraries]
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
