"""GPUDirect RDMA: the path between a GPU and its adapter, and the cost of this path. An adapter reads and writes a
GPU's memory with peer-to-peer DMA. This reaches the rate of the link only if both are below one PCIe switch; through a
root complex, between processors, or through host memory it is slower.
"""

from __future__ import annotations

from softib.workloads.parameters import Section

__all__ = ["GPUDIRECT", "JOINED", "dma_share", "dma_us"]

GPUDIRECT = ("pix", "phb", "sys", "off")
"""Path between GPU and NIC: through one PCIe switch, through the root complex of one processor,
over the link between processors, or without peer-to-peer DMA (NCCL's PATH_PIX, PATH_PHB, PATH_SYS;
NCCL_NET_GDR_LEVEL)."""
JOINED = {
    "pix": "behind one PCIe switch",
    "phb": "at one root complex",
    "sys": "across processors",
    "off": "through host memory",
}


def dma_share(level: str, v: Section) -> float:
    """Return the share of the link's rate that DMA between GPU and adapter reaches in one direction."""
    return 1.0 if level == "pix" else v[f"gpudirect_{level}_share"]


def dma_us(level: str, v: Section) -> float:
    """Return the time in µs by which a hop between nodes takes longer than one between GPUs that share a PCIe switch
    with their adapters."""
    if level == "pix":
        return 0.0
    return 2 * v["bounce"] if level == "off" else v[f"gpudirect_{level}"]
