"""What is done to replicas while a scenario runs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from parm_ray.config.strict import Seconds, Strict


class FaultSettings(Strict):
    """One fault, in every repetition at every point.

    kind: "stall", the replica's process is stopped and goes on later; "kill", it dies with what it runs
    and Serve starts another; "cut", its node's link loses all packets, in a lab and in the simulator: it
    computes on, and answers when the link is back. replica: `deployed/0`, its pool (deployed, parity0,
    backup) and its number there; plans without it are spared. at_s: seconds into the repetition. for_s: how
    long a stall or a cut lasts; of a kill, after how long the simulator has a new replica (a cluster takes
    the time that it takes).
    """

    kind: Literal["stall", "kill", "cut"]
    replica: str = Field(pattern=r"^(deployed|parity\d+|backup)/\d+$")
    at_s: Annotated[float, Field(ge=0, le=86_400)]
    for_s: Seconds

    @property
    def pool(self) -> str:
        """The replica's pool."""
        return self.replica.split("/")[0]

    @property
    def number(self) -> int:
        """The replica's number in its pool, from 0."""
        return int(self.replica.split("/")[1])
