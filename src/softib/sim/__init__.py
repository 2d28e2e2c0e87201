"""Traffic in virtual time and without a clock: messages in, times and counters out, by the static,
the fluid and the packet layer."""
