"""Shared parts of verbs: options, output, completion, plain text, usage errors."""
