"""The event loop, its calendar of events, and the pools of packets."""
