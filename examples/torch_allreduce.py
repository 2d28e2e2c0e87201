"""Ranks that add up a tensor over RDMA.

    torchrun --nproc-per-node 2 --no-python softib run -- python examples/torch_allreduce.py

torchrun says who is which rank, softib run puts rank r on the r-th host of the fabric.
"""

import os

import torch
import torch.distributed as dist

import softib.ulp.torch  # noqa: F401 (registers the backend)

dist.init_process_group("softib")
rank, size = dist.get_rank(), dist.get_world_size()
data = torch.full((1_000_000,), float(rank + 1))
dist.all_reduce(data)
assert data.eq(size * (size + 1) / 2).all()
print(f"rank {rank} of {size} on {os.environ['SOFTIB_PLACE']}: sum {data[0].item():g}", flush=True)
dist.barrier()
dist.destroy_process_group()
