"""What a simulated run must hold whatever the plan: everything ends, and is counted once."""

from __future__ import annotations

import numpy as np
import pytest

from parm_ray.codes import make_code
from parm_ray.core import Outcome
from parm_ray.groups.lanes import BACKUP, DEPLOYED
from parm_ray.redundancy import Hedge, RedundancyPlan
from parm_ray.sim import Costs, Outage, PoolSpec, simulate
from parm_ray.workload import poisson

SLOT = make_code("concat", "slot", 2, 1)


def pool(n: int, lane: int = DEPLOYED, seconds: float = 1.0, **more: object) -> PoolSpec:
    lanes = more.pop("lanes", [lane])
    return PoolSpec([f"{lane}/{i}" for i in range(n)], lanes, lambda s, i, t, call: seconds, **more)


def arrivals(n: int = 400, rate: float = 1.0, seed: int = 0) -> np.ndarray:
    return poisson(rate, np.random.default_rng(seed), n=n)


def test_the_same_seed_gives_the_same_run() -> None:
    def run() -> np.ndarray:
        rng = np.random.default_rng(1)
        spec = PoolSpec(["a", "b", "c"], [DEPLOYED], lambda s, i, t, call: rng.exponential())
        plan = RedundancyPlan("hedged", hedge=Hedge("searched"))
        return simulate(plan, [spec], arrivals(), seed=3).latency

    assert (run() == run()).all()


def test_a_deadline_ends_a_query_and_a_default_answers_it() -> None:
    """One server, calls of 10 s, a deadline of 2: the first answer never comes in time."""
    for default, outcome in ((False, Outcome.FAILED), (True, Outcome.DEFAULT)):
        plan = RedundancyPlan(deadline_s=2.0, has_default=default)
        found = simulate(plan, [pool(1, seconds=10.0)], np.array([0.0, 1.0]))
        assert found.share(outcome) == 1
        assert (found.latency == (2.0 if default else np.inf)).all()


def test_parities_are_one_to_k_and_extra_work_says_so() -> None:
    plan = RedundancyPlan("coded", k=2, r=1, fill_timeout_s=100.0, deadline_s=1e6)
    found = simulate(plan, [pool(8), pool(4, 0)], arrivals(), code=SLOT)
    assert found.calls == {DEPLOYED: 400, 0: 200}
    assert found.extra_work == pytest.approx(0.5)
    assert set(found.slot.tolist()) == {0, 1}


def test_a_fill_timeout_protects_a_query_that_finds_no_company() -> None:
    """One query, its server takes 10 s, the parity 1: answered when timeout and parity have passed."""
    plan = RedundancyPlan("coded", k=2, r=1, fill_timeout_s=0.5, deadline_s=1e6)
    pools = [pool(1, seconds=10.0), pool(1, 0, seconds=1.0)]
    found = simulate(plan, pools, np.array([0.0]), code=SLOT, costs=Costs(encode_s=0.1, decode_s=0.2))
    assert found.latency[0] == pytest.approx(0.5 + 0.1 + 1.0 + 0.2)
    assert found.share(Outcome.RECONSTRUCTED) == 1


def test_in_a_shared_pool_parity_runs_only_when_enough_slots_stay_idle() -> None:
    """Three servers, two queries at once: one is left. A reserve of half of them forbids to take it."""
    plan = RedundancyPlan("coded", k=2, r=1, deadline_s=1e6)

    def parities(reserve: float) -> int:
        spec = pool(3, lanes=[DEPLOYED, 0], low=[0], reserve=reserve)
        return simulate(plan, [spec], np.array([0.0, 0.0]), code=SLOT).calls[0]

    assert parities(0.0) == 1
    assert parities(0.5) == 0


def test_a_server_that_dies_is_retried_elsewhere_and_comes_back() -> None:
    plan = RedundancyPlan(crash_retries=1, deadline_s=1e6)
    spec = pool(2, seconds=4.0)
    found = simulate(plan, [spec], np.array([0.0, 0.0]), outages=[Outage("-1/0", 1.0, 2.0)])
    assert found.share(Outcome.ORIGINAL) == 1
    assert sorted(found.latency.tolist()) == [4.0, 6.0]


def test_without_retries_what_a_dead_server_ran_fails() -> None:
    plan = RedundancyPlan(crash_retries=0, deadline_s=1e6)
    found = simulate(plan, [pool(2, seconds=4.0)], np.array([0.0, 0.0]), outages=[Outage("-1/0", 1.0)])
    assert found.share(Outcome.FAILED) == 0.5


def test_a_running_loser_is_stopped_only_where_calls_can_be_stopped() -> None:
    """Two copies, 1 s and 9 s: the second runs on, or is stopped at 1 s and costs `cancel_s` more."""

    def busy(cancel_s: float | None) -> float:
        spec = PoolSpec(["a", "b"], [DEPLOYED], lambda s, i, t, call: 1.0 if s == "a" else 9.0)
        plan = RedundancyPlan("replicated", copies=2, deadline_s=1e6)
        return simulate(plan, [spec], np.array([0.0]), costs=Costs(cancel_s=cancel_s)).busy_s[DEPLOYED]

    assert busy(None) == 10.0
    assert busy(0.0) == 2.0
    assert busy(0.5) == 2.5


@pytest.mark.parametrize("lanes", [[DEPLOYED], [DEPLOYED, 0, 0], [DEPLOYED, 0, BACKUP]])
def test_pools_that_do_not_fit_the_plan_are_refused(lanes: list[int]) -> None:
    plan = RedundancyPlan("coded", k=2, r=1)
    with pytest.raises(ValueError, match="lanes"):
        simulate(plan, [pool(1, lane) for lane in lanes], np.array([0.0]), code=SLOT)


