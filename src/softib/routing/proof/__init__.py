"""The proof of forwarding tables: reachability, and freedom from credit loops."""
