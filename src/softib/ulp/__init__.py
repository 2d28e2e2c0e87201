"""Upper-layer protocols that run over verbs: IPoIB, NVMe over Fabrics, and a torch.distributed backend."""
