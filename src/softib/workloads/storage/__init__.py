"""Storage: requests of clients to targets, and checkpoints of jobs, as messages."""
