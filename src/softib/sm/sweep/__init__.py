"""A sweep: discover, assign, route, write, activate. Phases of a sweep, its requests, and the handling of answers."""
