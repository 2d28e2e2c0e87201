"""The umad library under sanitizers."""

from __future__ import annotations

import subprocess

import pytest

from softib.preload import build


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory):
    """The library under AddressSanitizer and UBSan, and what must be loaded before it."""
    if build.compiler() is None:
        pytest.skip("no C compiler")
    more = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer")
    try:
        library = build.compile_library(tmp_path_factory.mktemp("asan") / "libsoftib-umad.so", more)
    except RuntimeError as error:
        pytest.skip(f"no AddressSanitizer: {error}")
    find = lambda name: subprocess.run(
        ["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True
    ).stdout.strip()
    return library, find("libasan.so")
