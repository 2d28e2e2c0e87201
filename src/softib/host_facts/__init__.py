"""Facts of one host: its adapters, ports and PCIe links, from /sys or a copy of it; compared with a manifest."""
