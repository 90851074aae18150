"""Settings of a server that changes its plan by itself."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from parm_ray.config.strict import Seconds, Strict

AutoKind = Literal["none", "hedged", "replicated", "coded"]
AUTO_KINDS: tuple[AutoKind, ...] = ("none", "hedged", "replicated", "coded")


class AutoSettings(Strict):
    """An adviser watches the ingresses and changes the plan when another is clearly better.

    objective: what is made small, "mean" or a percentile such as "p99.9"; the nearest that the last minute's
    calls tell. interval_s: from one advice to the next. gain, repeats, dwell_s: another plan must be
    predicted better by this share, and by more than chance, in so many advices in a row, and the last change
    be so long ago. kinds: what it may change to; "none" always. max_extra_work: server seconds beyond those
    of first calls, as a share of them. max_accuracy_loss: share of all answers that reconstructions may make
    wrong; null = any. reconstruction_loss: by how much less often a reconstruction is right; null = as often
    as late originals disagree with them. num_cpus: of the adviser; an advice takes 10 to 30 s of one.
    """

    objective: Annotated[str, Field(pattern=r"^(mean|p[1-9]\d?(\.\d+)?)$")] = "p99"
    interval_s: Seconds = 30.0
    gain: Annotated[float, Field(ge=0, lt=1)] = 0.1
    repeats: Annotated[int, Field(ge=1, le=100)] = 2
    dwell_s: Annotated[float, Field(ge=0, le=86_400)] = 120.0
    kinds: tuple[AutoKind, ...] = AUTO_KINDS
    max_extra_work: Annotated[float, Field(ge=0, le=10)] = 1.0
    max_accuracy_loss: Annotated[float, Field(ge=0, le=1)] | None = None
    reconstruction_loss: Annotated[float, Field(ge=0, le=1)] | None = None
    max_copies: Annotated[int, Field(ge=1, le=8)] = 3
    num_cpus: Annotated[float, Field(ge=0)] = 1.0
    seed: Annotated[int, Field(ge=0, le=1_000_000)] = 0

    @property
    def exchange_s(self) -> float:
        """How often an ingress reports what it has seen and asks what to do."""
        return min(10.0, self.interval_s / 4)
