"""One simulated run of a workload: its outcome, the ports that limited it and why, and failures
during the run."""
