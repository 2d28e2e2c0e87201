"""Verbs about softib itself."""
