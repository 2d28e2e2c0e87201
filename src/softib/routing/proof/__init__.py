"""The proof of forwarding tables: reachability, and dependencies between channels."""
