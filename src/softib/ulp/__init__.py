"""Upper-layer protocols, which run over verbs: IPoIB, NVMe over Fabrics, and a backend of torch.distributed."""
