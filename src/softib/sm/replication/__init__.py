"""Replication: the copy of a master's state on a softib standby, so that a takeover changes nothing for hosts."""
