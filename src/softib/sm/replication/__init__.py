"""Replication: a copy of the master's state on a softib standby, so that hosts do not notice a takeover."""
