"""UFM's and softib's REST interfaces to partitions as a service."""
