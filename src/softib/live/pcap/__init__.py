"""Captures of a running fabric that Wireshark reads."""
