"""Storage as messages: requests of clients to targets, and checkpoints of jobs."""
