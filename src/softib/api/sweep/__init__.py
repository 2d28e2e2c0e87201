"""``sweep``: one workload over a grid of parameters."""
