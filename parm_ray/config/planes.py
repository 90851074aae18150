"""How a fleet's control plane decides and its front ends pick; `routing.planes` says what numbers do."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from parm_ray.config.strict import Count, Millis, PositiveMs, Seconds, Strict
from parm_ray.routing.fleet.feedback import Feedback
from parm_ray.routing.planes import (
    AdmissionRule,
    Ages,
    ControlRule,
    FrontEndRule,
    PenaltyRule,
    RetryRule,
)

Share = Annotated[float, Field(ge=0, le=1)]
Between = Annotated[float, Field(gt=0, lt=1)]
Factor = Annotated[float, Field(gt=1, le=1000)]


class PenaltySettings(Strict):
    """Engines that are slower than they should be lose weight; see `routing.planes.PenaltyRule`."""

    deviations: Annotated[float, Field(gt=0, le=1000)] = 4.0
    least_ratio: Factor = 3.0
    slo_ms: PositiveMs | None = None
    failed_share: Between = 0.5
    min_samples: Count = 10
    step: Between = 0.25
    floor: Between = 0.02
    recovery: Factor = 2.0
    probes: Count = 3
    patience: Count = 10
    max_share: Share = 0.5

    def rule(self) -> PenaltyRule:
        """Return it in seconds."""
        same = self.model_dump(exclude={"slo_ms"})
        return PenaltyRule(**same, slo_s=None if self.slo_ms is None else self.slo_ms / 1e3)


class FeedbackSettings(Strict):
    """The controller of policy feedback; see `routing.fleet.feedback.Feedback`."""

    gain: Annotated[float, Field(gt=0, le=100)] = 0.1
    smoothing: Annotated[float, Field(gt=0, le=1)] = 1.0
    max_step: Annotated[float, Field(gt=0, le=1)] = 0.5
    floor: Share = 0.0
    ceiling: Share = 1.0

    @model_validator(mode="after")
    def _bounds_ascend(self) -> FeedbackSettings:
        self.rule()
        return self

    def rule(self) -> Feedback:
        """Return the policy's knobs."""
        return Feedback(**self.model_dump())


class ControlSettings(Strict):
    """The control plane.

    interval_ms: between two decisions. policy: planned, the optimizer; feedback, the baseline. smoothing_s:
    the time that reported rates are averaged over. network: declared round trips, or those that front ends
    measure. stale_s, lost_s: ages of what was heard. history: snapshots that are kept to be looked at.
    num_cpus: of its process.
    """

    interval_ms: Annotated[float, Field(ge=10, le=3_600_000)] = 1000.0
    policy: Literal["planned", "feedback"] = "planned"
    smoothing_s: Annotated[float, Field(ge=0, le=3600)] = 5.0
    network: Literal["declared", "measured"] = "declared"
    stale_s: Seconds = 5.0
    lost_s: Seconds = 180.0
    history: Count = 20
    num_cpus: Annotated[float, Field(ge=0)] = 0.5
    penalty: PenaltySettings = PenaltySettings()
    feedback: FeedbackSettings = FeedbackSettings()

    @model_validator(mode="after")
    def _ages_ascend(self) -> ControlSettings:
        self.rule()
        return self

    def rule(self) -> ControlRule:
        """Return it in seconds."""
        ages = Ages(self.stale_s, self.lost_s)
        return ControlRule(self.policy, self.smoothing_s, ages, self.penalty.rule(), self.feedback.rule())


class RetrySettings(Strict):
    """Retries and hedges of a front end; see `routing.planes.RetryRule`.

    hedge_after_ms: a request that has waited so long is sent to a second engine; null = never.
    """

    most: Share = 0.2
    full_below: Share = 0.5
    none_above: Share = 0.95
    attempts: Annotated[int, Field(ge=1, le=10)] = 3
    backoff_ms: Millis = 25.0
    max_backoff_ms: Millis = 1000.0
    hedge_after_ms: Millis | None = None

    @model_validator(mode="after")
    def _bounds_ascend(self) -> RetrySettings:
        self.rule()
        return self

    def rule(self) -> RetryRule:
        """Return it in seconds."""
        return RetryRule(
            self.most,
            self.full_below,
            self.none_above,
            self.attempts,
            self.backoff_ms / 1e3,
            self.max_backoff_ms / 1e3,
        )


class AdmissionSettings(Strict):
    """Who is turned away when there is too much; see `routing.planes.AdmissionRule`."""

    burst: Annotated[float, Field(gt=0, le=1000)] = 1.5
    reserve: Annotated[float, Field(ge=0, lt=1)] = 0.2
    min_in_flight: Count = 2
    slack: Annotated[float, Field(ge=1, le=10)] = 1.05
    burst_ms: PositiveMs = 500.0

    def rule(self) -> AdmissionRule:
        """Return it in seconds."""
        return AdmissionRule(self.burst, self.reserve, self.min_in_flight, self.slack, self.burst_ms / 1e3)


class DataPlaneSettings(Strict):
    """Every front end.

    pull_ms: between reports, and looks for a new snapshot. stale_s, expired_s: ages of the one in use.
    timeout_ms: an engine's call that takes longer has failed. emulate_network: calls take the declared round
    trip longer, for regions that are all on one machine.
    """

    pull_ms: Annotated[float, Field(ge=10, le=3_600_000)] = 1000.0
    stale_s: Seconds = 10.0
    expired_s: Seconds = 180.0
    timeout_ms: PositiveMs = 30_000.0
    emulate_network: bool = False
    retry: RetrySettings = RetrySettings()
    admission: AdmissionSettings = AdmissionSettings()

    @model_validator(mode="after")
    def _ages_ascend(self) -> DataPlaneSettings:
        self.rule()
        return self

    def rule(self) -> FrontEndRule:
        """Return it in seconds."""
        return FrontEndRule(self.admission.rule(), self.retry.rule(), self.stale_s, self.expired_s)
