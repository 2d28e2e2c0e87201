"""A sweep: discover, assign, route, write, activate. Its phases, its requests, and the handling of answers."""
