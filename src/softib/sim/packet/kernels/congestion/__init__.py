"""Congestion control: InfiniBand's, DCQCN, ECN."""
