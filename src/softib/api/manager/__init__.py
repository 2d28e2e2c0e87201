"""softib's subnet manager on umad devices (``softib sm run``)."""
