"""Simulated runs and their analysis: the outcome, the ports that limited the run with the cause of each, and failures
during the run."""
