"""The simulator against queueing theory: closed forms, with tolerances from the runs' own spread."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from parm_ray.codes import make_code
from parm_ray.groups.lanes import DEPLOYED
from parm_ray.redundancy import Hedge, RedundancyPlan
from parm_ray.sim import PoolSpec, Simulated, simulate
from parm_ray.workload import poisson

N, RUNS = 6000, 5
Draw = Callable[[np.random.Generator], float]

exponential: Draw = lambda rng: rng.exponential()  # noqa: E731


def pool(n: int, draw: Draw, seed: int, lane: int = DEPLOYED, **more: object) -> PoolSpec:
    rng = np.random.default_rng([seed, lane + 2])
    return PoolSpec(
        [f"{lane}/{i}" for i in range(n)], [lane], lambda server, number, t, call: draw(rng), **more
    )


def run(plan: RedundancyPlan, pools: list[PoolSpec], rate: float, seed: int, **more: object) -> Simulated:
    arrivals = poisson(rate, np.random.default_rng([seed, 99]), n=N)
    return simulate(plan, pools, arrivals, seed=seed, **more)


def agree(mean_of: Callable[[int], float], expected: float, slack: float = 0.02) -> None:
    """The mean over independent runs is within four standard errors, plus `slack` for the empty start."""
    found = np.array([mean_of(seed) for seed in range(RUNS)])
    error = found.std(ddof=1) / math.sqrt(RUNS)
    assert abs(found.mean() - expected) <= 4 * error + slack * expected, (found, expected)


def erlang_c(servers: int, load: float) -> float:
    """P(wait) in M/M/c at `load` = lambda / mu erlangs (textbook)."""
    terms = [load**i / math.factorial(i) for i in range(servers)]
    last = load**servers / math.factorial(servers) * servers / (servers - load)
    return last / (sum(terms) + last)


NONE = RedundancyPlan(deadline_s=1e9)


def test_one_server_with_exponential_service_is_m_m_1() -> None:
    """E[T] = 1 / (mu - lambda)."""
    agree(lambda s: run(NONE, [pool(1, exponential, s)], 0.6, s).latency.mean(), 1 / 0.4, slack=0.05)


def test_one_server_with_fixed_service_is_m_d_1() -> None:
    """E[T] = 1 + rho / (2 (1 - rho)) (Pollaczek and Khinchine)."""
    expected = 1 + 0.7 / 0.6
    agree(lambda s: run(NONE, [pool(1, lambda rng: 1.0, s)], 0.7, s).latency.mean(), expected)


def test_one_server_with_bimodal_service_is_m_g_1() -> None:
    """E[T] = m1 + lambda m2 / (2 (1 - lambda m1)); 1 (95 %) or 10 (5 %): m1 = 1.45, m2 = 5.95."""
    draw: Draw = lambda rng: 10.0 if rng.random() < 0.05 else 1.0  # noqa: E731
    expected = 1.45 + 0.3 * 5.95 / (2 * (1 - 0.3 * 1.45))
    agree(lambda s: run(NONE, [pool(1, draw, s)], 0.3, s).latency.mean(), expected, slack=0.05)


def test_several_servers_behind_one_queue_are_m_m_c() -> None:
    """M/M/4 at 2.8 erlangs: E[T] = 1.357212 (facts, T6)."""
    expected = 1 + erlang_c(4, 2.8) / (4 - 2.8)
    assert expected == pytest.approx(1.357212, abs=1e-6)
    agree(lambda s: run(NONE, [pool(4, exponential, s)], 2.8, s).latency.mean(), expected)


def test_random_assignment_makes_each_server_an_m_m_1() -> None:
    def mean(seed: int) -> float:
        return run(NONE, [pool(4, exponential, seed, discipline="random")], 2.0, seed).latency.mean()

    agree(mean, 1 / (1 - 0.5), slack=0.05)


def test_power_of_two_is_far_shorter_than_random_and_longer_than_one_queue() -> None:
    """Mitzenmacher 2001; at 85 % of 10 servers, where random's mean is 6.67."""
    means = {
        rule: np.mean(
            [run(NONE, [pool(10, exponential, s, discipline=rule)], 8.5, s).latency.mean() for s in range(3)]
        )
        for rule in ("single", "power_of_two", "random")
    }
    assert means["single"] < means["power_of_two"] < 0.6 * means["random"]


