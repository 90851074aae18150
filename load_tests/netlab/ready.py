"""`python -m load_tests.netlab.ready URL NODES SECONDS`: waits until a cluster is complete.

Runs inside the frontend's namespace, the only place from which the cluster can be asked.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from load_tests import http_json


def alive(dashboard_url: str) -> int:
    """How many nodes Ray counts as alive. Raises OSError while the dashboard does not answer."""
    summary = http_json.get(f"{dashboard_url}/nodes?view=summary")["data"]["summary"]
    return sum(node["raylet"].get("state") == "ALIVE" for node in summary)


def main(arguments: Sequence[str]) -> int:
    """Exit status 0 once all is there; 1, and a sentence, when the time is over."""
    url, nodes, patience_s = arguments[0], int(arguments[1]), float(arguments[2])
    give_up = time.monotonic() + patience_s
    seen = f"no dashboard at {url}"
    while time.monotonic() < give_up:
        try:
            http_json.get(f"{url}/api/serve/applications/")
            found = alive(url)
            if found >= nodes:
                return 0
            seen = f"{found} of {nodes} nodes are alive"
        except OSError as error:
            seen = f"no dashboard at {url}: {error}"
        time.sleep(0.3)
    print(f"after {patience_s:.0f} s: {seen}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
