"""Which HTTP status an error is, in one place. Bodies follow the Open Inference Protocol."""

from __future__ import annotations

import math

from parm_ray.core import DeadlineExceeded, InvalidInput, ModelFailed, Overloaded, UnknownModel
from parm_ray.core.errors import PayloadTooLarge


def status_of(error: BaseException) -> tuple[int, dict[str, str]]:
    """Return (status, extra headers) for an error. Unknown errors are 500."""
    match error:
        case PayloadTooLarge():
            return 413, {}
        case InvalidInput():
            return 400, {}
        case UnknownModel():
            return 404, {}
        case Overloaded(retry_after_s=seconds):
            return 503, {"Retry-After": str(max(1, math.ceil(seconds)))}
        case DeadlineExceeded():
            return 504, {}
        case ModelFailed():
            return 502, {}
    return 500, {}
