"""Analysis of a simulated run: its outcome, the ports that limited it and why, and failures during
the run."""
