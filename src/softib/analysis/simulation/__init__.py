"""A simulated run of a workload: its messages, what it took, which ports limited it and why, what
ran when something failed."""
