"""softib's subnet manager on umad devices: what ``softib sm run`` is."""
