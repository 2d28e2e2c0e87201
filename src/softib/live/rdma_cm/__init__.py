"""The work of the kernel's rdma_cm for every host: addresses, services, multicast, the ucma commands."""
