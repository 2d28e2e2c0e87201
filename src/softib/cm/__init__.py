"""InfiniBand communication management (IBA chapter 12) without I/O: connections, their messages,
their timers."""
