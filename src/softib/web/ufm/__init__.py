"""UFM's REST interface, and softib's own, to partitions as a service."""
