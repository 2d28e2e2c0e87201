"""Faults in a running fabric (``softib fault``)."""
