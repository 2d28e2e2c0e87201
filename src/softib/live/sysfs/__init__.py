"""The /sys/class/infiniband of a host."""
