"""softib's subnet manager inside the daemon."""
