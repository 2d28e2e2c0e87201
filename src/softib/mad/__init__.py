"""Sending MADs: batches of requests are sent, and batches of responses are returned."""
