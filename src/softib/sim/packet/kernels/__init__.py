"""The packet layer's kernels, one file per mechanism."""
