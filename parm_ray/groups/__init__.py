"""The coding-group machine: pure, shared by the served and the simulated driver."""

from parm_ray.groups.machine import GroupMachine
from parm_ray.groups.transitions import CALLS, PHASES, CallState, CallStep, Phase, Step, mermaid

__all__ = ["CALLS", "PHASES", "CallState", "CallStep", "GroupMachine", "Phase", "Step", "mermaid"]
