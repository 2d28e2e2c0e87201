"""What results consist of: findings, problems of reading, changes, kinds of topology with their parameters."""

from __future__ import annotations

from softib.diags.finding import Finding
from softib.fabric.diff import Change
from softib.fabric.formats.base import Problem
from softib.fabric.topologies.params import Kind, Parameter

__all__ = ["Change", "Finding", "Kind", "Parameter", "Problem"]
