"""The packet layer's kernels, a file a mechanism."""
