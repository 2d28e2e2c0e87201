"""A sweep: discover, assign, route, write, activate. Its phases, what it asks, and what it does
with the answers."""
