"""Which HTTP status an error is, in one place. Bodies follow the Open Inference Protocol."""

from __future__ import annotations

import math

from parm_ray.core import DeadlineExceeded, InvalidInput, ModelFailed, Overloaded, UnknownModel
from parm_ray.core.errors import PayloadTooLarge
from parm_ray.routing.fleet.pick import NoEngine

_LONGEST_RETRY_S = 3600


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
            # Written so that a hint that is no number at all becomes the longest one.
            bounded = max(1, seconds) if seconds < _LONGEST_RETRY_S else _LONGEST_RETRY_S
            return 503, {"Retry-After": str(math.ceil(bounded))}
        case NoEngine():
            return 503, {}
        case DeadlineExceeded():
            return 504, {}
        case ModelFailed():
            return 502, {}
    return 500, {}
