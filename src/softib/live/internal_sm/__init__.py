"""Our subnet manager inside the daemon."""
