"""``torch.distributed`` over InfiniBand verbs: the backend ``softib``.

    import softib.ulp.torch                       # registers the backend
    torch.distributed.init_process_group("softib")

Each process needs an RDMA device: ``softib run --node NODE -- python train.py``. Tensors live in
host memory; data moves by RDMA READ from the sender's tensor into the receiver's, without a copy in
between.
"""

from __future__ import annotations

from typing import Any

import torch.distributed as dist

__all__ = ["BACKEND"]

BACKEND = "softib"


def _create(store: Any, rank: int, size: int, timeout: Any) -> Any:
    """Create a process group for torch. pyverbs is loaded here, so that the import works without
    it."""
    from softib.ulp.torch.group import SoftibProcessGroup
    from softib.ulp.torch.verbs import VerbsLinks

    return SoftibProcessGroup(rank, size, timeout, VerbsLinks(store, rank, size, timeout))


if BACKEND.upper() not in dist.Backend._plugins:
    dist.Backend.register_backend(BACKEND, _create, devices=["cpu"])
