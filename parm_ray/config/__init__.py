"""Settings, checked at the door."""

from parm_ray.config.auto import AutoSettings
from parm_ray.config.emulation import EmulateSettings
from parm_ray.config.settings import (
    BatchSettings,
    IngressSettings,
    LimitSettings,
    ParityPoolSettings,
    PlanSettings,
    PoolSettings,
    QueueSettings,
    RecordSettings,
    Settings,
    ShadowSettings,
)

__all__ = [
    "AutoSettings",
    "BatchSettings",
    "EmulateSettings",
    "IngressSettings",
    "LimitSettings",
    "ParityPoolSettings",
    "PlanSettings",
    "PoolSettings",
    "QueueSettings",
    "RecordSettings",
    "Settings",
    "ShadowSettings",
]