def test_copies_on_every_server_with_instant_cancel_are_one_fast_server() -> None:
    """(n,1) fork-join, n = 3, Exp(1), lambda 1.5: E[T] = 2/3, E[C] = 1 (facts, T1).

    Each copy is a server's own queue's, so all queues move in step.
    """
    from parm_ray.sim import Costs

    plan = RedundancyPlan("replicated", copies=3, deadline_s=1e9)

    def simulated(seed: int) -> Simulated:
        pools = [pool(3, exponential, seed, discipline="round_robin")]
        return run(plan, pools, 1.5, seed, costs=Costs(cancel_s=0.0))

    agree(lambda s: simulated(s).latency.mean(), 2 / 3)
    agree(lambda s: sum(simulated(s).busy_s.values()) / N, 1.0)


def test_keeping_the_first_copy_to_start_costs_one_service_and_waits_like_one_queue() -> None:
    """Fork-early-cancel (4,1), Exp(1), lambda 2.8: E[T] = 1.357212, E[C] = 1 (facts, T6)."""
    plan = RedundancyPlan("replicated", copies=4, keep="start", deadline_s=1e9)

    def simulated(seed: int) -> Simulated:
        return run(plan, [pool(4, exponential, seed, discipline="round_robin")], 2.8, seed)

    agree(lambda s: simulated(s).latency.mean(), 1.357212)
    agree(lambda s: sum(simulated(s).busy_s.values()) / N, 1.0)


@pytest.mark.parametrize(("k", "expected"), [(2, 2 / 3), (3, 3 / 4), (4, 4 / 5)])
def test_coding_without_queues_has_the_mean_of_the_order_statistics(k: int, expected: float) -> None:
    """P(T > t) = S (1 - F^k): E[T] = k / (k + 1) for Exp(1) (facts, T10), group members all at once."""
    code = make_code("sum", "subtract", k, 1)
    plan = RedundancyPlan("coded", k=k, r=1, fill_timeout_s=1e9, deadline_s=1e9)

    def mean(seed: int) -> float:
        arrivals = np.repeat(np.arange(N // 12) * 1e3, k)
        pools = [pool(k, exponential, seed), pool(1, exponential, seed, 0)]
        return simulate(plan, pools, arrivals, code=code, seed=seed).latency.mean()

    agree(mean, expected, slack=0.0)


@pytest.mark.parametrize(("most", "time", "cost"), [(1, 1.07, 1.14), (2, 1.053375, 1.110125)])
def test_a_hedge_with_cancel_has_the_closed_form_of_the_bimodal_example(
    most: int, time: float, cost: float
) -> None:
    """X = 1 (95 %) or 10 (5 %), d = 1: E[T] = 1.07, E[C] = 1.14 (facts, T11), no queueing.

    With a second hedge: E[T] = .95 + .0475 * 2 + .0025 (.95 * 3 + .05 * 10), and calls run T, T - 1, T - 2.
    """
    from parm_ray.sim import Costs

    draw: Draw = lambda rng: 10.0 if rng.random() < 0.05 else 1.0  # noqa: E731
    hedge = Hedge("fixed", 1.0 + 1e-9, max_hedges=most, budget_ratio=1.0)
    plan = RedundancyPlan("hedged", hedge=hedge, deadline_s=1e9)

    def simulated(seed: int) -> Simulated:
        return run(plan, [pool(60, draw, seed)], 1.0, seed, costs=Costs(cancel_s=0.0))

    agree(lambda s: simulated(s).latency.mean(), time, slack=0.002)
    agree(lambda s: sum(simulated(s).busy_s.values()) / N, cost, slack=0.002)


def test_hedges_do_not_feed_on_themselves() -> None:
    """Facts 3d: hedges by time since arrival, without cancel and budget, collapse at 52 % of 12 servers.

    Here a delay counts from the start of service, and a copy that still waits when its call ends is
    withdrawn: even hedging nearly everything (d below the body) stays far from collapse. The budget
    then bounds what is paid for it.
    """

    def draw(rng: np.random.Generator) -> float:
        return (1 + rng.exponential(0.1)) * (10 if rng.random() < 0.02 else 1)

    def hedged(ratio: float, delay: float) -> Simulated:
        hedge = Hedge("fixed", delay, budget_ratio=ratio, budget_floor_per_s=0)
        return run(RedundancyPlan("hedged", hedge=hedge, deadline_s=1e9), [pool(12, draw, 1)], 6.0, 1)

    everything, budgeted, late = hedged(1.0, 0.5), hedged(0.05, 0.5), hedged(0.1, 1.6)
    assert np.percentile(everything.latency, 99) < 5
    assert np.percentile(late.latency, 99) < 3.5
    copies = [found.calls[DEPLOYED] - N for found in (everything, budgeted, late)]
    assert copies[0] > 0.3 * N
    assert copies[1] <= 0.05 * N + 50
    assert copies[2] < 0.03 * N