def test_times_that_go_back_are_refused() -> None:
    with pytest.raises(ValueError, match="planned"):
        simulate(RedundancyPlan(), [pool(1)], np.array([1.0, 0.5]))


def test_no_queries_are_no_trouble() -> None:
    assert len(simulate(RedundancyPlan(), [pool(1)], np.array([])).latency) == 0


def test_an_eager_plan_waits_for_company_only_while_parity_servers_are_busy() -> None:
    """Queries at 0, 0.5 and 0.6 s; parity queries take a second.

    Never eager: the first two share a group. One parity server: the first takes it at once, and while it is
    busy the other two must share. Two: of them one is idle when the second comes, and none for the third,
    which waits until its fill timeout.
    """

    def groups(share: float | None, servers: int) -> list[int]:
        plan = RedundancyPlan("coded", k=2, r=1, fill_timeout_s=9.0, eager_share=share, deadline_s=1e6)
        pools = [pool(4, seconds=2.0), pool(servers, 0)]
        return simulate(plan, pools, np.array([0.0, 0.5, 0.6]), code=SLOT).group.tolist()

    assert groups(None, 2) == [0, 0, 1]
    assert groups(0.5, 1) == [0, 1, 1]
    assert groups(0.5, 2) == [0, 1, 2]
    assert groups(1.0, 2) == [0, 1, 1]
    assert groups(0.0, 1) == [0, 1, 2]


def test_copies_are_sent_while_the_deployed_pool_is_idle_enough() -> None:
    """Queries at 0, 0.1 and 0.2 s, calls of a second, four servers: idle shares 1, 1/2 and 0 with copies.

    The copy of the first takes the second server, so the second query finds half of them idle.
    """

    def calls(share: float | None) -> int:
        plan = RedundancyPlan("hedged", copy_share=share, hedge=Hedge("fixed", delay_s=50.0), deadline_s=1e6)
        return simulate(plan, [pool(4)], np.array([0.0, 0.1, 0.2])).calls[DEPLOYED]

    assert calls(None) == 3
    assert calls(1.0) == 4
    assert calls(0.5) == 5
    # However small the share: the last query finds one server idle, and a copy would only wait.
    assert calls(0.0) == 5


def test_a_copy_that_was_sent_because_servers_were_idle_answers_for_a_slow_call() -> None:
    """The first server takes ten times as long."""
    spec = PoolSpec(["a", "b"], [DEPLOYED], lambda s, i, t, call: 10.0 if s == "a" else 1.0)
    plan = RedundancyPlan("coded", k=2, r=1, copy_share=1.0, fill_timeout_s=9.0, deadline_s=1e6)
    found = simulate(plan, [spec, pool(1, 0, seconds=20.0)], np.array([0.0]), code=SLOT)
    assert found.latency[0] == pytest.approx(1.0)
    assert found.share(Outcome.COPY) in (0.0, 1.0)


def test_utilisation_counts_slots_and_the_lanes_of_the_pool_it_is_asked_for() -> None:
    rate = arrivals(800, 2.0)
    four = simulate(RedundancyPlan(deadline_s=1e6), [pool(1, slots=4)], rate)
    assert four.utilisation() == pytest.approx(2.0 / 4, abs=0.06)
    code = make_code("weighted", "subtract", 2, 2)
    plan = RedundancyPlan("coded", k=2, r=2, fill_timeout_s=1e5, deadline_s=1e6)
    both = simulate(plan, [pool(6), pool(6, 0, lanes=[0, 1])], rate, code=code)
    assert both.utilisation(DEPLOYED) == pytest.approx(2 / 6, abs=0.04)
    assert both.utilisation(1) == pytest.approx(2 * 1 / 6, abs=0.04)


def test_extra_work_is_of_seconds_not_of_calls() -> None:
    """Batches are no saving on one call a query; a copy stopped at once costs what it ran."""
    batched = simulate(RedundancyPlan(deadline_s=1e6), [pool(4)], arrivals(), batch_size=4, batch_wait_s=9.0)
    assert batched.extra_work == pytest.approx(0.0)
    plan = RedundancyPlan("replicated", copies=2, deadline_s=1e6)
    spec = PoolSpec(["a", "b"], [DEPLOYED], lambda s, i, t, call: 1.0 if s == "a" else 9.0)
    stopped = simulate(plan, [spec], np.array([0.0]), costs=Costs(cancel_s=0.0))
    assert stopped.extra_work == pytest.approx(1.0)
    kept = simulate(plan, [spec], np.array([0.0]))
    assert kept.extra_work == pytest.approx(9.0)


def test_a_hedge_without_delay_and_budget_does_not_stand_still() -> None:
    hedge = Hedge("fixed", 0.0, budget_ratio=0.0, budget_floor_per_s=0.0)
    found = simulate(RedundancyPlan("hedged", hedge=hedge, deadline_s=1e6), [pool(4)], arrivals(20))
    assert found.share(Outcome.ORIGINAL) == 1


@pytest.mark.parametrize(
    "outages",
    [[Outage("-1/0", 1.0, 0.5)], [Outage("-1/0", 1.0, 5.0), Outage("-1/0", 2.0, 3.0)], [Outage("x", 1.0)]],
)
def test_outages_that_cannot_be_are_refused(outages: list[Outage]) -> None:
    with pytest.raises(ValueError, match="outages"):
        simulate(RedundancyPlan(), [pool(2)], np.array([0.0]), outages=outages)
