"""Vocabulary shared by every layer: ids, outcomes, records, errors, clock, observer."""

from parm_ray.core.by_type import ByType
from parm_ray.core.clock import Clock, ManualClock, monotonic
from parm_ray.core.discipline import DISCIPLINES, Discipline
from parm_ray.core.errors import (
    ConfigError,
    DeadlineExceeded,
    IllegalEvent,
    InvalidInput,
    ModelFailed,
    NotRecoverable,
    Overloaded,
    ParmError,
    UnknownModel,
)
from parm_ray.core.ids import CallId, CallKind, GroupId, QueryId
from parm_ray.core.observer import NullObserver, Observer
from parm_ray.core.outcome import Outcome
from parm_ray.core.record import QueryRecord

__all__ = [
    "DISCIPLINES",
    "ByType",
    "CallId",
    "CallKind",
    "Clock",
    "ConfigError",
    "DeadlineExceeded",
    "Discipline",
    "GroupId",
    "IllegalEvent",
    "InvalidInput",
    "ManualClock",
    "ModelFailed",
    "NotRecoverable",
    "NullObserver",
    "Observer",
    "Outcome",
    "Overloaded",
    "ParmError",
    "QueryId",
    "QueryRecord",
    "UnknownModel",
    "monotonic",
]
