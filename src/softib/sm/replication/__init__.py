"""Replication: a softib standby has a copy of the master's state, so that hosts do not notice when
it takes over."""
