"""The fluid layer: every message is sent at its max-min fair rate, in virtual time."""

from softib.sim.fluid.engine import run

__all__ = ["run"]
