"""The paper's cluster in the simulator, calibrated on Equal-Resources alone.

What is given: five figures of Equal-Resources (median, mean, p99, p99.5, p99.9) at one rate with a number
of concurrent shuffles. What is assumed:

- At that load nearly nobody queues on m + m/k servers, so the figures are of service times.
- An undisturbed call takes `top` less an exponential time of mean `spread` (the published mean lies below
  the median: the body leans to the left).
- A call on a node that takes part in n shuffles is disturbed with probability 1 - (1 - hit)^n, and then
  takes an exponential time of mean `delay` more. That gives the upper tail its straight line.
- Shuffles join two nodes chosen at random and last 1 to 3 seconds (128-256 MB there and back at 1-2 Gbit/s);
  nodes are disturbed independently of what they serve; parity queries are no longer than others.

Nothing of ParM's own figures is used.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from functools import partial

import numpy as np

from parm_ray.codes import make_code
from parm_ray.core import CallId, CallKind
from parm_ray.groups.lanes import BACKUP, DEPLOYED
from parm_ray.redundancy import RedundancyPlan
from parm_ray.sim import Costs, PoolSpec, Service, Simulated, simulate
from parm_ray.sim.background import Shuffles, Tenant
from parm_ray.workload import poisson

SHUFFLE_S = (1.0, 3.0)
NEVER_S = 1e6


@dataclass(frozen=True)
class EqualResources:
    """Published figures of Equal-Resources, milliseconds, and where they were measured.

    servers: m + m/k of them; shuffles: concurrent ones.
    """

    median: float
    mean: float
    p99: float
    p99_5: float
    p99_9: float
    rate: float
    servers: int
    shuffles: int


GPU = EqualResources(20.3, 20.2, 33.3, 38.3, 52.8, rate=270.0, servers=18, shuffles=4)
"""Fig. 10a and its text: 12 + 6 instances with one K80 each, k = 2."""


@dataclass(frozen=True)
class Calibration:
    """Service times, seconds; see the module's text. hit: 0..1, per shuffle a node takes part in."""

    top: float
    spread: float
    hit: float
    delay: float

    @property
    def mean_undisturbed(self) -> float:
        """Expected seconds of a call that nothing disturbs."""
        return self.top - self.spread


def calibrate(figures: EqualResources) -> Calibration:
    """Fit the service times to the figures: the tail first, then the body to what it leaves of the mean."""
    disturbed, delay = tail_of(figures)
    mean_body = figures.mean - disturbed * delay
    # Of top - Exp(spread): the mean is top - spread, the median top - spread ln 2. The disturbed calls lie
    # above the median, so that of the body is its (0.5 / (1 - disturbed))-quantile.
    share = 0.5 / (1 - disturbed)
    spread = (figures.median - mean_body) / (1 + math.log(share))
    return Calibration((mean_body + spread) / 1e3, spread / 1e3, hit_of(disturbed, figures), delay / 1e3)


def tail_of(figures: EqualResources) -> tuple[float, float]:
    """Return (disturbed, delay): the share of calls, and the mean of what they take more, milliseconds.

    The tail disturbed x exp(-(t - median) / delay), by least squares of its logarithm at the three
    percentiles.
    """
    over = np.array([figures.p99, figures.p99_5, figures.p99_9]) - figures.median
    slope, intercept = np.polyfit(over, np.log([0.01, 0.005, 0.001]), 1)
    return math.exp(float(intercept)), float(-1 / slope)


def hit_of(disturbed: float, figures: EqualResources) -> float:
    """Return the probability that one shuffle on its node disturbs a call; may exceed 1 if it cannot be.

    disturbed = 1 - E[(1 - hit)^n], n the shuffles on a node: Binomial(shuffles, 2 / servers).
    """
    return (1 - (1 - disturbed) ** (1 / figures.shuffles)) / (2 / figures.servers)


@dataclass(frozen=True)
class PaperCase:
    """One simulated setting. m: servers without redundancy; tenant_nodes, tenant_rate: a second model.

    backup_speed: how many times faster the approximate backup is. fill_timeout_s: the paper has none.
    """

    plan: str
    rate: float
    m: int = 12
    k: int = 2
    shuffles: int = 4
    fill_timeout_s: float = NEVER_S
    eager_share: float | None = None
    copy_share: float | None = None
    idle_reserve: float = 0.05
    hold_off_s: float = 0.0
    tenant_nodes: int = 0
    tenant_rate: float = 0.0
    backup_speed: float = 1.15
    encode_s: float = 0.000153


def simulate_case(case: PaperCase, fit: Calibration, queries: int, seed: int) -> Simulated:
    """Simulate one setting.

    plan: "equal_resources", "parm" (sum / subtract), "slot", "shared_slot" (all servers hold both models)
    or "backup".
    """
    spare = case.m // case.k
    servers = [f"{i}" for i in range(case.m + spare)]
    service = _service(case, fit, servers, seed)
    planned = partial(
        RedundancyPlan,
        deadline_s=NEVER_S,
        fill_timeout_s=case.fill_timeout_s,
        eager_share=case.eager_share,
        copy_share=case.copy_share,
        hold_off_s=case.hold_off_s,
    )
    code = None
    pools = [PoolSpec(servers[: case.m], [DEPLOYED], service)]
    if case.plan == "equal_resources":
        plan = planned()
        pools = [PoolSpec(servers, [DEPLOYED], service)]
    elif case.plan == "backup":
        plan = planned("backup", backup=True)
        pools.append(PoolSpec(servers[case.m :], [BACKUP], service))
    else:
        encoder, decoder = ("sum", "subtract") if case.plan == "parm" else ("concat", "slot")
        code = make_code(encoder, decoder, case.k, 1)
        plan = planned("coded", k=case.k, r=1)
        if case.plan == "shared_slot":
            pools = [PoolSpec(servers, [DEPLOYED, 0], service, low=[0], reserve=case.idle_reserve)]
        else:
            pools.append(PoolSpec(servers[case.m :], [0], service))
    arrivals = poisson(case.rate, np.random.default_rng([seed, 7]), n=queries)
    return simulate(plan, pools, arrivals, code=code, costs=Costs(encode_s=case.encode_s), seed=seed)


def _service(case: PaperCase, fit: Calibration, servers: list[str], seed: int) -> Service:
    shuffles = Shuffles(servers, case.shuffles, SHUFFLE_S, seed)
    rng = random.Random(f"service/{seed}")
    tenants = {
        server: Tenant(case.tenant_rate / case.tenant_nodes, fit.mean_undisturbed, f"{seed}/{server}")
        for server in servers[:: max(1, len(servers) // max(1, case.tenant_nodes))][: case.tenant_nodes]
    }

    def seconds(server: str, number: int, at: float, call: CallId) -> float:
        body = max(fit.top - rng.expovariate(1 / fit.spread), 0.5 * fit.mean_undisturbed)
        if call.kind is CallKind.BACKUP:
            body /= case.backup_speed
        if (met := shuffles.on(server, at)) and rng.random() < 1 - (1 - fit.hit) ** met:
            body += rng.expovariate(1 / fit.delay)
        tenant = tenants.get(server)
        return body if tenant is None else tenant.lengthen(body)

    return seconds
