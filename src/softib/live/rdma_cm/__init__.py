"""What the kernel's rdma_cm is on every host: addresses, services, multicast, the ucma commands."""
