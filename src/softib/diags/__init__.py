"""Checks: functions from a fabric to findings, each with places, evidence and advice."""
