"""The event loop, its calendar, and rows of packets."""
