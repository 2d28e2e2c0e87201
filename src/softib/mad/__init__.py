"""Sending MADs: a batch of requests in, a batch of responses out."""
