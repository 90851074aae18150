"""Typed settings: the argument of the Serve application builder and the validator of YAML files.

Durations carry their unit in the name. Unknown keys are refused with their path.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from parm_ray.config.auto import AutoSettings
from parm_ray.config.emulation import EmulateSettings
from parm_ray.config.strict import Count, Millis, PositiveMs, Strict
from parm_ray.core import Discipline
from parm_ray.redundancy import MAX_SHARE, DelayRule, Hedge, Keep, PlanKind, RedundancyPlan, Shadow


class PoolSettings(Strict):
    """One pool of replicas. `slots_per_replica` calls are sent to a replica at a time."""

    artifact: str = Field(min_length=1, description="directory with manifest.json and weights")
    replicas: Count = 1
    slots_per_replica: Annotated[int, Field(ge=1, le=64)] = 1
    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: Annotated[int, Field(ge=1, le=256)] = 1
    num_cpus: Annotated[float, Field(ge=0)] = 1.0
    num_gpus: Annotated[float, Field(ge=0)] = 0.0
    resources: dict[str, float] = Field(default_factory=dict)
    max_replicas_per_node: Annotated[int, Field(ge=1, le=100)] | None = None
    health_check_period_s: Annotated[float, Field(gt=0)] = 2.0
    health_check_timeout_s: Annotated[float, Field(gt=0)] = 10.0
    emulate: EmulateSettings = EmulateSettings()


class ParityPoolSettings(PoolSettings):
    """A pool of parity-model replicas for one parity row."""


class HedgeSettings(Strict):
    """When a slow batch is sent to a second replica, and how often at most; see `redundancy.hedge.Hedge`.

    delay_ms counts from the start of service. For quantile and searched it is what is used until enough
    calls have been seen; null = no hedges until then.
    """

    rule: DelayRule = "searched"
    delay_ms: Millis | None = None
    quantile: Annotated[float, Field(gt=0, lt=1)] = 0.99
    max_hedges: Annotated[int, Field(ge=1, le=10)] = 2
    budget_ratio: Annotated[float, Field(ge=0, le=1)] = 0.1
    budget_floor_per_s: Annotated[float, Field(ge=0, le=10_000)] = 1.0

    @model_validator(mode="after")
    def _fixed_has_a_delay(self) -> HedgeSettings:
        if self.rule == "fixed" and self.delay_ms is None:
            raise ValueError("delay_ms: expected milliseconds for rule fixed, got none")
        return self

    def hedge(self) -> Hedge:
        """Return it in the machine's units (seconds)."""
        return Hedge(
            rule=self.rule,
            delay_s=None if self.delay_ms is None else self.delay_ms / 1e3,
            quantile=self.quantile,
            max_hedges=self.max_hedges,
            budget_ratio=self.budget_ratio,
            budget_floor_per_s=self.budget_floor_per_s,
        )


_ONLY_FOR: dict[str, tuple[PlanKind, ...]] = {
    **dict.fromkeys(("encoder", "decoder", "k", "r", "fill_timeout_ms", "eager_share"), ("coded",)),
    **dict.fromkeys(("max_queued_parity", "pool", "idle_reserve"), ("coded",)),
    **dict.fromkeys(("copies", "keep"), ("replicated",)),
    **dict.fromkeys(("copy_share", "hedge"), ("hedged", "coded")),
    "hold_off_ms": ("coded", "backup"),
}


