"""The control socket of a running fabric: server and client."""
