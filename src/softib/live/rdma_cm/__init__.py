"""The daemon's replacement for the rdma_cm of every host's kernel: addresses, services, multicast, the ucma
commands."""