class PlanSettings(Strict):
    """The redundancy plan; see `redundancy.plan.RedundancyPlan`, and parm_ray/codes/README.md for codes.

    encoder .. eager_share and max_queued_parity .. idle_reserve are for kind coded; hold_off_ms for coded
    and backup. pool: "dedicated", parity models have replicas of their own; "shared", every replica of the
    deployed model holds the parity models, too, and runs them when it would be idle. idle_reserve: for
    shared, the share of all slots that starting a parity query must leave idle; "load" = as large a share
    as queries keep busy. copies, keep: for kind replicated. copy_share, hedge: for kinds hedged (there is
    a default hedge) and coded.
    """

    kind: PlanKind = "none"
    encoder: str = "concat"
    decoder: str = "slot"
    k: Annotated[int, Field(ge=2, le=64)] = 2
    r: Annotated[int, Field(ge=1, le=8)] = 1
    fill_timeout_ms: Millis = 20.0
    eager_share: Annotated[float, Field(ge=0, le=1)] | None = None
    hold_off_ms: Millis = 0.0
    max_queued_parity: Count = 64
    pool: Literal["dedicated", "shared"] = "dedicated"
    idle_reserve: Annotated[float, Field(ge=0, lt=1)] | Literal["load"] = "load"
    copies: Annotated[int, Field(ge=2, le=8)] = 2
    keep: Keep = "finish"
    copy_share: Annotated[float, Field(ge=0, le=1)] | None = None
    hedge: HedgeSettings | None = None

    @model_validator(mode="after")
    def _goes_with_kind(self) -> PlanSettings:
        if self.pool == "dedicated" and self.idle_reserve != "load":
            raise ValueError(f"idle_reserve: expected with pool shared alone, got {self.idle_reserve}")
        for name, legal in _ONLY_FOR.items():
            # A default that is written down does nothing: settings that were dumped whole can be read again.
            given = getattr(self, name) != type(self).model_fields[name].default
            if given and self.kind not in legal:
                raise ValueError(f"{name}: only for plan.kind {' or '.join(legal)}, this one is {self.kind}")
        return self


class BatchSettings(Strict):
    """Queries per batch, and how long an incomplete batch waits for more."""

    max_size: Annotated[int, Field(ge=1, le=1024)] = 1
    wait_ms: Millis = 2.0


class QueueSettings(Strict):
    """The ingress's queue of batches that wait for a replica."""

    discipline: Discipline = "single"
    max_queued: Annotated[int, Field(ge=1, le=1_000_000)] = 256


class LimitSettings(Strict):
    """What a request may be at most; beyond it is refused with a 4xx."""

    max_body_bytes: Annotated[int, Field(ge=1024)] = 32 * 1024 * 1024
    max_queries: Annotated[int, Field(ge=1, le=4096)] = 64
    max_image_bytes: Annotated[int, Field(ge=64)] = 16 * 1024 * 1024
    max_image_pixels: Annotated[int, Field(ge=64)] = 50_000_000
    refuse_nan: bool = True


class IngressSettings(Strict):
    """The ingress deployment. Each replica of it forms its own groups.

    engine: a fleet's front ends send requests here, and hear at once how many replicas there are.
    """

    replicas: Annotated[int, Field(ge=1, le=64)] = 1
    num_cpus: Annotated[float, Field(ge=0)] = 1.0
    max_ongoing_requests: Annotated[int, Field(ge=1)] = 1000
    trace_groups: Annotated[int, Field(ge=0, le=10_000)] = 0
    engine: bool = False


class RecordSettings(Strict):
    """A sample of the queries, with the deployed model's answers, in files. Queries are user data.

    share: of all queries, each drawn by itself. max_queries: at most so many per ingress replica from
    its start to its end. A file is written when it has rotate_rows rows, or rotate_s seconds after its
    first one. seed: of the draw; None = a new one at each start.
    """

    directory: str = Field(min_length=1, description="where files go; made if missing")
    share: Annotated[float, Field(gt=0, le=1)] = 0.01
    max_queries: Annotated[int, Field(ge=1, le=100_000_000)] = 100_000
    rotate_rows: Annotated[int, Field(ge=1, le=100_000)] = 1000
    rotate_s: Annotated[float, Field(gt=0, le=86_400)] = 60.0
    seed: Annotated[int, Field(ge=0)] | None = None


class ShadowSettings(Strict):
    """Batches that run on a second replica, too, only to measure it; see `redundancy.shadow.Shadow`."""

    share: Annotated[float, Field(ge=0, le=MAX_SHARE)] = 0.01
    budget_ratio: Annotated[float, Field(ge=0, le=MAX_SHARE)] = 0.02
    budget_floor_per_s: Annotated[float, Field(ge=0, le=1000)] = 0.2

    def shadow(self) -> Shadow:
        """Return it as the pool takes it."""
        return Shadow(self.share, self.budget_ratio, self.budget_floor_per_s)


