"""`python -m load_tests.sim_bench`: queries a second that the simulator does, and its growth with servers.

Each point simulates the same number of queries at half of the servers' capacity, in one process; the
figure is CPU time of that process, which other work on the machine disturbs least.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from parm_ray.codes import make_code
from parm_ray.core import CallId
from parm_ray.groups.lanes import DEPLOYED
from parm_ray.redundancy import Hedge, RedundancyPlan
from parm_ray.sim import PoolSpec, simulate
from parm_ray.workload import poisson

PLANS = ("none", "hedged", "coded", "shared")
SERVERS = (10, 18, 100, 1000)
SLOW_SHARE, SLOW_FACTOR = 0.02, 10.0
LOAD = 0.5


def rate_of(plan: str, servers: int, queries: int, seed: int) -> float:
    """Return queries per second of CPU time."""
    rng = np.random.default_rng(seed)
    factors = np.where(rng.random(3 * queries) < SLOW_SHARE, SLOW_FACTOR, 1.0)
    times = iter((factors * (1 + rng.exponential(0.1, 3 * queries))).tolist())

    def service(server: str, number: int, at: float, call: CallId) -> float:
        return next(times)

    m = servers * 2 // 3
    mean = 1.1 * (1 + SLOW_SHARE * (SLOW_FACTOR - 1))
    arrivals = poisson(LOAD * m / mean, rng, n=queries)
    names = [str(i) for i in range(servers)]
    code = make_code("concat", "slot", 2, 1) if plan in ("coded", "shared") else None
    pools = [PoolSpec(names, [DEPLOYED], service)]
    coded = RedundancyPlan("coded", k=2, r=1, fill_timeout_s=1.0, deadline_s=1e6)
    plans = {
        "none": RedundancyPlan(deadline_s=1e6),
        "hedged": RedundancyPlan("hedged", hedge=Hedge("searched"), deadline_s=1e6),
        "coded": coded,
        "shared": coded,
    }
    if plan == "coded":
        pools = [PoolSpec(names[:m], [DEPLOYED], service), PoolSpec(names[m:], [0], service)]
    elif plan == "shared":
        pools = [PoolSpec(names, [DEPLOYED, 0], service, low=[0], reserve=0.5)]
    began = time.process_time()
    simulate(plans[plan], pools, arrivals, code=code)
    return queries / (time.process_time() - began)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table and return 0."""
    parser = argparse.ArgumentParser(
        prog="python -m load_tests.sim_bench", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--queries", type=int, default=20_000, help="per point (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="the median counts (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    options = parser.parse_args(argv)
    rows: list[dict[str, Any]] = []
    for plan in PLANS:
        found = {
            n: statistics.median(rate_of(plan, n, options.queries, seed) for seed in range(options.repeats))
            for n in SERVERS
        }
        rows.append({"plan": plan, **{str(n): round(rate) for n, rate in found.items()}})
    if options.json:
        print(json.dumps(rows, indent=2))
        return 0
    table = Table("plan", *(f"{n} servers" for n in SERVERS), "10 / 1000", title="queries per second of CPU")
    for row in rows:
        cells = [str(row[str(n)]) for n in SERVERS]
        table.add_row(row["plan"], *cells, f"{row['10'] / row['1000']:.2f}")
    Console().print(table)
    print(f"command: python -m load_tests.sim_bench {' '.join(sys.argv[1:] if argv is None else argv)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
