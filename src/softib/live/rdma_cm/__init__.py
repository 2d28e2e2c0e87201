"""The work of the kernel's rdma_cm on every host: addresses, services, multicast, the ucma commands."""