class Settings(Strict):
    """Everything `parm_ray.serve.app:build` takes; `args:` of a Serve YAML file."""

    name: str | None = Field(default=None, description="served model name; None = the manifest's")
    model: PoolSettings
    plan: PlanSettings = PlanSettings()
    parity: tuple[ParityPoolSettings, ...] = ()
    backup: PoolSettings | None = Field(default=None, description="the smaller model of plan.kind backup")
    batch: BatchSettings = BatchSettings()
    queue: QueueSettings = QueueSettings()
    deadline_ms: PositiveMs = 5000.0
    default_answer: Literal["uniform"] | tuple[float, ...] | None = None
    crash_retries: Annotated[int, Field(ge=0, le=10)] = 1
    limits: LimitSettings = LimitSettings()
    ingress: IngressSettings = IngressSettings()
    record: RecordSettings | None = Field(default=None, description="None = nothing is recorded")
    shadow: ShadowSettings | None = Field(default=None, description="None = nothing is run twice to measure")
    auto: AutoSettings | None = Field(default=None, description="None = the plan stays as it is")

    @model_validator(mode="after")
    def _plan_has_what_it_needs(self) -> Settings:
        coded = self.plan.kind == "coded"
        if coded and len(self.parity) != self.plan.r:
            raise ValueError(
                f"parity: expected {self.plan.r} pool(s), one per parity row (plan.r), got {len(self.parity)}"
            )
        if not coded and self.parity:
            raise ValueError(
                f"parity: expected no pool for plan.kind {self.plan.kind}, got {len(self.parity)}"
            )
        if self.plan.kind == "default" and self.default_answer is None:
            raise ValueError('default_answer: expected "uniform" or a vector for plan.kind default, got none')
        if (self.plan.kind == "backup") != (self.backup is not None):
            raise ValueError(
                f"backup: expected a pool for plan.kind backup and no other, got {self.backup is not None}"
            )
        if self.plan.pool == "shared":
            for row, pool in enumerate(self.parity):
                alone = sorted(pool.model_fields_set - {"artifact", "emulate"})
                if alone:
                    raise ValueError(
                        f"parity[{row}].{alone[0]}: not with plan.pool shared, where parity models run on "
                        "the replicas of `model`"
                    )
        self._auto_can_be_advised()
        if self.model.emulate.lose != "none" and not coded:
            raise ValueError(f"model.emulate.lose: expected none for plan.kind {self.plan.kind}")
        for other in ("hedge", "copy_share"):
            if self.model.emulate.lose != "none" and getattr(self.plan, other) is not None:
                raise ValueError(
                    f"model.emulate.lose: expected none with plan.{other}, which would answer for it"
                )
        for row, pool in enumerate(self.parity):
            if pool.emulate.lose != "none":
                raise ValueError(
                    f"parity[{row}].emulate.lose: expected none, only the deployed pool can lose"
                )
        return self

    def _auto_can_be_advised(self) -> None:
        """The plan is what an adviser starts with, and its pools are those that there are."""
        if self.auto is None:
            return
        if self.plan.kind == "backup":
            raise ValueError("auto: expected none for plan.kind backup, which is never advised")
        if self.plan.kind not in (*self.auto.kinds, "none", "default"):
            raise ValueError(
                f"auto.kinds: expected plan.kind {self.plan.kind} among them, got {list(self.auto.kinds)}"
            )
        if self.plan.kind == "coded" and (self.plan.r > 1 or self.plan.encoder == "learned"):
            raise ValueError("auto: expected plan.r 1 and an encoder that is not learned, to be simulated")
        if self.model.emulate.lose != "none":
            raise ValueError("model.emulate.lose: expected none with auto, the losses are of one plan")

    def redundancy_plan(self) -> RedundancyPlan:
        """Return the plan in the machine's units (seconds)."""
        plan = self.plan
        coded, hedged = plan.kind == "coded", plan.kind == "hedged"
        hedge = plan.hedge or (HedgeSettings() if hedged else None)
        reserve = plan.idle_reserve if plan.pool == "shared" else 0.0
        return RedundancyPlan(
            kind=plan.kind,
            k=plan.k if coded else 1,
            r=plan.r if coded else 0,
            fill_timeout_s=plan.fill_timeout_ms / 1e3,
            eager_share=plan.eager_share,
            hold_off_s=plan.hold_off_ms / 1e3,
            copies=plan.copies if plan.kind == "replicated" else 1,
            keep=plan.keep,
            copy_share=plan.copy_share,
            hedge=None if hedge is None else hedge.hedge(),
            backup=plan.kind == "backup",
            idle_reserve=None if reserve == "load" else reserve,
            deadline_s=self.deadline_ms / 1e3,
            has_default=self.default_answer is not None,
            crash_retries=self.crash_retries,
        )
