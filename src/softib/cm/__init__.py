"""InfiniBand communication management (IBA chapter 12): connections, their messages, and their
timers. It has no I/O."""
