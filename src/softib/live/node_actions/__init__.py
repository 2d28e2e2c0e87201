"""Scheduler actions after a failed check of a host: drain it in Slurm, label and taint it in
Kubernetes."""
