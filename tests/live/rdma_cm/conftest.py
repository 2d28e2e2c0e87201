"""Running fabrics for programs over rdma_cm: the fixtures of the verbs library's tests."""

from __future__ import annotations

import subprocess

import pytest

from softib.fabric.topologies.registry import generate
from softib.preload import build
from tests.live.rdma_cm.serving import CmServing
from tests.preload.verbs.conftest import apps, up

__all__ = ["apps", "up"]


HERE = build.HERE / "verbs" / "cm"


@pytest.fixture(scope="module")
def cm_library(tmp_path_factory):
    """The device alone, without the rest of verbs."""
    compiler = build.compiler()
    if compiler is None:
        pytest.skip("no C compiler")
    made = tmp_path_factory.mktemp("lib") / "libcm.so"
    flags = [*build.FLAGS, "-shared"]
    sources = [*sorted(str(p) for p in HERE.glob("*.c")), str(HERE.parent / "memory" / "identity.c")]
    subprocess.run([*compiler.split(), *flags, "-o", str(made), *sources, "-ldl", "-lpthread"], check=True)
    return made


@pytest.fixture
def served(cm_library, own_library):
    s = CmServing(generate("fat-tree", radix=4, levels=2), cm_library, own_library)
    yield s
    s.stop()
