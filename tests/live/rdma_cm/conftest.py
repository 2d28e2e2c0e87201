"""Running fabrics for programs over rdma_cm: the fixtures of the verbs library's tests."""

from __future__ import annotations

from tests.preload.verbs.conftest import apps, up

__all__ = ["apps", "up"]
