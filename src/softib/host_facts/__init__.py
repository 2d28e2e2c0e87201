"""Facts of one host (its adapters, ports and PCIe links), read from /sys or a copy of it, and their comparison with a
manifest."""
