"""Small blocking HTTP calls between load phases: JSON in, JSON out. Not for the load itself."""

from __future__ import annotations

import json
import urllib.request
from typing import Any


def get(url: str, *, timeout_s: float = 5.0) -> Any:
    """GET a JSON document. Raises urllib.error.HTTPError for a status of 400 or more, OSError otherwise."""
    with _opener.open(url, timeout=timeout_s) as response:
        return json.load(response)


def ready(url: str, *, timeout_s: float = 5.0) -> bool:
    """Whether a health endpoint answers with status 200."""
    try:
        with _opener.open(url, timeout=timeout_s) as response:
            return bool(response.status == 200)
    except OSError:
        return False


# No proxies: everything these tests talk to was started by them or named by the user.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
