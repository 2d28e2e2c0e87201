"""What tests of this package share."""

from __future__ import annotations

import shutil
import subprocess

import pytest


def namespaces(*how: str) -> bool:
    return subprocess.run(["unshare", *how, "true"], capture_output=True).returncode == 0


needs_namespace = pytest.mark.skipif(
    not shutil.which("unshare") or not (namespaces("-m") or namespaces("-Ur", "-m")), reason="no mount namespaces here"
)
