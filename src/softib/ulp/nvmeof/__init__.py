"""NVMe over Fabrics over RDMA: a target that exports files as namespaces, and an initiator.

The protocol is NVMe over Fabrics 1.1 with its RDMA binding (section 7.3). Connections, admin commands and
pages are Python; the loops that move data are compiled kernels, which call the verbs of libibverbs.
"""
